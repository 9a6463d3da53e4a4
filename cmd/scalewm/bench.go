package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"scalewm/eval/pipeline"
	"scalewm/model/device/cpu"
)

func init() {
	register(verb{name: "bench", summary: "measure this machine's rates, beside its peak and the original Python programs",
		example: "scalewm bench --what train,plan --json\nscalewm bench --peer third_party/fetched/peers/bin/python", run: runBench})
}

// benchPart is a value of --what; it fills its part of the report.
type benchPart struct {
	name string
	run  func(context.Context, *bench) error
}

// benchParts in the order in which they run.
var benchParts = []benchPart{{"env", benchEnv}, {"load", benchLoad}, {"train", benchTrain}, {"plan", benchPlan}, {"kernels", benchKernels}}

// bench is one invocation of the verb.
type bench struct {
	preset   *pipeline.Preset
	geometry string
	device   string // cpu, cuda or auto
	peer     string // interpreter; "": none
	data     string // data set of load; "": some episodes are collected
	rounds   int
	side     int // episodes planned side by side, 0: none
	note     func(format string, args ...any)
	report   benchReport
}

// benchReport is the JSON object; parts that were not asked for are left out.
type benchReport struct {
	Train   *speed        `json:"train,omitempty"`
	Plan    *speed        `json:"plan,omitempty"`
	Load    *loadReport   `json:"load,omitempty"`
	Env     *envReport    `json:"env,omitempty"`
	Kernels *kernelReport `json:"kernels,omitempty"`
	Machine benchMachine  `json:"machine"`
	Probes  []benchProbe  `json:"probes"` // before each part, and after the last
}

// benchMachine is where it was measured.
type benchMachine struct {
	Path    string `json:"path"` // instruction set of bf16 products
	Threads int    `json:"threads"`
	Version string `json:"version"`
	GPU     string `json:"gpu,omitempty"`     // its name, where work ran on one
	PeakBy  string `json:"peak_by,omitempty"` // whose products the GPU's probes timed
}

// benchProbe is what the machine did at best at one moment: other programs on the
// same host can halve it for seconds.
type benchProbe struct {
	When     string  `json:"when"`
	FP32     float64 `json:"fp32_gflops"`
	BF16     float64 `json:"bf16_gflops"` // tiles or bf16 pairs; 0 where the machine multiplies no bf16
	CacheGBs float64 `json:"cache_gb_s"`  // read from the cache that cores share
	// Of the GPU: one large product, and a copy within its memory, read and written.
	GPUFP32 float64 `json:"gpu_fp32_gflops,omitempty"`
	GPUBF16 float64 `json:"gpu_bf16_gflops,omitempty"`
	GPUCopy float64 `json:"gpu_copy_gb_s,omitempty"`
}

func runBench(ctx context.Context, c *command, args []string) error {
	b := &bench{note: func(format string, args ...any) { fmt.Fprintf(c.stderr, "bench: "+format+"\n", args...) }}
	what := c.String("what", "env,load,train,plan", "`parts` to measure; kernels, too, on a GPU")
	preset := c.String("preset", "", "`name` of a preset or path of a .toml file, for another geometry than the one of 10.77 M parameters")
	c.StringVar(&b.peer, "peer", "", "a Python `interpreter` with torch and stable-worldmodel, which takes turns with this program")
	c.StringVar(&b.device, "device", "auto", "`where` to train and plan: auto, cpu or cuda")
	c.StringVar(&b.data, "data", "", "the data `file` that load reads; without it a few episodes of Two-Room are collected")
	rounds := c.Count("rounds", 5, "`number` of measurements, whose median counts")
	side := c.Count("side", 0, "also time plans of so many `episodes` side by side; 0 does not")
	asJSON := c.Bool("json", false, "print one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	parts, err := parseBenchParts(*what)
	if err != nil {
		return err
	}
	if b.rounds, b.side = *rounds, *side; b.rounds < 1 {
		return usagef("bench: --rounds %d: at least 1", b.rounds)
	}
	if b.preset, b.geometry, err = benchPreset(*preset); err != nil {
		return err
	}
	if err := b.run(ctx, parts); err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(b.report)
	}
	return b.report.print(c.stdout)
}

// parseBenchParts reads --what; parts run in the order of the table.
func parseBenchParts(what string) ([]int, error) {
	var parts []int
	for name := range strings.SplitSeq(what, ",") {
		i := slices.IndexFunc(benchParts, func(p benchPart) bool { return p.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, usagef("bench: --what %s: choose among env, load, train, plan, kernels", what)
		}
		parts = append(parts, i)
	}
	slices.Sort(parts)
	return slices.Compact(parts), nil
}

// benchPreset is a preset for two-dimensional actions; "" the geometry of 10.77 M
// parameters that PyTorch's times are known of: small with 32 clips.
func benchPreset(name string) (*pipeline.Preset, string, error) {
	known := name == ""
	if known {
		name = "small"
	}
	p, err := pipeline.LoadPreset(name)
	if err != nil {
		return nil, "", err
	}
	if known {
		p.Train.Batch = 32
	}
	p.Model.ActionDim = 2
	m := p.Model
	return p, fmt.Sprintf("%d clips x %d frames of %d px, patch %d, width %d x %d layers, latent %d, predictor %d x %d heads of %d",
		p.Train.Batch, m.History+1, m.ImageSize, m.Patch, m.Width, m.Layers, m.Dim, m.PredictorDepth, m.PredictorHeads, m.PredictorHeadDim), nil
}

// run measures the parts with a probe of the machine around each.
func (b *bench) run(ctx context.Context, parts []int) error {
	path := os.Getenv(cpu.PathVariable)
	if path == "" {
		path = cpu.Paths()[0]
	}
	b.report.Machine = benchMachine{Path: path, Threads: runtime.GOMAXPROCS(0), Version: version()}
	for _, i := range parts {
		p := benchParts[i]
		if err := b.probe("before " + p.name); err != nil {
			return err
		}
		resetPeak()
		if err := p.run(ctx, b); err != nil {
			if ctx.Err() != nil { // which ends a peer too
				return ctx.Err()
			}
			return fmt.Errorf("measuring %s: %w", p.name, err)
		}
	}
	if err := b.probe("after"); err != nil {
		return err
	}
	for k, i := range parts {
		around := b.report.Probes[k : k+2]
		switch benchParts[i].name {
		case "train":
			b.report.Train.setPeak(around)
		case "plan":
			b.report.Plan.setPeak(around)
		}
	}
	return nil
}

func (b *bench) probe(when string) error {
	r, err := cpu.Measure("fp32", 0)
	if err != nil {
		return err
	}
	p := benchProbe{When: when, FP32: r.FMA, CacheGBs: r.Read}
	if cpu.HasBF16() {
		if r, err = cpu.Measure("bf16", 0); err != nil {
			return err
		}
		p.BF16 = r.Products
	}
	b.note("%s: %.0f GFLOP/s fp32, %.0f bf16 (%s), %.0f GB/s from the shared cache", when, p.FP32, p.BF16, b.report.Machine.Path, p.CacheGBs)
	if err := b.probeGPU(&p); err != nil {
		return err
	}
	b.report.Probes = append(b.report.Probes, p)
	return nil
}

// probeGPU fills in what the GPU does, where work runs on one.
func (b *bench) probeGPU(p *benchProbe) error {
	if b.device != "cuda" && (b.device != "auto" || !gpuBuild) {
		return nil
	}
	r, err := measureGPU()
	if err != nil {
		if b.device == "auto" {
			return nil // then the work runs on the processor
		}
		return err
	}
	m := &b.report.Machine
	m.GPU, m.PeakBy = r.name, r.by
	p.GPUFP32, p.GPUBF16, p.GPUCopy = r.fp32, r.bf16, r.copy
	b.note("%s: %.0f GFLOP/s fp32, %.0f bf16 (%s), %.0f GB/s copied", r.name, r.fp32, r.bf16, r.by, r.copy)
	return nil
}

// print is the report for people.
func (r benchReport) print(w io.Writer) error {
	var s strings.Builder
	for _, p := range []struct {
		name string
		v    *speed
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
	_, err := io.WriteString(w, s.String())
	return err
}
