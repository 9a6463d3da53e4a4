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

// contender is one program, or one way to run it, in a comparison.
type contender struct {
	name string
	// once does the work once and returns milliseconds.
	once func(context.Context) (float64, error)
}

// timed makes a contender of work of ours.
func timed(name string, work func(context.Context) error) contender {
	return contender{name, func(ctx context.Context) (float64, error) {
		began := time.Now()
		err := work(ctx)
		return milliseconds(began), err
	}}
}

func milliseconds(began time.Time) float64 { return time.Since(began).Seconds() * 1000 }

// takeTurns lets the contenders take turns, so that other programs' load meets all of
// them, and returns each one's median; the first turn of each does not count.
func (b *Bench) takeTurns(ctx context.Context, all []contender) (map[string]float64, error) {
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

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// fastest is the smallest positive number, 0 without one.
func fastest(ms ...float64) float64 {
	best := 0.0
	for _, v := range ms {
		if v > 0 && (best == 0 || v < best) {
			best = v
		}
	}
	return best
}

// over is a/b, and 0 where there is nothing to compare with.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// resetPeak forgets the process's peak of resident memory, where Linux lets it;
// else peakMB is that of the whole process.
func resetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// peakMB is the peak of resident memory since resetPeak, in MB of 10^6 bytes.
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
