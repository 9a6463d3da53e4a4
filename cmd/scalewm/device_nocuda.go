//go:build !cuda

package main

import (
	"errors"

	"scalewm/model/device"
)

const gpuBuild = false

func openGPU(device.Precision) (device.Device, error) {
	return nil, errors.New("--device cuda: this binary computes on the processor only (hint: make setup-cuda && make cuda leaves bin/scalewm-cuda)")
}
