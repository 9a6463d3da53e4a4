//go:build gpu

package gpu

import (
	"fmt"

	"gorgonia.org/cu"
)

// Describe returns a line with the name, compute capability and memory of GPU 0 and the
// driver's version, or an error that says why the GPU cannot be used. It creates no
// context and so leaves the GPU untouched.
func Describe() (string, error) {
	if err := available(); err != nil {
		return "", err
	}
	d, err := cu.GetDevice(0)
	if err != nil {
		return "", fmt.Errorf("looking for the GPU: %w (hint: nvidia-smi, CUDA_VISIBLE_DEVICES)", err)
	}
	name, err := d.Name()
	if err != nil {
		return "", fmt.Errorf("querying the GPU's name: %w (hint: use --device cpu)", err)
	}
	major, minor, err := d.ComputeCapability()
	if err != nil {
		return "", fmt.Errorf("querying the compute capability of %s: %w (hint: use --device cpu)", name, err)
	}
	if major < oldestGPU {
		return "", fmt.Errorf("%s: %w", name, tooOld(major, minor))
	}
	bytes, err := d.TotalMem()
	if err != nil {
		return "", fmt.Errorf("querying the memory of %s: %w (hint: use --device cpu)", name, err)
	}
	v := cu.Version()
	return fmt.Sprintf("%s, compute capability %d.%d, %d GiB, driver for CUDA %d.%d", name, major, minor, bytes>>30, v/1000, v%1000/10), nil
}

// tooOld returns the error for a GPU older than Ampere.
func tooOld(major, minor int) error {
	return fmt.Errorf("its compute capability is %d.%d, but 8.0 is required (hint: use --device cpu)", major, minor)
}
