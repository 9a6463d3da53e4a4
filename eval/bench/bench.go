// Package bench measures how fast this machine does the work of the program, next to what
// the machine can do at best and, with a Python interpreter, next to the reference
// implementations. `scalewm bench` uses it.
//
// A part is one kind of work: worlds, loading, a training step, a plan, single kernels, the
// geometry of latents. Bench.Run measures the requested parts and returns a Report, which is
// printed or written as JSON.
//
// Two things make the numbers robust on machines that other programs share. Contenders
// (programs, or variants of one) alternate run by run instead of one after the other, so
// load of other programs slows all of them alike, and medians are compared (see
// alternate). And short probes of the peak rates before each part and after the last show
// whether the machine was as fast as usual, which turns a time into a share of what was
// possible at that moment.
//
//	bench.go    Bench, Report, probes
//	rounds.go   alternating runs and medians
//	peer.go     the Python programs in peers/*.py
//	speed.go    training steps and plans; kernels.go: their kernels
//	env.go, load.go, latents.go  the other parts
package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"scalewm/eval/pipeline"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/cuda/roofline"
	"scalewm/model/lewm"
)

// parts lists the parts in the order in which they run. Each fills in its part of the
// report.
var parts = []struct {
	name string
	run  func(context.Context, *Bench) error
}{{"env", benchEnv}, {"load", benchLoad}, {"train", benchTrain}, {"plan", benchPlan}, {"kernels", benchKernels},
	{"latents", benchLatents}, {"wide", benchWide}}

// Parts returns the names of the parts.
func Parts() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// Bench describes what is measured, and how. Peer, Data, Side and GPU are optional. A
// Bench is used for one Run.
type Bench struct {
	Preset   *pipeline.Preset // geometry and recipe, with two-dimensional actions; see Preset
	Geometry string           // description of the preset's geometry
	Peer     string           // path of a Python interpreter; "" to run no reference programs
	Data     string           // data set of the part load; "" to collect some episodes
	Rounds   int              // runs of each contender that count
	Side     int              // number of episodes planned in one batch; 0 to measure single plans only
	Device   string           // cpu, cuda or auto
	Version  string           // version of the program, for the report
	// Open opens the device of a precision.
	Open func(device.Precision) (device.Device, error)
	// GPU measures the peak rates of the GPU. It is nil if nothing runs on a GPU.
	GPU func() (Rates, error)
	// Timed opens a GPU that measures the time of each kernel. It is called only if GPU
	// succeeded.
	Timed func(roofline.Card) (TimedDevice, error)
	Note  func(format string, args ...any) // receives progress messages

	report Report
}

// Rates are the peak rates of a GPU, measured with a large GEMM and a copy within its memory.
type Rates struct {
	Name, By   string  // of the GPU, and of the library whose GEMM was timed
	FP32, BF16 float64 // GFLOP/s
	Copy       float64 // GB/s, bytes read and written
}

// Report is the result of Run, in JSON. Parts that were not requested are nil.
type Report struct {
	Train   *Speed         `json:"train,omitempty"`
	Plan    *Speed         `json:"plan,omitempty"`
	Load    *LoadReport    `json:"load,omitempty"`
	Env     *EnvReport     `json:"env,omitempty"`
	Kernels *KernelReport  `json:"kernels,omitempty"`
	Latents *LatentsReport `json:"latents,omitempty"`
	Wide    *LatentsReport `json:"wide,omitempty"`
	Machine Machine        `json:"machine"`
	Probes  []Probe        `json:"probes"` // before each part, and after the last
}

// Machine describes where a report was measured.
type Machine struct {
	Path    string `json:"path"` // instruction set of the CPU kernels
	Threads int    `json:"threads"`
	Version string `json:"version"`
	GPU     string `json:"gpu,omitempty"`     // its name, if work ran on a GPU
	PeakBy  string `json:"peak_by,omitempty"` // library whose GEMM the GPU probes timed
}

// Probe holds the peak rates of the machine at one moment. Other programs on the same host
// can halve them for seconds, so a time is compared with the probes around it.
type Probe struct {
	When     string  `json:"when"` // "before PART" or "after"
	FP32     float64 `json:"fp32_gflops"`
	BF16     float64 `json:"bf16_gflops"` // by AMX tiles or bf16 pairs; 0 if the CPU has neither
	CacheGBs float64 `json:"cache_gb_s"`  // reads from the cache that the cores share
	// Rates of the GPU: GEMMs, and a copy within its memory (bytes read and written).
	GPUFP32 float64 `json:"gpu_fp32_gflops,omitempty"`
	GPUBF16 float64 `json:"gpu_bf16_gflops,omitempty"`
	GPUCopy float64 `json:"gpu_copy_gb_s,omitempty"`
}

// Preset loads a preset by name or path, sets two-dimensional actions, and returns it
// with a description of its geometry. The name "" stands for the geometry with 10.77 M
// parameters for which times of PyTorch are known: preset small with 32 clips. Changes
// are those of pipeline.LoadPreset.
func Preset(name string, changes ...string) (*pipeline.Preset, string, error) {
	known := name == ""
	if known {
		name = "small"
	}
	p, err := pipeline.LoadPreset(name, changes...)
	if err != nil {
		return nil, "", err
	}
	if known {
		p.Train.Batch = 32
	}
	// Two-dimensional actions as in Two-Room, whatever the task of the preset: times are
	// comparable only at equal sizes.
	m := p.Models["model"].(*lewm.Config)
	m.ActionDim = 2
	return p, fmt.Sprintf("%d clips x %d frames of %d px, patch %d, width %d x %d layers, latent %d, predictor %d x %d heads of %d",
		p.Train.Batch, m.History+1, m.ImageSize, m.Patch, m.Width, m.Layers, m.Dim, m.PredictorDepth, m.PredictorHeads, m.PredictorHeadDim), nil
}

// geometry returns the geometry of LeWM in the preset, which LoadPreset has validated.
func (b *Bench) geometry() lewm.Config {
	m := b.Preset.Models["model"].(*lewm.Config)
	g, err := m.Geometry(model.Method{}, m.ActionDim, nil)
	if err != nil {
		panic("bench: " + err.Error())
	}
	return g.(lewm.Config)
}

// Run measures the named parts, with a probe of the machine before each and after the
// last. It stops at the first error.
func (b *Bench) Run(ctx context.Context, names []string) (*Report, error) {
	path := os.Getenv(cpu.ISAVariable)
	if path == "" {
		path = cpu.Paths()[0]
	}
	b.report = Report{Machine: Machine{Path: path, Threads: runtime.GOMAXPROCS(0), Version: b.Version}}
	for _, p := range parts {
		if !slices.Contains(names, p.name) {
			continue
		}
		if err := b.probe("before " + p.name); err != nil {
			return nil, err
		}
		resetPeak() // each part reports its own peak of memory
		if err := p.run(ctx, b); err != nil {
			// The context also kills a peer. Report the interrupt instead of its death.
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("measuring %s: %w", p.name, err)
		}
	}
	if err := b.probe("after"); err != nil {
		return nil, err
	}
	// Every part has a probe before and after it. The better one is the peak: a probe can be
	// disturbed too, and a peak below what the work achieved would be absurd.
	for i, before := range b.report.Probes {
		switch before.When {
		case "before train":
			b.report.Train.setPeak(b.report.Probes[i : i+2])
		case "before plan":
			b.report.Plan.setPeak(b.report.Probes[i : i+2])
		case "before kernels":
			if b.report.Machine.GPU == "" {
				b.report.Kernels.setFloors(b.report.Probes[i : i+2])
			}
		}
	}
	return &b.report, nil
}

// probe measures the peak rates of the CPU and of the GPU, and adds them to the report.
// On the CPU it runs short loops of the fastest instructions, not kernels of the
// program, so a rate is what a perfect kernel could achieve. It takes a few tenths of a
// second.
func (b *Bench) probe(when string) error {
	r, err := cpu.Measure("fp32", 0)
	if err != nil {
		return err
	}
	p := Probe{When: when, FP32: r.FMA, CacheGBs: r.Read}
	if cpu.HasBF16() {
		if r, err = cpu.Measure("bf16", 0); err != nil {
			return err
		}
		p.BF16 = r.Products
	}
	b.Note("%s: %.0f GFLOP/s fp32, %.0f bf16 (%s), %.0f GB/s from the shared cache", when, p.FP32, p.BF16, b.report.Machine.Path, p.CacheGBs)
	if err := b.probeGPU(&p); err != nil {
		return err
	}
	b.report.Probes = append(b.report.Probes, p)
	return nil
}

// probeGPU adds the rates of the GPU to a probe, if work runs on one.
func (b *Bench) probeGPU(p *Probe) error {
	if b.GPU == nil {
		return nil
	}
	r, err := b.GPU()
	if err != nil {
		if b.Device == "auto" {
			return nil // the work runs on the CPU
		}
		return err
	}
	m := &b.report.Machine
	m.GPU, m.PeakBy = r.Name, r.By
	p.GPUFP32, p.GPUBF16, p.GPUCopy = r.FP32, r.BF16, r.Copy
	b.Note("%s: %.0f GFLOP/s fp32, %.0f bf16 (%s), %.0f GB/s copied", r.Name, r.FP32, r.BF16, r.By, r.Copy)
	return nil
}

// Print writes the report for readers.
func (r *Report) Print(w io.Writer) error {
	var s strings.Builder
	for _, p := range []struct {
		name string
		v    *Speed
	}{{"training step", r.Train}, {"plan", r.Plan}} {
		if p.v != nil {
			p.v.print(&s, p.name)
		}
	}
	if r.Load != nil {
		r.Load.print(&s)
	}
	if r.Env != nil {
		r.Env.print(&s)
	}
	if r.Kernels != nil {
		r.Kernels.print(&s)
	}
	for _, l := range []*LatentsReport{r.Latents, r.Wide} {
		if l != nil {
			l.print(&s)
		}
	}
	_, err := io.WriteString(w, s.String())
	return err
}
