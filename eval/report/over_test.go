package report

import (
	"math"
	"strings"
	"testing"

	"scalewm/eval/paired"
	"scalewm/eval/stats"
)

// fromPaper turns the paper's means into blocks: one arm a method, the six sets
// shifted by whole points, those of set k by k - 2, the same for all methods.
func fromPaper() (out []*Block) {
	for _, tab := range published.Tables {
		for _, solver := range []string{"cem", "icem", "mppi"} {
			b := &Block{Task: tab.Task, Solver: solver}
			for _, row := range tab.Rows {
				if row.Solver != solver {
					continue
				}
				a := Arm{Name: row.Method, Method: row.Method, Scores: map[string]Score{}}
				b.Tiers = nil
				for i, mean := range row.Mean {
					var s Score
					for k, set := range []string{"s101", "s102", "s103", "s104", "s105", "s106"} {
						s.BySet = append(s.BySet, paired.SetRate{Set: set, N: 100, Rate: mean + float64(k-2)})
					}
					a.Scores[published.Tiers[i]] = s
					b.Tiers = append(b.Tiers, Tier{Name: published.Tiers[i]})
				}
				b.Arms = append(b.Arms, a)
			}
			for _, m := range []string{scale, aux, "dinowm"} {
				b.Pairs = append(b.Pairs, &paired.Comparison{A: m, B: lewm})
			}
			out = append(out, b)
		}
	}
	return out
}

// TestSetTestsArePerTask: from the paper's means every task has a line of its own
// for every comparison, whose difference is the mean over the task's 15 cells,
// summed here from the tables; equal differences on six sets have p = 2/64.
func TestSetTestsArePerTask(t *testing.T) {
	tests := setTests(fromPaper())
	if len(tests) != 15 {
		t.Fatalf("%d lines, want 3 comparisons x 5 tasks", len(tests))
	}
	for i, l := range tests {
		if v := []string{scale, aux, "dinowm"}[i/5]; l.A != v || l.B != lewm || l.Task != published.Tables[i%5].Task || l.Cells != 15 || len(l.Sets) != 6 || l.P != 0.03125 {
			t.Errorf("line %d: %+v", i, l)
		}
		want := 0.0
		for _, row := range published.Tables[i%5].Rows {
			for _, m := range row.Mean {
				switch row.Method {
				case l.A:
					want += m / 15
				case lewm:
					want -= m / 15
				}
			}
		}
		near(t, l.A+" on "+l.Task, l.Mean, want, 1e-6)
	}
}

// The counts of the paper's text (SCALE leads LeWM in 15 of 15 averages, Aux in
// 13; docs/sources.md#significance) are those of its own tables.
func TestTallies(t *testing.T) {
	for i, got := range tallies(fromPaper()) {
		want := published.Tallies[i]
		if got.A != want.A || got.B != want.B || got.Leads != want.Leads || got.Of != want.Of {
			t.Errorf("%+v, the paper says %+v", got, want)
		}
		if want.Up != nil && (got.Up != *want.Up || got.Down != *want.Down || got.Tied != *want.Tied) {
			t.Errorf("%+v, the paper says %d up, %d down, %d tied", got, *want.Up, *want.Down, *want.Tied)
		}
		if got.Up+got.Down+got.Tied != 75 {
			t.Errorf("%+v: not 75 cells", got)
		}
	}
}

// Published numbers stand under ours where the paper has the comparison.
func TestPaperStandsBesideOurTests(t *testing.T) {
	g := &Group{SetTests: setTests(fromPaper()), Tallies: tallies(fromPaper())}
	text := string(markdown([]Section{{Title: "x", Level: 2, Parts: []Part{g.setTestTable(), g.tallyTable()}}}))
	for _, want := range []string{
		"| DINO-WM − LeWM | pusht | paper | 15 | 6 | −7.9 | – | 0.031 |", "| DINO-WM − LeWM | Reacher | paper | 15 | 6 | −0.1 | – | 0.438 |",
		"| SCALE − LeWM | cube | paper | 15 | 6 | +2.9 | – | 0.031 |", "| SCALE − LeWM | paper | 15 | 15 | 67 | 7 | 1 |", "| DINO-WM − LeWM | paper | 8 | 15 | – | – | – |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "| paper |"); n != 10+3 {
		t.Errorf("%d published lines, want 2 comparisons x 5 tasks and 3 counts", n)
	}
}

// The published spread between sets is that of chance: docs/sources.md#set-spread gives 1.04
// over the tables, 1.16 for CEM, .93 for iCEM, 1.02 for MPPI.
func TestPublishedSetsAreHomogeneous(t *testing.T) {
	want := map[string]float64{"cem": 1.16, "icem": 0.93, "mppi": 1.02}
	for solver, ratio := range want {
		var between, binomial float64
		for _, tab := range published.Tables {
			for _, row := range tab.Rows {
				for i, mean := range row.Mean {
					if p := mean / 100; row.Solver == solver && p > 0 && p < 1 && row.SD[i] > 0 {
						between += row.SD[i] * row.SD[i] / 1e4
						binomial += p * (1 - p) / 100
					}
				}
			}
		}
		if got := between / binomial; math.Abs(got-ratio) > 0.011 {
			t.Errorf("%s: ratio %.3f, want %.2f", solver, got, ratio)
		}
	}
	if h := stats.Homogeneous([][]int{{50, 60, 40}}, [][]int{{100, 100, 100}}); math.Abs(h.Ratio-4) > 1e-12 {
		t.Errorf("variance .01 over .25/100: ratio %v", h.Ratio)
	}
}

// TestAggregates: over the paper's tables, all four methods share 75 cells; the
// mean is the plain mean of the printed rates (here plus half a point, the mean
// shift of the six sets), and SCALE's is above LeWM's as the paper says.
func TestAggregates(t *testing.T) {
	got := aggregates(fromPaper())
	if len(got) != 4 || got[0].Arm != lewm || got[1].Arm != scale {
		t.Fatalf("%+v", got)
	}
	sum := 0.0
	for _, tab := range published.Tables {
		for _, row := range tab.Rows {
			for _, m := range row.Mean {
				if row.Method == lewm {
					sum += m / 75
				}
			}
		}
	}
	l, s := got[0], got[1]
	if l.Cells != 75 || math.Abs(l.Mean.Value-sum-0.5) > 1e-9 || !(s.Mean.Value > l.Mean.Value) || !(s.IQM.Value > l.IQM.Value) {
		t.Errorf("LeWM %+v, SCALE %+v; mean of the tables %v", l, s, sum)
	}
	for _, a := range got {
		for _, e := range []paired.Estimate{a.Mean, a.IQM, a.Gap} {
			if !(e.Lo <= e.Value && e.Value <= e.Hi && e.Hi-e.Lo < 3) {
				t.Errorf("%s: %+v", a.Arm, e)
			}
		}
		if g := 100 - a.Mean.Value; a.Gap.Value < g-1e-9 { // rates above 100 do not make up for others
			t.Errorf("%s: gap %v below %v", a.Arm, a.Gap.Value, g)
		}
	}
}
