//go:build !gpu

package main

import (
	"errors"

	"scalewm/eval/bench"
	"scalewm/model/device"
	"scalewm/model/device/cuda/roofline"
)

const gpuBuild = false

// errNoGPUBuild is what it answers where a GPU is asked for.
var errNoGPUBuild = errors.New("--device cuda: this binary computes on the processor only (hint: make setup-cuda && make cuda leaves bin/scalewm-cuda)")

func openGPU(device.Precision, func(error)) (device.Device, error) { return nil, errNoGPUBuild }
func measureGPU() (bench.Rates, error)                             { return bench.Rates{}, errNoGPUBuild }
func openTimed(roofline.Card) (bench.TimedDevice, error)           { return bench.TimedDevice{}, errNoGPUBuild }
