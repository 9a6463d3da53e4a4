package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/lewm"
	"scalewm/model/train"
)

// Speed is the report of one training step or one plan. Times are medians in
// milliseconds; those of a missing precision or peer are 0. Ratios above 1 mean that
// this program is faster.
type Speed struct {
	Geometry string  `json:"geometry"`
	Params   int     `json:"params"`
	Device   string  `json:"device"`
	FP32MS   float64 `json:"fp32_ms"`
	BF16MS   float64 `json:"bf16_ms"`
	GFLOPS   float64 `json:"gflops"` // operations of the GEMMs over the time of the faster precision
	// PeakGFLOPS is the higher rate of the probes before and after, for the same precision
	// and device.
	PeakGFLOPS float64 `json:"peak_gflops"`
	PeerMS     float64 `json:"peer_ms"`    // the peer's fastest variant, in any precision
	Ratio      float64 `json:"ratio"`      // PeerMS over the time of our faster precision
	FP32Ratio  float64 `json:"fp32_ratio"` // the same with both in fp32
	// SideBySide is the number of episodes that were planned in one batch, and SideMS the
	// time per plan. SideRatio compares it with the peer's fastest, single or batched.
	SideBySide int         `json:"side_by_side,omitempty"`
	SideMS     float64     `json:"side_ms,omitempty"`
	PeerSideMS float64     `json:"peer_side_ms,omitempty"`
	SideRatio  float64     `json:"side_ratio,omitempty"`
	FP32RSSMB  float64     `json:"fp32_rss_mb"`
	BF16RSSMB  float64     `json:"bf16_rss_mb"`
	Peer       *PeerReport `json:"peer,omitempty"`
}

// benchWork is work of ours on a device.
type benchWork struct {
	once   func(context.Context) error // one step or plan
	side   func(context.Context) error // several plans in one batch; nil if not measured
	params int                         // number of parameters
	free   func()
}

// speedSpec describes the work to a peer: the geometry of the model, the batch and
// random directions of SIGReg for a training step, and the tier for a plan.
type speedSpec struct {
	Model      lewm.Config `json:"model"`
	Batch      int         `json:"batch"`
	Directions int         `json:"directions"`
	Candidates int         `json:"candidates"`
	Iterations int         `json:"iterations"`
	Elites     int         `json:"elites"`
	Side       int         `json:"side"` // episodes in one batch; 0 for none
	Threads    int         `json:"threads"`
	Device     string      `json:"device"`
}

// measure times work in each precision of the machine, next to the variants of the peer
// that are compared with it. start prepares the work on a device, and flop is its
// number of operations. The precisions are measured one after the other, each on a
// device of its own, because two models at once would compete for caches and memory.
func (b *Bench) measure(ctx context.Context, part string, flop float64, start func(device.Device) (benchWork, error)) (*Speed, error) {
	s := &Speed{Geometry: b.Geometry}
	spec, t := b.Preset.Train, eval.Tiers()[0]
	p, err := b.startPeer(ctx, part, speedSpec{Model: b.geometry(), Batch: spec.Batch, Directions: spec.Directions, Candidates: t.Candidates,
		Iterations: t.Iterations, Elites: t.Elites, Side: b.Side, Threads: b.report.Machine.Threads, Device: b.Device})
	if err != nil {
		return nil, err
	}
	defer p.kill()
	medians := map[string]float64{}
	// Only contenders that alternate can be compared, so each precision is measured together
	// with the peer's variants in that precision.
	for _, precision := range []device.Precision{device.FP32, device.BF16} {
		if err := b.measureOne(ctx, s, precision, p, start, medians); err != nil {
			return nil, err
		}
	}
	if s.Peer, err = p.finish(medians); err != nil {
		return nil, err
	}
	// Compare the best of both programs, in any precision, and in addition fp32 with fp32.
	best := fastest(s.FP32MS, s.BF16MS)
	s.GFLOPS = flop / best / 1e6
	fp32 := p.of(s.Peer, string(device.FP32))
	s.PeerMS, s.PeerSideMS = fastest(fp32, p.of(s.Peer, string(device.BF16))), p.of(s.Peer, "side")
	s.Ratio, s.FP32Ratio, s.SideRatio = over(s.PeerMS, best), over(fp32, s.FP32MS), over(fastest(s.PeerMS, s.PeerSideMS), s.SideMS)
	// Times of different models are not comparable; equal numbers of parameters show that
	// both built the same geometry.
	if p != nil && p.hello.Params != s.Params {
		return nil, fmt.Errorf("the peer's model has %d parameters, ours %d (hint: another version of its packages?)", p.hello.Params, s.Params)
	}
	return s, nil
}

// measureOne measures one precision: our work and the peer's alternate. The medians are
// added to medians. The variants of the peer run even if this machine has no fast bf16
// itself, and may drop out on their own.
func (b *Bench) measureOne(ctx context.Context, s *Speed, precision device.Precision, p *peer, start func(device.Device) (benchWork, error), medians map[string]float64) error {
	name := string(precision)
	all := p.contenders(name)
	if precision == device.FP32 || b.bf16() {
		dev, err := b.Open(precision)
		if err != nil {
			return err
		}
		defer dev.Close()
		resetPeak()
		w, err := start(dev)
		if err != nil {
			return err
		}
		defer w.free()
		s.Device, s.Params = dev.Kind().String(), w.params
		all = append([]contender{timed(name, w.once)}, all...)
		// Batches of plans are measured in the faster precision only.
		if w.side != nil && (precision == device.BF16 || !b.bf16()) {
			all = append(append(all, timed("side", w.side)), p.contenders("side")...)
		}
	}
	b.Note("%d rounds of %s", b.Rounds, names(all))
	found, err := b.alternate(ctx, all)
	for k, v := range found {
		medians[k] = v
	}
	// Memory is the peak since resetPeak, so it includes the device and the model.
	if precision == device.FP32 {
		s.FP32MS, s.FP32RSSMB = found[name], peakMB()
	} else if found[name] > 0 {
		s.BF16MS, s.BF16RSSMB = found[name], peakMB()
	}
	if b.Side > 0 && found["side"] > 0 {
		s.SideBySide, s.SideMS = b.Side, found["side"]/float64(b.Side)
	}
	return err
}

// bf16 reports whether the machine has fast GEMMs in bf16.
func (b *Bench) bf16() bool { return cpu.HasBF16() || b.report.Machine.GPU != "" }

// names returns the names of contenders.
func names(all []contender) (list []string) {
	for _, c := range all {
		list = append(list, c.name)
	}
	return list
}

// setPeak sets the peak from the probes around a part, for the faster precision. Probes
// have rates of a GPU only if the work ran on it, and these then are the peak.
func (s *Speed) setPeak(probes []Probe) {
	for _, p := range probes {
		fp32, bf16 := p.FP32, p.BF16
		if p.GPUFP32 > 0 {
			fp32, bf16 = p.GPUFP32, p.GPUBF16
		}
		if s.BF16MS > 0 && s.BF16MS <= s.FP32MS {
			s.PeakGFLOPS = max(s.PeakGFLOPS, bf16)
		} else {
			s.PeakGFLOPS = max(s.PeakGFLOPS, fp32)
		}
	}
}

// benchTrain times one training step of LeWM.
func benchTrain(ctx context.Context, b *Bench) (err error) {
	m, c := b.geometry(), b.Preset.Train
	b.report.Train, err = b.measure(ctx, "train", m.StepFLOP(c.Batch, c.Directions), func(dev device.Device) (benchWork, error) {
		t, err := b.trial(dev, m)
		if err != nil {
			return benchWork{}, err
		}
		return benchWork{once: func(context.Context) error { return t.Step() }, params: t.Params(), free: t.Free}, nil
	})
	return err
}

// trial returns a training of LeWM with the preset's recipe, on a synthetic batch.
func (b *Bench) trial(dev device.Device, m lewm.Config) (*train.Trial, error) {
	return train.NewTrial(train.Options{Dev: dev, Method: model.MethodOf(model.Baseline), Model: m, Config: b.Preset.Train, Seed: 1})
}

// benchPlan times one CEM plan of tier T1.
func benchPlan(ctx context.Context, b *Bench) (err error) {
	m, tier := b.geometry(), eval.Tiers()[0]
	flop := float64(tier.Iterations) * m.PlanFLOP(tier.Candidates, results.Published().Horizon)
	b.report.Plan, err = b.measure(ctx, "plan", flop, func(dev device.Device) (benchWork, error) {
		w, err := lewm.New(dev, m, 1)
		if err != nil {
			return benchWork{}, err
		}
		work := benchWork{once: eval.NewTrial(w, tier, 1).Plan, params: w.Params().Len(), free: w.Free}
		if b.Side > 0 {
			work.side = eval.NewTrial(w, tier, b.Side).Plan
		}
		return work, nil
	})
	return err
}

// print writes the report for readers.
func (s *Speed) print(w io.Writer, what string) {
	fmt.Fprintf(w, "%s: %s (%.2f M parameters), %s\n", what, s.Geometry, float64(s.Params)/1e6, s.Device)
	fmt.Fprintf(w, "  fp32 %.1f ms, bf16 %.1f ms; %.0f of %.0f GFLOP/s; peak memory %.0f and %.0f MB\n",
		s.FP32MS, s.BF16MS, s.GFLOPS, s.PeakGFLOPS, s.FP32RSSMB, s.BF16RSSMB)
	if s.SideBySide > 0 {
		fmt.Fprintf(w, "  %d side by side: %.2f ms a plan (peer %.2f)\n", s.SideBySide, s.SideMS, s.PeerSideMS)
	}
	if s.Peer != nil {
		fmt.Fprintf(w, "  peer (%s): %.1f ms, ratio %.2f; fp32 against its fp32 %.2f; side by side %.2f\n  peer's variants: ",
			s.Peer.Version, s.PeerMS, s.Ratio, s.FP32Ratio, s.SideRatio)
		s.Peer.print(w)
	}
}

// print writes the times of all variants, and those that failed.
func (r *PeerReport) print(w io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(r.MS)) {
		fmt.Fprintf(w, "%s %.1f ms, ", name, r.MS[name])
	}
	fmt.Fprintf(w, "peak memory %.0f MB\n", r.RSSMB)
	for _, name := range slices.Sorted(maps.Keys(r.Dropped)) {
		fmt.Fprintf(w, "  left out %s: %s\n", name, r.Dropped[name])
	}
}
