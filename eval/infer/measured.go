package infer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"scalewm/eval/results"
	"scalewm/eval/stats"
	"scalewm/eval/words"
	"scalewm/model"
)

// Checkpoint holds all analyses of one checkpoint on one kind of device and data set.
type Checkpoint struct {
	results.Arm
	Task, Protocol, Weights, Device, Data string
	Seed                                  int
	// Settings describe what distinguishes the checkpoint from others of its arm and seed,
	// for readers. They are the Settings of the place of its numbers.
	Settings string
	Several  bool     // its arm has several training seeds
	Left     []string // notes on results that are not shown
	results.Results
	ids []string // of the analyses
}

// Title returns the checkpoint's name for readers.
func (c *Checkpoint) Title() string {
	s := words.Arm(c.Arm)
	if c.Several {
		s += fmt.Sprintf(", seed %d", c.Seed)
	}
	if c.Settings != "" {
		s += ", " + c.Settings
	}
	return s
}

// Place returns the place of the checkpoint's numbers.
func (c *Checkpoint) Place() Place { return Place{Task: c.Task, Settings: c.Settings} }

// take adds a result. Of several rollouts it keeps the one with the most candidates in
// total, and notes the other. It notes a cost of an earlier version, which lacks a part.
func (c *Checkpoint) take(a results.Analysis) {
	if a.Spec.Analysis == results.CostAnalysis && a.Spec.Outdated() {
		c.Left = append(c.Left, fmt.Sprintf("%s: a cost that lacks the frozen encoder, by an earlier version, is left out; scalewm analyse cost measures it again", words.Arm(c.Arm)))
		return
	}
	r := a.Results
	if old := c.Rollout; old != nil && r.Rollout != nil {
		few, many := r.Rollout, old
		if few.Starts*few.Candidates > many.Starts*many.Candidates {
			few, many = many, few
		}
		r.Rollout = many
		c.Left = append(c.Left, fmt.Sprintf("%s: a rollout of %s with %d candidates is left out next to that of %d with %d", words.Arm(c.Arm), words.Count(few.Starts, "start"), few.Candidates, many.Starts, many.Candidates))
	}
	c.Merge(r)
	c.ids = append(c.ids, a.ID)
}

// Checkpoints returns the checkpoints of a task with their analyses, in the order of
// tables. It computes them once; it is not safe for concurrent use.
func (t *Table) Checkpoints(task string) (all []*Checkpoint) {
	if all, ok := t.checkpoints[task]; ok {
		return all
	}
	defer func() { t.checkpoints[task] = all }()
	type key struct {
		arm                             results.Arm
		seed                            int
		protocol, weights, device, data string
	}
	found := map[key]*Checkpoint{}
	for _, a := range t.Analyses {
		s := a.Spec
		if s.Task != task {
			continue
		}
		k := key{s.Arm(), s.TrainSeed, s.Protocol, s.Weights, s.Device, s.Data}
		c := found[k]
		if c == nil {
			c = &Checkpoint{Arm: k.arm, Task: task, Seed: s.TrainSeed, Protocol: s.Protocol, Weights: s.Weights, Device: s.Device, Data: s.Data}
			found[k], all = c, append(all, c)
		}
		c.take(a)
	}
	slices.SortFunc(all, func(a, b *Checkpoint) int {
		return cmp.Or(results.CompareArms(a.Arm, b.Arm), a.Seed-b.Seed, cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Weights, b.Weights), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Data, b.Data))
	})
	// Describe a checkpoint by those properties only in which it differs from others of
	// its arm. The data set is compared with all checkpoints of the task, because it decides
	// whether numbers of different arms are comparable.
	for _, c := range all {
		differ := func(of func(*Checkpoint) string) bool {
			return slices.ContainsFunc(all, func(o *Checkpoint) bool { return o.Arm == c.Arm && of(o) != of(c) })
		}
		say := func(format string, value any) {
			if c.Settings != "" {
				c.Settings += ", "
			}
			c.Settings += fmt.Sprintf(format, value)
		}
		c.Several = differ(func(o *Checkpoint) string { return fmt.Sprint(o.Seed) })
		if differ(func(o *Checkpoint) string { return o.Protocol }) {
			say("%s", c.Protocol)
		}
		// The hash of the weights is shown only if nothing more readable differs.
		if differ(func(o *Checkpoint) string { return fmt.Sprint(o.Seed, o.Protocol, o.Weights) }) && !differ(func(o *Checkpoint) string { return fmt.Sprint(o.Seed, o.Protocol) }) {
			say("weights %.8s", c.Weights)
		}
		if differ(func(o *Checkpoint) string { return o.Device }) {
			say("%s", c.Device)
		}
		if slices.ContainsFunc(all, func(o *Checkpoint) bool { return o.Data != c.Data }) {
			say("data set %.8s", c.Data)
		}
	}
	return all
}

// R2 returns the What of the R² of a probe (ridge or mlp) that reads a component of the
// task state, or "mean" for the mean over components, from the first k principal
// components of the latents. k = 0 stands for all of them.
func R2(probe string, k int, component string) string {
	if k == 0 {
		return fmt.Sprintf("r2_%s_all_%s", probe, component)
	}
	return fmt.Sprintf("r2_%s_%d_%s", probe, k, component)
}

// ProbeSizes are the numbers of principal components in the paper's figure.
var ProbeSizes = []int{2, 4, 8}

// r2 returns the value that R2 names, or NaN if it was not measured.
func (c *Checkpoint) r2(probe string, k int, component string) float64 {
	r2 := math.NaN()
	if c.Probe == nil {
		return r2
	}
	// Scores ascend in k. For k = 0 the loop therefore ends with that of all components.
	for _, s := range c.Probe.Scores {
		if s.Probe == probe && s.Component == component && (k == 0 || s.K == k) {
			r2 = float64(s.R2)
		}
	}
	return r2
}

// measure is a number that is computed from a checkpoint's analyses.
type measure struct {
	what string
	// title names the measure for readers if the report correlates it with success.
	// Otherwise it is empty.
	title string
	of    func(*Checkpoint) float64 // NaN if it was not measured
}

// The following functions adapt a number of one analysis to a number of a checkpoint,
// which is NaN if the checkpoint lacks the analysis.

func ofSpectrum(of func(*results.Spectrum) float64) func(*Checkpoint) float64 {
	return func(c *Checkpoint) float64 {
		if c.Spectrum == nil {
			return math.NaN()
		}
		return of(c.Spectrum)
	}
}

func ofRollout(of func(*results.Rollout) float64) func(*Checkpoint) float64 {
	return func(c *Checkpoint) float64 {
		if c.Rollout == nil {
			return math.NaN()
		}
		return of(c.Rollout)
	}
}

func ofCost(of func(*results.Cost) float64) func(*Checkpoint) float64 {
	return func(c *Checkpoint) float64 {
		if c.Cost == nil || len(c.Cost.Tiers) == 0 {
			return math.NaN()
		}
		return of(c.Cost)
	}
}

func ofTimes(of func(*results.CostTimes) float64) func(*Checkpoint) float64 {
	return ofCost(func(c *results.Cost) float64 {
		if c.Times == nil {
			return math.NaN()
		}
		return of(c.Times)
	})
}

func ofStep(of func(*results.StepTime) float64) func(*Checkpoint) float64 {
	return ofTimes(func(t *results.CostTimes) float64 {
		if t.Step == nil {
			return math.NaN()
		}
		return of(t.Step)
	})
}

// measures lists the numbers of a checkpoint that have no interval of their own. The
// alignments, the probes by component and the plan times are added in measured; an entry
// that is there too has the same key, so the first number of this key stays.
var measures = []measure{
	{Spearman, "rank alignment", func(c *Checkpoint) float64 { return rho(c).Value }},
	{"participation_ratio", "participation ratio", ofSpectrum(func(s *results.Spectrum) float64 { return s.Participation })},
	{"effective_rank", "effective rank", ofSpectrum(func(s *results.Spectrum) float64 { return s.EffectiveRank })},
	{R2("ridge", 4, "mean"), "linear probe of 4 components", func(c *Checkpoint) float64 { return c.r2("ridge", 4, "mean") }},
	{R2("ridge", 0, "mean"), "linear probe of all", func(c *Checkpoint) float64 { return c.r2("ridge", 0, "mean") }},
	{R2("mlp", 0, "mean"), "hidden-layer probe of all", func(c *Checkpoint) float64 { return c.r2("mlp", 0, "mean") }},
	{Explained, "share of the cost that the state explains", ofLeverage(func(l *results.Leverage) float64 { return l.Explained })},
	{Readout, "share of the cost in the state's readout", ofLeverage(func(l *results.Leverage) float64 { return l.Readout })},
	{RolloutError, "rollout error", ofRollout(func(r *results.Rollout) float64 { return r.RollErr })},
	{Tau, "rollout τ", ofRollout(func(r *results.Rollout) float64 { return r.Tau })},
	{"tau_of_encoded", "τ of encoded goals against the simulator", ofRollout(func(r *results.Rollout) float64 { return r.Encoded.Tau })},
	{"tau_of_predicted", "τ of predicted costs against the simulator", ofRollout(func(r *results.Rollout) float64 { return r.Total.Tau })},
	// Share of the variance in the first 8 principal directions.
	{"leading_variance", "", ofSpectrum(func(s *results.Spectrum) float64 {
		sum := 0.0
		for _, v := range s.Eigenvalues[:min(8, len(s.Eigenvalues))] {
			sum += v
		}
		return sum
	})},
	// R² of the first 2, 4 and 8 components, averaged.
	{"r2_of_leading", "", func(c *Checkpoint) float64 {
		sum := 0.0
		for _, k := range ProbeSizes {
			sum += c.r2("ridge", k, "mean")
		}
		return sum / float64(len(ProbeSizes))
	}},
	// Median over the components of the state of the R² from all principal components.
	{"r2_of_median", "", func(c *Checkpoint) float64 {
		var r2 []float64
		if c.Probe != nil {
			seen := map[string]bool{"mean": true}
			for _, s := range c.Probe.Scores {
				if v := c.r2("ridge", 0, s.Component); !seen[s.Component] && !math.IsNaN(v) {
					seen[s.Component], r2 = true, append(r2, v)
				}
			}
		}
		if len(r2) == 0 {
			return math.NaN()
		}
		return median(r2)
	}},
	{"r2_mlp_minus_ridge", "", func(c *Checkpoint) float64 { return c.r2("mlp", 0, "mean") - c.r2("ridge", 0, "mean") }},
	{"rollout_starts", "", ofRollout(func(r *results.Rollout) float64 { return float64(r.Starts) })},
	{"parameters", "", ofCost(func(c *results.Cost) float64 { return float64(c.Params) })},
	{"batch", "", ofCost(func(c *results.Cost) float64 { return float64(c.Batch) })},
	{"steps_per_second", "", ofStep(func(s *results.StepTime) float64 { return s.StepsPerSec })},
	{"steps_per_second_on_features", "", ofTimes(func(t *results.CostTimes) float64 {
		if t.OnFeatures == nil {
			return math.NaN()
		}
		return t.OnFeatures.StepsPerSec
	})},
	{"epoch_seconds", "", ofStep(func(s *results.StepTime) float64 { return s.EpochSeconds })},
	{"gflop_of_step", "", ofCost(func(c *results.Cost) float64 { return c.StepFLOP / 1e9 })},
	{"plan_rollouts", "", ofCost(func(c *results.Cost) float64 { return float64(c.Tiers[len(c.Tiers)-1].Rollouts) })},
	{"plan_predictor_calls", "", ofCost(func(c *results.Cost) float64 { return float64(c.Tiers[len(c.Tiers)-1].PredictorCalls) })},
	{"plan_tflop", "", ofCost(func(c *results.Cost) float64 { return c.Tiers[len(c.Tiers)-1].FLOP / 1e12 })},
}

// PlanSeconds is the What of the seconds that one plan takes at a tier, or summed over
// tiers (the tier SumOfTiers).
const (
	PlanSeconds = "plan_seconds"
	SumOfTiers  = "sum"
)

// measureOf returns the measure with a What, which must exist.
func measureOf(what string) measure {
	return measures[slices.IndexFunc(measures, func(m measure) bool { return m.what == what })]
}

// rho returns the rank correlation of latent and state distances, with the full state.
// Rank[0] has the full state.
func rho(c *Checkpoint) Estimate {
	if len(c.Rank) == 0 {
		return Estimate{math.NaN(), math.NaN(), math.NaN()}
	}
	r := c.Rank[0]
	return Estimate{float64(r.Spearman), float64(r.Lo), float64(r.Hi)}
}

// measure adds the numbers of all checkpoints, and their means over training seeds.
func (t *Table) measure() {
	before := len(t.Numbers)
	for _, task := range t.analysed() {
		all := t.Checkpoints(task)
		for _, c := range all {
			t.measured(c)
			t.leverage(c)
			t.changes(c, all)
		}
	}
	t.meansOverSeeds(t.Numbers[before:])
}

// analysed returns the tasks that have analyses, in the order of tables.
func (t *Table) analysed() (tasks []string) {
	for _, a := range t.Analyses {
		tasks = append(tasks, a.Spec.Task)
	}
	slices.SortFunc(tasks, results.CompareTasks)
	return slices.Compact(tasks)
}

// Aligned returns the What of an alignment (Spearman or "pearson") with a task state.
// The full state has no suffix.
func Aligned(what, state string) string {
	if state == "" || state == results.DefaultQ {
		return what
	}
	return what + "_" + state
}

// measured adds the numbers of one checkpoint.
func (t *Table) measured(c *Checkpoint) {
	n := Number{Place: c.Place(), Of: c.Arm, Seed: &c.Seed, From: c.ids}
	for _, r := range c.Rank {
		x := n.put(Estimate{float64(r.Spearman), float64(r.Lo), float64(r.Hi)})
		x.What, x.N, x.Unit = Aligned(Spearman, r.Q), r.N, "frame"
		t.add(x)
		x = n.put(pointEstimate(float64(r.Pearson)))
		x.What, x.N, x.Unit = Aligned("pearson", r.Q), r.N, "frame"
		t.add(x)
	}
	for _, m := range measures {
		if v := m.of(c); !math.IsNaN(v) && !math.IsInf(v, 0) {
			x := n.put(pointEstimate(v))
			x.What = m.what
			t.add(x)
		}
	}
	if c.Probe != nil {
		for _, s := range c.Probe.Scores {
			// One number for k components, and one for all, whose number of components
			// differs between models.
			for what, v := range map[string]float64{R2(s.Probe, s.K, s.Component): float64(s.R2), R2(s.Probe, 0, s.Component): c.r2(s.Probe, 0, s.Component)} {
				x := n.put(pointEstimate(v))
				x.What, x.N, x.Unit = what, c.Probe.N, "frame"
				t.add(x)
			}
		}
	}
	if c.Cost != nil && c.Cost.Times != nil {
		for _, p := range c.Cost.Times.Plans {
			x := n.put(pointEstimate(p.Seconds))
			x.What, x.Tier = PlanSeconds, p.Tier
			t.add(x)
		}
	}
}

// changes adds how the rollouts of a checkpoint differ from those of the baseline with
// the same training seed, protocol and data. The change is in percent. If the
// baseline's τ is near 0 it is a difference, as in the paper, and its unit is "".
// The p-value is that of Wilcoxon's signed-rank test over the starts that both have.
func (t *Table) changes(c *Checkpoint, all []*Checkpoint) {
	at := slices.IndexFunc(all, func(b *Checkpoint) bool {
		return b.Arm == t.Baseline && c.Arm != t.Baseline && b.Seed == c.Seed && b.Protocol == c.Protocol && b.Data == c.Data && b.Rollout != nil
	})
	if c.Rollout == nil || at < 0 {
		return
	}
	b := all[at]
	n := Number{Place: c.Place(), Of: c.Arm, Minus: t.Baseline, Seed: &c.Seed, From: union(c.ids, b.ids)}
	t.change(n, RolloutError, c.Rollout.RollErr, b.Rollout.RollErr, math.NaN())
	t.change(n, Tau, c.Rollout.Tau, b.Rollout.Tau, overStarts(c.Rollout, b.Rollout))
}

// paperBaseline is the arm with which the paper compares the others.
var paperBaseline = results.Arm{Method: model.Baseline}

// change adds the change of a value x compared with the baseline's.
func (t *Table) change(n Number, what string, x, base, p float64) {
	n.What, n.P = what+"_change", some(p)
	if what == Tau && math.Abs(base) < 0.05 {
		n.Value = some(x - base)
	} else {
		n.Value, n.Unit = some(100*(x/base-1)), "%"
	}
	t.add(n)
}

// overStarts returns the p-value of Wilcoxon's test of the differences in τ, paired by
// start. It is NaN if no start differs.
func overStarts(a, b *results.Rollout) float64 {
	var diffs []float64
	for _, x := range a.PerStart {
		for _, y := range b.PerStart {
			if x.Start == y.Start && x.Tau != y.Tau {
				diffs = append(diffs, x.Tau-y.Tau)
			}
		}
	}
	if len(diffs) == 0 {
		return math.NaN()
	}
	return stats.SignedRankExact(diffs)
}

// pointEstimate returns an estimate without an interval.
func pointEstimate(x float64) Estimate { return Estimate{x, math.NaN(), math.NaN()} }

// Measures returns the What and the title of each measure that the report correlates
// with success.
func Measures() (out [][2]string) {
	for _, m := range measures {
		if m.title != "" {
			out = append(out, [2]string{m.what, m.title})
		}
	}
	return out
}

// Predicts returns the What of the rank correlation of a measure with success, over the
// checkpoints of a task.
func Predicts(what string) string { return what + "_against_success" }

// Within returns the What of the same correlation after the mean of its method was
// subtracted from every value. It shows whether the measure predicts success among
// checkpoints of one method, or merely distinguishes methods.
func Within(what string) string { return what + "_against_success_within_methods" }

// Methods returns the What of the number of methods behind these correlations.
func Methods(what string) string { return what + "_against_success_methods" }

// predict adds these correlations for each task and measure with at least six checkpoints,
// and their mean over tasks if there are several.
func (t *Table) predict(g Group) {
	type found struct {
		all, within Number
		methods     int
	}
	perMeasure := map[string][]found{}
	for _, task := range Tasks(g.Main()) {
		success, blocks := t.successOf(g.Main(), task), 0
		all := slices.DeleteFunc(slices.Clone(t.Checkpoints(task)), func(c *Checkpoint) bool { return len(success[c.Weights]) == 0 || c.Floor() })
		// The success of a checkpoint is its mean over blocks. Only checkpoints with all
		// blocks are comparable; incomplete ones are dropped below.
		for _, c := range all {
			blocks = max(blocks, len(success[c.Weights]))
		}
		for _, m := range measures {
			var x, y []float64
			var arms []results.Arm
			var from []string
			for _, c := range all {
				if v := m.of(c); m.title != "" && !math.IsNaN(v) && len(success[c.Weights]) == blocks {
					x, y, arms, from = append(x, v), append(y, mean(success[c.Weights])), append(arms, c.Arm), append(from, c.ids...)
				}
			}
			if len(x) < 6 {
				continue
			}
			methods := len(slices.Compact(slices.SortedFunc(slices.Values(arms), results.CompareArms)))
			correlate := func(what string, x, y []float64, groups int) Number {
				v := stats.Spearman(x, y)
				i := stats.SpearmanInterval(v, len(x), groups, 0.95)
				n := Number{What: what, Place: Place{Task: task, Settings: g.Name}, N: len(x), Unit: "checkpoint", From: union(from)}
				return n.put(Estimate{v, i.Lo, i.Hi})
			}
			f := found{correlate(Predicts(m.what), x, y, 1), correlate(Within(m.what), centred(x, arms), centred(y, arms), methods), methods}
			t.addPrediction(m.what, f.all, f.within, f.methods)
			perMeasure[m.what] = append(perMeasure[m.what], f)
		}
	}
	for _, m := range measures {
		if of := perMeasure[m.what]; len(of) > 1 {
			var all, within []Number
			methods := 0
			for _, f := range of {
				all, within, methods = append(all, f.all), append(within, f.within), max(methods, f.methods)
			}
			t.addPrediction(m.what, meanOverTasks(all), meanOverTasks(within), methods)
		}
	}
}

// addPrediction adds both correlations of a measure and their number of methods.
func (t *Table) addPrediction(what string, all, within Number, methods int) {
	t.add(all)
	t.add(within)
	t.add(Number{What: Methods(what), Place: all.Place, Value: some(float64(methods)), From: all.From})
}

// successOf returns, by the hash of the weights, the successes of a task's checkpoints:
// one for each block, averaged over tiers.
func (t *Table) successOf(blocks []*Block, task string) map[string][]float64 {
	out := map[string][]float64{}
	for _, b := range blocks {
		for _, a := range b.Arms {
			if n := t.Find(Number{What: Success, Place: b.Place.At(Mean), Of: a.Arm, Seed: &a.Seed}); b.Task == task && a.Weights != "" && n != nil {
				out[a.Weights] = append(out[a.Weights], Or(n.Value))
			}
		}
	}
	return out
}

// centred returns the deviations of x from the mean of each value's group.
func centred[G comparable](x []float64, groups []G) []float64 {
	sum, n := map[G]float64{}, map[G]float64{}
	for i, g := range groups {
		sum[g] += x[i]
		n[g]++
	}
	out := make([]float64, len(x))
	for i, g := range groups {
		out[i] = x[i] - sum[g]/n[g]
	}
	return out
}

// meanOverTasks averages a rank correlation over the tasks that have it, after Fisher's
// transformation, which makes its distribution nearly normal. Tasks are weighted by
// their checkpoints.
func meanOverTasks(of []Number) Number {
	out := Number{What: of[0].What, Place: Place{Settings: of[0].Settings}, Unit: of[0].Unit}
	var z, variance, weights float64
	for _, n := range of {
		out.N, out.From = out.N+n.N, union(out.From, n.From)
		if n.Value == nil {
			continue
		}
		w, own := float64(n.N), stats.FisherZ(*n.Value, n.N)
		// The interval of ±1 ends at ±1, which transforms to an infinity. Use its finite side.
		half := min(own-math.Atanh(Or(n.Lo)), math.Atanh(Or(n.Hi))-own)
		z, variance, weights = z+w*own, variance+w*w*half*half, weights+w
	}
	z, half := z/weights, math.Sqrt(variance)/weights
	return out.put(Estimate{math.Tanh(z), math.Tanh(z - half), math.Tanh(z + half)})
}
