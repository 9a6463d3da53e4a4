//go:build cuda

package main

import (
	"scalewm/model/device"
	"scalewm/model/device/cuda"
	card "scalewm/model/device/cuda/gpu"
)

// gpuBuild says whether this binary can compute on a GPU (make cuda).
const gpuBuild = true

// openGPU starts the first GPU.
func openGPU(p device.Precision) (device.Device, error) {
	m, err := card.Open()
	if err != nil {
		return nil, err
	}
	return cuda.New(m, p)
}
