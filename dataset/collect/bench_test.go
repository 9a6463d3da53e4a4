package collect

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// cpuTime returns the processor time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTwoRoom records complete episodes: steps, drawing and deflate, as for a
// part. The rate is per second of processor time, so that results on a busy machine
// can be compared.
func BenchmarkTwoRoom(b *testing.B) {
	j, err := Prepare(context.Background(), filepath.Join(b.TempDir(), "d.h5"), Spec{Task: "tworoom", Episodes: 1, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	w, err := newWorker(j)
	if err != nil {
		b.Fatal(err)
	}
	defer w.close()
	rows, bytes, i := 0, 0, 0
	began := cpuTime(b)
	for b.Loop() {
		e, err := w.record(b.Context(), i)
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range e.frames {
			bytes += len(f)
		}
		rows += e.rows
		i++
	}
	b.ReportMetric(float64(rows)/(cpuTime(b)-began).Seconds(), "rows/cpu-s")
	b.ReportMetric(float64(bytes)/float64(rows), "B/row")
}
