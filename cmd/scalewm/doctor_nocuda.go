//go:build !gpu

package main

import "errors"

// usedGPU finds none: only a binary that make cuda built computes on a GPU.
func usedGPU() (string, error) {
	return "", errors.New("not used by this binary: make setup-cuda && make cuda leaves bin/scalewm-cuda, which does")
}
