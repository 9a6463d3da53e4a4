//go:build !gpu

package main

import "errors"

// usedGPU returns an error: only a binary built by `make cuda` computes on a GPU.
func usedGPU() (string, error) {
	return "", errors.New("not used by this binary: make setup-cuda && make cuda builds bin/scalewm-cuda, which uses it")
}
