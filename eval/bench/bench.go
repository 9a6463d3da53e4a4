// Package bench measures the speed of this machine next to its peak, and next to the reference Python
// programs doing the same work: simulators, loading, a training step, a plan, single kernels, the
// geometry of latents. `scalewm bench` prints its [Report].
//
// Virtual machines slow down for seconds at a time when other machines on the host are busy. Therefore
// all contenders alternate, their medians count, and a probe of the machine's peak runs before each
// part and after the last. Ratios within one run can be compared; times of different runs cannot.
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
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/cuda/roofline"
	"scalewm/model/lewm"
)

// parts has what can be measured, in the order in which it runs. Each function sets its part of the
// report.
var parts = []struct {
	name string
	run  func(context.Context, *Bench) error
}{{"env", benchEnv}, {"load", benchLoad}, {"train", benchTrain}, {"plan", benchPlan}, {"kernels", benchKernels},
	{"latents", benchLatents}, {"wide", benchWide}}

// Parts returns the names of the parts that can be measured.
func Parts() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// Bench has the settings of a measurement.
type Bench struct {
	Preset   *pipeline.Preset // for two-dimensional actions
	Geometry string           // of the preset, in words
	Peer     string           // Python interpreter with the reference programs; "": none
	Data     string           // data set for load; "": collect some episodes
	Rounds   int
	Side     int    // also plan this many episodes in one batch; 0: do not
	Device   string // cpu, cuda or auto
	Version  string // of the program
	Open     func(device.Precision) (device.Device, error)
	GPU      func() (Rates, error) // nil if nothing runs on a GPU
	Timed    func(roofline.Card) (TimedDevice, error)
	Note     func(format string, args ...any) // receives progress messages

	report Report
}

// Rates are the peak rates of a GPU in GFLOP/s and GB/s, and the library whose GEMM measured them.
type Rates struct {
	Name, By         string
	FP32, BF16, Copy float64
}

// Report is the JSON object. Parts that were not requested are left out.
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

// Machine describes where the report was measured.
type Machine struct {
	Path    string `json:"path"` // instruction set of bf16 GEMMs
	Threads int    `json:"threads"`
	Version string `json:"version"`
	GPU     string `json:"gpu,omitempty"`     // name of the GPU, if work ran on one
	PeakBy  string `json:"peak_by,omitempty"` // library whose GEMM the GPU's probes timed
}

// Probe is the peak speed of the machine at one moment. Other programs on the same host can halve it
// for seconds.
type Probe struct {
	When     string  `json:"when"`
	FP32     float64 `json:"fp32_gflops"`
	BF16     float64 `json:"bf16_gflops"` // by tiles or bf16 dot products; 0 if the machine has neither
	CacheGBs float64 `json:"cache_gb_s"`  // reading from the shared cache
	// GPU: a large GEMM in each precision, and a copy within its memory (bytes read plus written).
	GPUFP32 float64 `json:"gpu_fp32_gflops,omitempty"`
	GPUBF16 float64 `json:"gpu_bf16_gflops,omitempty"`
	GPUCopy float64 `json:"gpu_copy_gb_s,omitempty"`
}

// Preset returns a preset by name or path, for two-dimensional actions, and its geometry in words. ""
// is the geometry of 10.77 M parameters for which PyTorch's times are known: preset small with 32
// clips. Changes are as in pipeline.LoadPreset.
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
	m := p.Models["model"].(*lewm.Config)
	m.ActionDim = 2
	return p, fmt.Sprintf("%d clips x %d frames of %d px, patch %d, width %d x %d layers, latent %d, predictor %d x %d heads of %d",
		p.Train.Batch, m.History+1, m.ImageSize, m.Patch, m.Width, m.Layers, m.Dim, m.PredictorDepth, m.PredictorHeads, m.PredictorHeadDim), nil
}

// geometry returns the preset's geometry of LeWM.
func (b *Bench) geometry() lewm.Config { return *b.Preset.Models["model"].(*lewm.Config) }

// Run measures the named parts, with a probe of the machine before each and after the last.
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
			if ctx.Err() != nil { // an interruption ends the peer too, with an error that says less
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("measuring %s: %w", p.name, err)
		}
	}
	if err := b.probe("after"); err != nil {
		return nil, err
	}
	// The peak of a part is the better of the probes on both sides of it, since a neighbour on the host may
	// have slowed either.
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

// probe measures the machine's peak rates and adds them to the report. when says where in the run it is.
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

// probeGPU adds the GPU's rates to a probe, if work runs on one.
func (b *Bench) probeGPU(p *Probe) error {
	if b.GPU == nil {
		return nil
	}
	r, err := b.GPU()
	if err != nil {
		if b.Device == "auto" {
			return nil // no GPU: the work runs on the processor
		}
		return err
	}
	m := &b.report.Machine
	m.GPU, m.PeakBy = r.Name, r.By
	p.GPUFP32, p.GPUBF16, p.GPUCopy = r.FP32, r.BF16, r.Copy
	b.Note("%s: %.0f GFLOP/s fp32, %.0f bf16 (%s), %.0f GB/s copied", r.Name, r.FP32, r.BF16, r.By, r.Copy)
	return nil
}

// Print writes the report as text.
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
