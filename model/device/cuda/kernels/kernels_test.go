package kernels

import (
	"strings"
	"testing"
)

// TestEntries checks that every kernel is defined by KERNEL: one that does not wait for
// its predecessor would read results that are not yet written where launches overlap.
func TestEntries(t *testing.T) {
	for _, s := range append(Sources(), Headers()...) {
		want := 0
		if s.Name == "common.cuh" {
			want = 1
		}
		if got := strings.Count(s.Text, "__global__"); got != want {
			t.Errorf("%s contains __global__ %d times, want %d", s.Name, got, want)
		}
	}
}
