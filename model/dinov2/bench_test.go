package dinov2

import (
	"syscall"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// BenchmarkEncode measures the published size on one thread, in processor time.
// testdata/bench.py measures PyTorch.
func BenchmarkEncode(b *testing.B) {
	for _, p := range []device.Precision{device.FP32, device.BF16} {
		b.Run(string(p), func(b *testing.B) {
			dev, err := cpu.New(cpu.Options{Precision: p, Threads: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer dev.Close()
			const frames = 16
			c := Small()
			e, pass := ready(b, dev, c, nil)
			px, dst := dev.AllocBytes(frames*3*c.FrameSize*c.FrameSize), device.NewMat(dev, frames*c.Patches(), c.Width)
			e.Into(pass, dst, px, nil, frames) // allocates memory
			begin := busy()
			for b.Loop() {
				pass.Reset()
				e.Into(pass, dst, px, nil, frames)
			}
			seconds := (busy() - begin) / float64(b.N) / frames
			machine, err := cpu.Measure(p, 1)
			if err != nil {
				b.Fatal(err)
			}
			rate := c.FrameFLOP() / seconds / 1e9
			b.ReportMetric(1/seconds, "frames/s")
			b.ReportMetric(rate, "GFLOP/s")
			b.ReportMetric(rate/machine.Products, "of-peak")
		})
	}
}

// busy returns the process's processor time in seconds.
func busy() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(syscall.TimevalToNsec(u.Utime)+syscall.TimevalToNsec(u.Stime)) / 1e9
}
