package main

import (
	"errors"
	"fmt"
	"io"

	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// deviceFlags are --device and --precision of the verbs that compute.
type deviceFlags struct {
	name, precision *string
	stderr          io.Writer // for the one line that says why auto is not the GPU
}

func (c *command) deviceFlags(precisions string) deviceFlags {
	return deviceFlags{
		c.OneOf("device", "`where` to compute: auto, cpu or cuda (in the binary of make cuda, whose auto is the GPU if there is one)", "auto", "cpu", "cuda"),
		c.OneOf("precision", "`of` the matrix products: fp32, bf16, or auto: "+precisions, "auto", string(device.FP32), string(device.BF16)),
		c.stderr,
	}
}

// errNoGPUBuild answers where a GPU is asked for and gpuBuild is false.
var errNoGPUBuild = errors.New("--device cuda: this binary computes on the processor only (hint: make setup-cuda && make cuda leaves bin/scalewm-cuda)")

// open starts the device; wantBF16 is what auto means where the machine multiplies bf16.
func (f deviceFlags) open(wantBF16 bool) (device.Device, error) {
	p := device.Precision(*f.precision)
	pick := func(has bool) device.Precision {
		switch {
		case p != "auto":
			return p
		case wantBF16 && has:
			return device.BF16
		}
		return device.FP32
	}
	warn := func(err error) { fmt.Fprintln(f.stderr, "scalewm: GPU:", err) }
	switch {
	case *f.name == "cuda":
		return openGPU(pick(true), warn)
	case *f.name == "auto" && gpuBuild:
		d, err := openGPU(pick(true), warn)
		if err == nil {
			return d, nil
		}
		fmt.Fprintln(f.stderr, "scalewm: computing on the processor:", err)
	}
	return cpu.New(cpu.Options{Precision: pick(cpu.HasBF16())})
}
