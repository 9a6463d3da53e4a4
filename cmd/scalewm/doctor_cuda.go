//go:build gpu

package main

import card "scalewm/model/device/cuda/gpu"

// usedGPU describes the GPU that this binary computes on, or returns why it uses
// none.
func usedGPU() (string, error) { return card.Describe() }
