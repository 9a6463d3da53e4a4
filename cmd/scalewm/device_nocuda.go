//go:build !gpu

package main

import (
	"scalewm/eval/bench"
	"scalewm/model/device"
	"scalewm/model/device/cuda/roofline"
)

const gpuBuild = false

func openGPU(device.Precision, func(error)) (device.Device, error) { return nil, errNoGPUBuild }
func measureGPU() (bench.Rates, error)                             { return bench.Rates{}, errNoGPUBuild }
func openTimed(roofline.Card) (bench.TimedDevice, error)           { return bench.TimedDevice{}, errNoGPUBuild }
