package kernels

import (
	"strings"
	"testing"
)

// TestEntries: every kernel is made by KERNEL, since one that does not wait for
// the one before would run into it where launches overlap.
func TestEntries(t *testing.T) {
	for _, s := range append(Sources(), Headers()...) {
		want := 0
		if s.Name == "common.cuh" {
			want = 1
		}
		if got := strings.Count(s.Text, "__global__"); got != want {
			t.Errorf("%s says __global__ %d times, want %d", s.Name, got, want)
		}
	}
}
