//go:build cuda

package main

import (
	"scalewm/model/device"
	"scalewm/model/device/cuda"
	card "scalewm/model/device/cuda/gpu"
	"scalewm/model/device/cuda/roofline"
)

// gpuBuild says whether this binary can compute on a GPU (make cuda).
const gpuBuild = true

// openGPU starts the first GPU; warn is told where it computes below its best.
func openGPU(p device.Precision, warn func(error)) (device.Device, error) {
	m, err := card.Open()
	if err != nil {
		return nil, err
	}
	if err := card.Reduced(m); err != nil {
		warn(err)
	}
	return cuda.New(m, p)
}

func measureGPU() (gpuRates, error) {
	r, err := card.Measure()
	return gpuRates{name: r.Name, by: r.By, fp32: r.FP32, bf16: r.BF16, copy: r.Copy}, err
}

// openTimed starts the first GPU in bf16 to time its kernels.
func openTimed(c roofline.Card) (timedDevice, error) {
	m, err := card.OpenTimed(c)
	if err != nil {
		return timedDevice{}, err
	}
	d, err := cuda.New(m, device.BF16)
	return timedDevice{Device: d, reset: m.Reset, times: func() (list []kernelTime) {
		for _, k := range m.Times() {
			list = append(list, kernelTime{Kernel: k.Kernel, Launches: k.Launches, MS: k.Seconds * 1000, FloorMS: k.Floor * 1000,
				GB: float64(k.Read+k.Written) / 1e9, GFLOP: k.FLOP / 1e9})
		}
		return list
	}}, err
}
