package main

import (
	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// deviceFlags are --device and --precision of the verbs that compute.
type deviceFlags struct{ name, precision *string }

func (c *command) deviceFlags(precisions string) deviceFlags {
	return deviceFlags{
		c.String("device", "auto", "`where` to compute: auto or cpu"),
		c.String("precision", "auto", "`of` the matrix products: fp32, bf16, or auto: "+precisions),
	}
}

// open starts the device; wantBF16 is what auto means where the machine multiplies bf16.
func (f deviceFlags) open(wantBF16 bool) (device.Device, error) {
	if *f.name != "auto" && *f.name != "cpu" {
		return nil, usagef("--device %s: this program has auto and cpu", *f.name)
	}
	p := device.Precision(*f.precision)
	switch p {
	case "auto":
		p = device.FP32
		if wantBF16 && cpu.HasBF16() {
			p = device.BF16
		}
	case device.FP32, device.BF16:
	default:
		return nil, usagef("--precision %s: choose fp32, bf16 or auto", p)
	}
	return cpu.New(cpu.Options{Precision: p})
}
