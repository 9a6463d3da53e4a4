package bench

import (
	"context"
	"fmt"
	"io"

	"scalewm/eval"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/cuda/roofline"
	"scalewm/model/lewm"
)

// KernelReport shows where the time of a training step and of plans goes: the time of
// each kernel, on a GPU in bf16, on a CPU in its faster precision.
type KernelReport struct {
	Train []KernelTime `json:"train"`
	Plan  []KernelTime `json:"plan"`
	Side  []KernelTime `json:"side,omitempty"` // plans of several episodes in one batch
}

// KernelTime is the total of all launches of a kernel in a step or plan. FloorMS is the
// time that their bytes and operations need at least, at the rates of the probe (the
// roofline model).
type KernelTime struct {
	Kernel   string  `json:"kernel"`
	Launches int     `json:"launches"`
	MS       float64 `json:"ms"`
	FloorMS  float64 `json:"floor_ms"`
	GB       float64 `json:"gb"`
	GFLOP    float64 `json:"gflop"`
}

// TimedDevice is a device that measures the time of each kernel. Reset discards the
// measured times, and Times returns the totals since then.
type TimedDevice struct {
	device.Device
	Reset func()
	Times func() []KernelTime
}

// timed opens the device whose kernels are timed. The floors of a GPU's kernels follow
// from the latest probe.
func (b *Bench) timed() (TimedDevice, error) {
	rates := b.report.Probes[len(b.report.Probes)-1]
	if b.report.Machine.GPU != "" {
		return b.Timed(roofline.Card{Bandwidth: rates.GPUCopy * 1e9, FLOPS: rates.GPUBF16 * 1e9})
	}
	precision := device.FP32
	if rates.BF16 > 0 {
		precision = device.BF16
	}
	dev, times, err := cpu.NewTimed(cpu.Options{Precision: precision})
	if err != nil {
		return TimedDevice{}, err
	}
	return TimedDevice{Device: dev, Reset: times.Reset, Times: func() (list []KernelTime) {
		for _, k := range times.List() {
			list = append(list, KernelTime{Kernel: k.Kernel, Launches: k.Calls, MS: k.Seconds * 1000, GB: k.Bytes / 1e9, GFLOP: k.FLOP / 1e9})
		}
		return list
	}}, nil
}

// setFloors sets the floors of a CPU's kernels, from the better rates of the probes
// before and after. Bytes are counted at the bandwidth of the shared cache.
func (r *KernelReport) setFloors(probes []Probe) {
	var flops, bytes float64
	for _, p := range probes {
		flops, bytes = max(flops, p.FP32, p.BF16), max(bytes, p.CacheGBs)
	}
	for _, list := range [][]KernelTime{r.Train, r.Plan, r.Side} {
		for i := range list {
			list[i].FloorMS = 1000 * max(list[i].GB/bytes, list[i].GFLOP/flops)
		}
	}
}

// benchKernels times the kernels of a training step and of plans, one episode at a time
// and b.Side episodes in one batch. On a GPU launches then run one by one and without
// graphs, so their sum is larger than the time of the same work in speed.go.
func benchKernels(ctx context.Context, b *Bench) error {
	dev, err := b.timed()
	if err != nil {
		return err
	}
	defer dev.Close()
	r := &KernelReport{}
	b.report.Kernels = r
	t, err := b.trial(dev, b.geometry())
	if err != nil {
		return err
	}
	r.Train, err = b.timeKernels(ctx, dev, func(context.Context) error { return t.Step() })
	t.Free()
	if err != nil {
		return err
	}
	w, err := lewm.New(dev, b.geometry(), 1)
	if err != nil {
		return err
	}
	defer w.Free()
	if r.Plan, err = b.timeKernels(ctx, dev, eval.NewTrial(w, eval.Tiers()[0], 1).Plan); err != nil || b.Side == 0 {
		return err
	}
	r.Side, err = b.timeKernels(ctx, dev, eval.NewTrial(w, eval.Tiers()[0], b.Side).Plan)
	return err
}

// timeKernels returns the means over rounds of the kernels of work. One run before the
// rounds does not count: it allocates memory and compiles kernels.
func (b *Bench) timeKernels(ctx context.Context, dev TimedDevice, work func(context.Context) error) ([]KernelTime, error) {
	for i := range b.Rounds + 1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if i == 1 {
			dev.Reset()
		}
		if err := work(ctx); err != nil {
			return nil, err
		}
	}
	// The device adds up all rounds. Every round has the same launches, so the division by
	// the number of rounds is exact.
	list, n := dev.Times(), float64(b.Rounds)
	for i := range list {
		k := &list[i]
		k.Launches /= b.Rounds
		k.MS, k.FloorMS, k.GB, k.GFLOP = k.MS/n, k.FloorMS/n, k.GB/n, k.GFLOP/n
	}
	return list, dev.Err()
}

// print writes the report for readers.
func (r *KernelReport) print(w io.Writer) {
	for _, part := range []struct {
		name string
		list []KernelTime
	}{{"a training step", r.Train}, {"a plan", r.Plan}, {"plans side by side", r.Side}} {
		if len(part.list) == 0 {
			continue
		}
		fmt.Fprintf(w, "kernels of %s\n  %-28s %8s %9s %9s %7s %9s %9s\n", part.name, "", "launches", "ms", "floor ms", "floor %", "GB/s", "GFLOP/s")
		sum := KernelTime{Kernel: "all"}
		for _, k := range part.list {
			k.print(w)
			sum.Launches, sum.MS, sum.FloorMS, sum.GB, sum.GFLOP = sum.Launches+k.Launches, sum.MS+k.MS, sum.FloorMS+k.FloorMS, sum.GB+k.GB, sum.GFLOP+k.GFLOP
		}
		sum.print(w)
	}
}

// print writes a row of a table.
func (k KernelTime) print(w io.Writer) {
	fmt.Fprintf(w, "  %-28s %8d %9.3f %9.3f %7.0f %9.0f %9.0f\n", k.Kernel, k.Launches, k.MS, k.FloorMS,
		100*over(k.FloorMS, k.MS), over(k.GB*1000, k.MS), over(k.GFLOP*1000, k.MS))
}
