//go:build !cuda

package main

import "errors"

// usedGPU is for the other binary.
func usedGPU() (string, error) {
	return "", errors.New("not used by this binary: make setup-cuda && make cuda leaves bin/scalewm-cuda, which does")
}
