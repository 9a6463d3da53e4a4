//go:build !gpu

package main

import (
	"scalewm/eval/bench"
	"scalewm/model/device"
	"scalewm/model/device/cuda/roofline"
)

// gpuBuild reports whether this binary can compute on a GPU.
const gpuBuild = false

// The functions of device_cuda.go are errors in a binary without CUDA.

func openGPU(device.Precision, func(error)) (device.Device, error) { return nil, errNoGPUBuild }
func measureGPU() (bench.Rates, error)                             { return bench.Rates{}, errNoGPUBuild }
func openTimed(roofline.Card) (bench.TimedDevice, error)           { return bench.TimedDevice{}, errNoGPUBuild }
