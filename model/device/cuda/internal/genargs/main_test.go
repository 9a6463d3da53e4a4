package main

import (
	"os"
	"testing"
)

// TestGeneratedFileIsCurrent compares the arguments in the tree with what the
// kernels' headers say.
func TestGeneratedFileIsCurrent(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../../args_gen.go"); err != nil || string(got) != string(want) {
		t.Errorf("args_gen.go differs from what kernels/*.cuh say (%v) (hint: go generate ./model/device/cuda)", err)
	}
}
