package report

import (
	"cmp"
	"math"
	"slices"

	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/eval/stats"
)

// Whether what is measured of a checkpoint foretells how well it plans.

// Foretold is how one measure of a task's learned checkpoints goes with their success.
type Foretold struct {
	Task, Measure string
	Checkpoints   int
	Methods       int // that they are of, variants counted apart
	// Rank correlations with success (%), which is averaged over the blocks and tiers that all
	// checkpoints have: of all, and of the deviations from each method's mean.
	All, Within                      results.Number
	AllLo, AllHi, WithinLo, WithinHi results.Number // 95 % intervals
}

// judgedBy are what a checkpoint may be judged by; NaN where it was not measured.
var judgedBy = []struct {
	name string
	of   func(*measured) float64
}{
	{"rank alignment", func(m *measured) float64 {
		if len(m.Rank) == 0 {
			return math.NaN()
		}
		return float64(m.Rank[0].Spearman)
	}},
	{"participation ratio", func(m *measured) float64 {
		return ofSpectrum(m, func(s *results.Spectrum) float64 { return s.Participation })
	}},
	{"effective rank", func(m *measured) float64 {
		return ofSpectrum(m, func(s *results.Spectrum) float64 { return s.EffectiveRank })
	}},
	{"linear probe of 4 components", func(m *measured) float64 { return m.r2("ridge", 4, "mean") }},
	{"linear probe of all", func(m *measured) float64 { return m.r2("ridge", 0, "mean") }},
	{"hidden-layer probe of all", func(m *measured) float64 { return m.r2("mlp", 0, "mean") }},
	{"rollout error", func(m *measured) float64 { return ofRollout(m, func(r *results.Rollout) float64 { return r.RollErr }) }},
	{"rollout τ", func(m *measured) float64 { return ofRollout(m, func(r *results.Rollout) float64 { return r.Tau }) }},
	{"τ of encoded goals beside the simulator", func(m *measured) float64 {
		return ofRollout(m, func(r *results.Rollout) float64 { return r.Encoded.Tau })
	}},
	{"τ of predicted costs beside the simulator", func(m *measured) float64 {
		return ofRollout(m, func(r *results.Rollout) float64 { return r.Total.Tau })
	}},
}

func ofSpectrum(m *measured, of func(*results.Spectrum) float64) float64 {
	if m.Spectrum == nil {
		return math.NaN()
	}
	return of(m.Spectrum)
}

func ofRollout(m *measured, of func(*results.Rollout) float64) float64 {
	if m.Rollout == nil {
		return math.NaN()
	}
	return of(m.Rollout)
}

// foretold has a line for each task and measure of at least six checkpoints, and after
// those of single tasks one for the mean over tasks, if there are several.
func (r *Report) foretold(blocks []*Block) (out []Foretold) {
	perMeasure := map[string][]Foretold{}
	for _, task := range tasksOf(blocks) {
		success := successOf(blocks, task)
		all := slices.DeleteFunc(r.measuredOn(task), func(m *measured) bool { return len(success[m.weights]) == 0 || infer.MethodOf(m.method).Floor })
		blocks := 0
		for _, m := range all {
			blocks = max(blocks, len(success[m.weights]))
		}
		for _, measure := range judgedBy {
			var x, y []float64
			var methods []string
			for _, m := range all {
				if v := measure.of(m); !math.IsNaN(v) && len(success[m.weights]) == blocks {
					x, y, methods = append(x, v), append(y, mean(success[m.weights])), append(methods, m.method)
				}
			}
			if len(x) < 6 {
				continue
			}
			f := Foretold{Task: task, Measure: measure.name, Checkpoints: len(x)}
			f.correlate(x, y, methods)
			out, perMeasure[measure.name] = append(out, f), append(perMeasure[measure.name], f)
		}
	}
	for _, measure := range judgedBy {
		if of := perMeasure[measure.name]; len(of) > 1 {
			out = append(out, together(of))
		}
	}
	return out
}

// successOf are the mean successes of a task's checkpoints in each block, by weights.
func successOf(blocks []*Block, task string) map[string][]float64 {
	out := map[string][]float64{}
	for _, b := range blocks {
		if b.Task != task {
			continue
		}
		for _, a := range b.Arms {
			if a.Weights != "" && len(a.Mean.BySet) > 0 {
				out[a.Weights] = append(out[a.Weights], a.Mean.Mean)
			}
		}
	}
	return out
}

func (f *Foretold) correlate(x, y []float64, methods []string) {
	f.Methods = len(slices.Compact(slices.Sorted(slices.Values(methods))))
	put := func(rho, lo, hi *results.Number, x, y []float64, groups int) {
		v := stats.Spearman(x, y)
		i := stats.SpearmanInterval(v, len(x), groups, 0.95)
		*rho, *lo, *hi = results.Number(v), results.Number(i.Lo), results.Number(i.Hi)
	}
	put(&f.All, &f.AllLo, &f.AllHi, x, y, 1)
	put(&f.Within, &f.WithinLo, &f.WithinHi, centred(x, methods), centred(y, methods), f.Methods)
}

// centred are the deviations from the mean of each value's group.
func centred(x []float64, groups []string) []float64 {
	sum, n := map[string]float64{}, map[string]float64{}
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

// together is the mean after Fisher's transformation over tasks that have the correlation, each weighted by
// its checkpoints.
func together(of []Foretold) Foretold {
	out := Foretold{Measure: of[0].Measure}
	join := func(part func(*Foretold) [3]*results.Number) {
		var z, variance, weights float64
		for i := range of {
			p, w := part(&of[i]), float64(of[i].Checkpoints)
			if math.IsNaN(float64(*p[0])) {
				continue
			}
			own := stats.FisherZ(float64(*p[0]), of[i].Checkpoints)
			half := min(own-math.Atanh(float64(*p[1])), math.Atanh(float64(*p[2]))-own) // that of ±1 has one finite side
			z, variance, weights = z+w*own, variance+w*w*half*half, weights+w
		}
		z, half := z/weights, math.Sqrt(variance)/weights
		for i, v := range []float64{z, z - half, z + half} {
			*part(&out)[i] = results.Number(math.Tanh(v))
		}
	}
	join(func(f *Foretold) [3]*results.Number { return [3]*results.Number{&f.All, &f.AllLo, &f.AllHi} })
	join(func(f *Foretold) [3]*results.Number { return [3]*results.Number{&f.Within, &f.WithinLo, &f.WithinHi} })
	for _, f := range of {
		out.Checkpoints, out.Methods = out.Checkpoints+f.Checkpoints, max(out.Methods, f.Methods)
	}
	return out
}

// foretoldTable shows them.
func (g *Group) foretoldTable() Table {
	t := Table{Anchor: "foretold", Head: []string{"Task", "Measure", "Checkpoints", "Methods", "With success", "95 % interval", "Within methods", "95 % interval"},
		Caption: "Does a measure of a checkpoint foretell how well it plans? Rank correlation over learned checkpoints of the measure with success, averaged over solvers and tiers; within methods, both as deviations from their method's mean. Intervals by Fisher's transformation. One of ±1, whose transformation is infinite, is taken half a step of the ranks nearer to 0. The mean over tasks is taken there too."}
	cells := func(rho, lo, hi results.Number) []Field {
		if math.IsNaN(float64(rho)) || math.IsNaN(float64(lo)) {
			return []Field{scalar(rho, 2), none()}
		}
		return []Field{scalar(rho, 2), number(decimal(float64(lo), 2)+" to "+decimal(float64(hi), 2), float64(lo))}
	}
	for _, f := range g.Foretold {
		task := cmp.Or(f.Task, "mean")
		if f.Task != "" {
			task = taskName(f.Task)
		}
		t.Rows = append(t.Rows, slices.Concat([]Field{words(task), words(f.Measure), whole(f.Checkpoints), whole(f.Methods)}, cells(f.All, f.AllLo, f.AllHi), cells(f.Within, f.WithinLo, f.WithinHi)))
	}
	return t
}
