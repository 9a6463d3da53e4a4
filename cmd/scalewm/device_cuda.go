//go:build gpu

package main

import (
	"scalewm/eval/bench"
	"scalewm/model/device"
	"scalewm/model/device/cuda"
	card "scalewm/model/device/cuda/gpu"
	"scalewm/model/device/cuda/roofline"
)

// gpuBuild reports whether this binary can compute on a GPU. It is true in the binary
// that `make cuda` builds with the tag gpu.
const gpuBuild = true

// openGPU opens the first GPU. It calls warn if the GPU works, but not at its full
// speed.
func openGPU(p device.Precision, warn func(error)) (device.Device, error) {
	m, err := card.Open()
	if err != nil {
		return nil, err
	}
	if err := card.FallbackReason(m); err != nil {
		warn(err)
	}
	return cuda.New(m, p)
}

// measureGPU measures the peak rates of the first GPU, for bench.
func measureGPU() (bench.Rates, error) {
	r, err := card.Measure()
	return bench.Rates{Name: r.Name, By: r.By, FP32: r.FP32, BF16: r.BF16, Copy: r.Copy}, err
}

// openTimed opens the first GPU in bf16 such that it times each of its kernels, for
// bench.
func openTimed(c roofline.Card) (bench.TimedDevice, error) {
	m, err := card.OpenTimed(c)
	if err != nil {
		return bench.TimedDevice{}, err
	}
	d, err := cuda.New(m, device.BF16)
	return bench.TimedDevice{Device: d, Reset: m.Reset, Times: func() (list []bench.KernelTime) {
		for _, k := range m.Times() {
			list = append(list, bench.KernelTime{Kernel: k.Kernel, Launches: k.Launches, MS: k.Seconds * 1000, FloorMS: k.Floor * 1000,
				GB: float64(k.Read+k.Written) / 1e9, GFLOP: k.FLOP / 1e9})
		}
		return list
	}}, err
}
