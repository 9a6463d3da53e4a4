package bench

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// contender is a program, or a variant of one, in a comparison. Contenders of one
// comparison have different names.
type contender struct {
	name string
	// once does the work once, and returns milliseconds. 0 means that it was not done.
	once func(context.Context) (float64, error)
}

// timed returns a contender that does work in this process.
func timed(name string, work func(context.Context) error) contender {
	return contender{name, func(ctx context.Context) (float64, error) {
		began := time.Now()
		err := work(ctx)
		return milliseconds(began), err
	}}
}

// milliseconds returns the time since began.
func milliseconds(began time.Time) float64 { return time.Since(began).Seconds() * 1000 }

// alternate runs the contenders alternately, b.Rounds times each, and returns the
// median of each. Load of other programs and changes of the clock frequency then affect
// all contenders alike, while running one after the other would compare different
// minutes. The median ignores single disturbed runs. A first run of each, which fills
// caches, does not count.
func (b *Bench) alternate(ctx context.Context, all []contender) (map[string]float64, error) {
	times := map[string][]float64{}
	for round := range b.Rounds + 1 {
		for _, c := range all {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			ms, err := c.once(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if round > 0 {
				times[c.name] = append(times[c.name], ms)
			}
		}
	}
	medians := map[string]float64{}
	var line strings.Builder
	for _, name := range slices.Sorted(maps.Keys(times)) {
		medians[name] = median(times[name])
		fmt.Fprintf(&line, " %s %.4g ms", name, medians[name])
	}
	b.Note("medians:%s", &line)
	return medians, nil
}

// median returns the median of v, which is not empty.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// fastest returns the smallest positive number, or 0 if there is none.
func fastest(ms ...float64) float64 {
	best := 0.0
	for _, v := range ms {
		if v > 0 && (best == 0 || v < best) {
			best = v
		}
	}
	return best
}

// over returns a/b, or 0 if b is 0.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// resetPeak resets the process's peak of resident memory, if Linux permits it.
// Otherwise peakMB returns the peak since the start of the process. Freed memory is
// returned to the system first, since it would count as resident.
func resetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// peakMB returns the peak of resident memory since resetPeak, in units of 10^6 bytes,
// or 0 if it is not known.
func peakMB() float64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kB float64
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			if _, err := fmt.Sscan(rest, &kB); err == nil {
				return kB * 1024 / 1e6
			}
		}
	}
	return 0
}
