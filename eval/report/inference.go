package report

import (
	"maps"
	"math"
	"slices"
	"strings"

	"scalewm/dataset/rng"
	"scalewm/eval/stats"
)

// difference estimates A − B from the paired episodes, in points.
func (m *matched) difference() Difference {
	order := slices.SortedFunc(maps.Keys(m.seen), func(a, b episode) int {
		if c := strings.Compare(a.set, b.set); c != 0 {
			return c
		}
		return a.index - b.index
	})
	var bySet [][]float64 // A − B an episode, in [-1, 1]
	var setSums []int     // of successes, A − B
	total := 0
	for i, e := range order {
		if i == 0 || e.set != order[i-1].set {
			bySet, setSums = append(bySet, nil), append(setSums, 0)
		}
		d := m.a[e] - m.b[e]
		last := len(bySet) - 1
		bySet[last] = append(bySet[last], float64(d)/float64(m.want))
		setSums[last] += d
		total += d
	}
	out := Difference{N: len(order), Sets: len(bySet), Diff: 100 * float64(total) / float64(m.want*len(order)), MidP: math.NaN(), Holm: math.NaN(), StepDown: math.NaN(), BH: math.NaN()}
	out.SetP = stats.SignFlipExact(setSums)
	if m.want == 1 {
		m.binary(&out)
	} else {
		averaged(&out, bySet)
	}
	for _, e := range order {
		out.episodes, out.hits = append(out.episodes, e), append(out.hits, m.a[e]-m.b[e])
	}
	return out
}

// binary tests outcomes of 0 and 1.
func (m *matched) binary(d *Difference) {
	d.Binary = true
	for e := range m.seen {
		switch a, b := m.a[e] == 1, m.b[e] == 1; {
		case a && b:
			d.Both++
		case a:
			d.AOnly++
		case b:
			d.BOnly++
		default:
			d.Neither++
		}
	}
	t := stats.Fourfold{Both: d.Both, OnlyA: d.AOnly, OnlyB: d.BOnly, Neither: d.Neither}
	d.intervals(func(level float64) stats.Interval { return stats.Newcombe(t, level) })
	d.P, d.MidP = stats.McNemar(d.AOnly, d.BOnly)
}

// averaged tests outcomes that are means over tiers or seeds.
func averaged(d *Difference, bySet [][]float64) {
	d.intervals(stats.Bootstrap(bySet, rng.Stream("report bootstrap")).Interval)
	d.P = stats.SignFlip(bySet, rng.Stream("report sign flip"))
}

// intervals fills in the 95 % interval and what the 90 % one says of the margin.
func (d *Difference) intervals(of func(level float64) stats.Interval) {
	iv := of(0.95)
	d.Lo, d.Hi = 100*iv.Lo, 100*iv.Hi
	d.Verdict = of(stats.EquivalenceLevel).Judge(stats.Margin / 100.0)
}

// labelFlips is the number of draws of the step-down test.
const labelFlips = 100000

// adjust corrects the two families of every comparison: its headlines (a pair's
// last row: the mean over tiers, or the one tier there is) over all tasks and solvers, which confirm, by Holm and by Westfall and Young, and
// its single tiers, which explore, by Benjamini and Hochberg (docs/sources.md#multiplicity).
func adjust(blocks []Block) {
	confirm, explore := map[string][]*Difference{}, map[string][]*Difference{}
	headlines := map[string]*family{}
	for i := range blocks {
		for j := range blocks[i].Pairs {
			p := &blocks[i].Pairs[j]
			for k := range p.Rows {
				d := &p.Rows[k]
				name := p.name()
				if k < len(p.Rows)-1 {
					explore[name] = append(explore[name], d)
					continue
				}
				confirm[name] = append(confirm[name], d)
				if d.Tier != MeanTier {
					continue
				}
				if headlines[name] == nil {
					headlines[name] = newFamily()
				}
				headlines[name].add(blocks[i].Task, d)
			}
		}
	}
	for _, rows := range confirm {
		for i, p := range stats.Holm(pvalues(rows)) {
			rows[i].Holm = p
		}
	}
	for _, rows := range explore {
		for i, p := range stats.BenjaminiHochberg(pvalues(rows)) {
			rows[i].BH = p
		}
	}
	for name, f := range headlines {
		f.stepDown(name)
	}
}

func pvalues(rows []*Difference) []float64 {
	p := make([]float64, len(rows))
	for i, d := range rows {
		p[i] = d.P
	}
	return p
}

// family numbers the episodes of a comparison's headline rows, so that those
// of one task are flipped together under all its solvers.
type family struct {
	units map[taskEpisode]int
	rows  []*Difference
	tests []stats.Hypothesis
}

type taskEpisode struct {
	task string
	episode
}

func newFamily() *family { return &family{units: map[taskEpisode]int{}} }

func (f *family) add(task string, d *Difference) {
	var h stats.Hypothesis
	for i, e := range d.episodes {
		key := taskEpisode{task, e}
		u, ok := f.units[key]
		if !ok {
			u = len(f.units)
			f.units[key] = u
		}
		h.Units, h.Diff = append(h.Units, u), append(h.Diff, d.hits[i])
	}
	f.rows, f.tests = append(f.rows, d), append(f.tests, h)
}

func (f *family) stepDown(name string) {
	for i, p := range stats.StepDown(f.tests, labelFlips, rng.Stream("report step-down", name)) {
		f.rows[i].StepDown = p
	}
}
