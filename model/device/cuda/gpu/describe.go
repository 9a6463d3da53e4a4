//go:build gpu

package gpu

import (
	"fmt"

	"gorgonia.org/cu"
)

// Describe names GPU 0 and what matters of it, or says why it cannot be used. It
// starts nothing there.
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
		return "", fmt.Errorf("queries for the GPU's name: %w (hint: use --device cpu)", err)
	}
	major, minor, err := d.ComputeCapability()
	if err != nil {
		return "", fmt.Errorf("queries %s for its compute capability: %w (hint: use --device cpu)", name, err)
	}
	if major < oldestGPU {
		return "", fmt.Errorf("%s: %w", name, tooOld(major, minor))
	}
	bytes, err := d.TotalMem()
	if err != nil {
		return "", fmt.Errorf("queries %s for its memory: %w (hint: use --device cpu)", name, err)
	}
	v := cu.Version()
	return fmt.Sprintf("%s, compute capability %d.%d, %d GiB, driver for CUDA %d.%d", name, major, minor, bytes>>30, v/1000, v%1000/10), nil
}

func tooOld(major, minor int) error {
	return fmt.Errorf("its compute capability is %d.%d, 8.0 is needed (hint: use --device cpu)", major, minor)
}
