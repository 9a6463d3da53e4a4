package main

import (
	"errors"
	"fmt"
	"io"

	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// deviceFlags are --device and --precision of the verbs that compute. Results on
// different kinds of device (backend, instruction set, precision) may differ in their
// last bits, so that each cell records the kind it was computed on.
type deviceFlags struct {
	name, precision *string
	stderr          io.Writer // receives a line if auto does not use the GPU
}

// deviceFlags defines both flags. precisions completes the description of what auto
// means.
func (c *command) deviceFlags(precisions string) deviceFlags {
	return deviceFlags{
		c.OneOf("device", "`device` to compute on: auto, cpu or cuda (only in the binary built by make cuda, where auto prefers the GPU)", "auto", "cpu", "cuda"),
		c.OneOf("precision", "`precision` of matrix multiplications: fp32, bf16, or auto, which is "+precisions, "auto", string(device.FP32), string(device.BF16)),
		c.stderr,
	}
}

// errNoGPUBuild is the error of --device cuda in a binary that was built without
// CUDA.
var errNoGPUBuild = errors.New("--device cuda: this binary computes on the processor only (hint: make setup-cuda && make cuda builds bin/scalewm-cuda)")

// open opens the device that the flags select; the caller closes it. With --device
// auto it uses the GPU if this binary can and there is one, else the CPU. wantBF16
// says what --precision auto means on a machine that supports bf16.
func (f deviceFlags) open(wantBF16 bool) (device.Device, error) {
	p := device.Precision(*f.precision)
	pick := func(has bool) device.Precision { // has: the device supports bf16
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
	case *f.name == "cuda": // explicit: any failure is an error
		return openGPU(pick(true), warn)
	case *f.name == "auto" && gpuBuild:
		d, err := openGPU(pick(true), warn)
		if err == nil {
			return d, nil
		}
		// Not an error: auto means the best device that works. But users who expect the
		// GPU must learn why it is not used.
		fmt.Fprintln(f.stderr, "scalewm: computing on the processor:", err)
	}
	return cpu.New(cpu.Options{Precision: pick(cpu.HasBF16())})
}
