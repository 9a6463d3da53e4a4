package report

import (
	"math"
	"testing"

	"scalewm/eval/stats"
)

// published turns the paper's means into blocks: one arm a method, the six sets
// shifted by whole points that are the same for all methods.
func published(t *testing.T) []Block {
	t.Helper()
	var out []Block
	p := Published()
	for _, tab := range p.Tables {
		for _, solver := range []string{"cem", "icem", "mppi"} {
			b := Block{Task: tab.Task, Solver: solver}
			for _, row := range tab.Rows {
				if row.Solver != solver {
					continue
				}
				a := Arm{Method: row.Method, Scores: map[string]Score{}}
				b.Tiers = nil
				for i, mean := range row.Mean {
					s := Score{Tier: p.Tiers[i]}
					for k, set := range []string{"s101", "s102", "s103", "s104", "s105", "s106"} {
						s.BySet = append(s.BySet, SetRate{Set: set, N: 100, Rate: mean + float64(k-2)})
					}
					a.Scores[s.Tier] = s
					b.Tiers = append(b.Tiers, Tier{Name: s.Tier})
				}
				b.Arms = append(b.Arms, a)
			}
			out = append(out, b)
		}
	}
	return out
}

// TestSetLines: the paper's own means give its claim, SCALE above LeWM over the
// 75 cells of each set, with p = .03125 from six sets of one sign (paper, section
// 5; docs/sources.md#sign-flip: no set-level test can go below that).
func TestSetLines(t *testing.T) {
	lines := setLines(published(t))
	if len(lines) != 3 || lines[0].A != scale || lines[2].A != "dinowm" {
		t.Fatalf("lines of %+v", lines)
	}
	for _, l := range lines {
		if l.Cells != 75 || len(l.Sets) != 6 || l.B != lewm {
			t.Errorf("%s: %d cells, %d sets", l.A, l.Cells, len(l.Sets))
		}
		if l.P != 0.03125 {
			t.Errorf("%s: p = %v", l.A, l.P)
		}
	}
	want := 0.0
	n := 0
	for _, tab := range Published().Tables {
		rates := map[[2]string][5]float64{}
		for _, row := range tab.Rows {
			rates[[2]string{row.Solver, row.Method}] = row.Mean
		}
		for _, solver := range []string{"cem", "icem", "mppi"} {
			for i, x := range rates[[2]string{solver, scale}] {
				want += x - rates[[2]string{solver, lewm}][i]
				n++
			}
		}
	}
	if math.Abs(lines[0].Mean-want/float64(n)) > 1e-9 || !(lines[0].Mean > 0) {
		t.Errorf("SCALE - LeWM is %v, want %v", lines[0].Mean, want/float64(n))
	}
}

// A set that one cell lacks is left out; a single set decides nothing.
func TestSetLinesOnCommonSets(t *testing.T) {
	blocks := published(t)[:3]
	a := &blocks[2].Arms[1]
	for tier, s := range a.Scores {
		s.BySet = s.BySet[1:] // as MPPI's tables, without the set that chose its temperature
		a.Scores[tier] = s
	}
	l, ok := setLine(blocks, a.Method, lewm)
	if !ok || len(l.Sets) != 5 || l.P != 0.0625 {
		t.Errorf("five common sets: %+v", l)
	}
	for tier, s := range a.Scores {
		s.BySet = s.BySet[:1]
		a.Scores[tier] = s
	}
	if l, ok := setLine(blocks, a.Method, lewm); ok {
		t.Errorf("one set gave %+v", l)
	}
}

// The published spread between sets is that of chance: docs/sources.md#set-spread gives 1.04
// over the tables, 1.16 for CEM, .93 for iCEM, 1.02 for MPPI.
func TestPublishedSetsAreHomogeneous(t *testing.T) {
	want := map[string]float64{"cem": 1.16, "icem": 0.93, "mppi": 1.02}
	for solver, ratio := range want {
		var between, binomial float64
		for _, tab := range Published().Tables {
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
	got := aggregates(withSets(published(t)))
	if len(got) != 4 || got[0].Method != lewm || got[1].Method != scale {
		t.Fatalf("%+v", got)
	}
	sum := 0.0
	for _, tab := range Published().Tables {
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
		for _, e := range []Estimate{a.Mean, a.IQM, a.Gap} {
			if !(e.Lo <= e.Value && e.Value <= e.Hi && e.Hi-e.Lo < 3) {
				t.Errorf("%s: %+v", a.Method, e)
			}
		}
		if g := 100 - a.Mean.Value; a.Gap.Value < g-1e-9 { // rates above 100 do not make up for others
			t.Errorf("%s: gap %v below %v", a.Method, a.Gap.Value, g)
		}
	}
}

func withSets(blocks []Block) []Block {
	for i := range blocks {
		blocks[i].Sets = []string{"s101", "s102", "s103", "s104", "s105", "s106"}
	}
	return blocks
}
