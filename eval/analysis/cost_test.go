package analysis

import (
	"testing"
	"time"
)

// affordable returns as many units of work as fit into the duration, between the
// minimum and all.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		fit            time.Duration
		took           float64
		few, all, want int
	}{
		{2 * time.Second, 0.5, 1, 30, 4},
		{2 * time.Second, 0.01, 1, 30, 30},
		{2 * time.Second, 90, 1, 30, 1},
		{2 * time.Second, 1, 8, 128, 16},
		{0, 1, 8, 128, 8},
		{time.Second, 0, 1, 30, 30},
	} {
		if got := affordable(c.fit, c.took, c.few, c.all); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
