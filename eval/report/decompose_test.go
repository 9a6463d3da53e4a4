package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
	"scalewm/model"
)

// searches are cells of LeWM and SCALE at T3 on two sets of ten episodes. Of each set LeWM
// solves own, with the simulator latent, with the probe probe, and with both both.
func searches(t *testing.T, seed, scaled, own, latent, probe, both int) []results.Cell {
	t.Helper()
	of := func(arm string, hits int) plan { return p(arm, "T3", hits, hits) }
	return resultstest.Cells(t, []plan{of(lewm, own), of(scale, scaled), of("oracle-latent@lewm", latent), of("probe@lewm", probe), of("oracle-probe@lewm", both), of("whiten@lewm", own), of(model.OracleState, 10)}, resultstest.Search(seed))
}

// decomposed returns the texts of the section on Two-Room, and the section as Markdown.
func decomposed(t *testing.T, r *Report) (said []string, markdown string) {
	t.Helper()
	s := r.decomposition("tworoom")
	if len(s) != 1 {
		t.Fatalf("%d sections", len(s))
	}
	for _, i := range s[0].Parts[0].(doc.Text).Items {
		said = append(said, i.Text)
	}
	return said, string(doc.Markdown(s))
}

// Of 100 episodes LeWM solves 40, with the simulator 70, with the probe 50, with both 90
// (see infer's TestDecompose: the effects are 35, 15, 10 and 20).
func TestDecomposition(t *testing.T) {
	said, text := decomposed(t, ofCells(t, searches(t, 1, 10, 4, 7, 5, 9)))
	want := "LeWM, CEM at T3: with the simulator in place of the predictor success rises by 35.0 points ("
	if len(said) != 2 || !strings.HasPrefix(said[0], want) || !strings.Contains(said[0], "; with the probed state in place of the latent distance the data do not show that success changes (+15.0, no interval). The data do not show which of the two helps more (difference +20.0, ") {
		t.Errorf("said %q", said)
	}
	// 10 of 20 and 18 of 20 differ from SCALE's 20 by -50 and -10 points.
	if want := "CEM at T3: probe@LeWM falls short of SCALE (−50.0, "; !strings.HasPrefix(said[1], want) || !strings.Contains(said[1], "; whether oracle-probe@LeWM reaches it is undecided (−10.0, ") {
		t.Errorf("said %q, want %q", said[1], want)
	}
	for _, want := range []string{
		"| Method | Tier | Dynamics | Latent distance | Probed state | Task state | Whitened latents |",
		"| LeWM | T3 | model | 40.0 (21.9 to 61.3) | 50.0 (29.9 to 70.1) | – | 40.0 (21.9 to 61.3) |",
		"| LeWM | T3 | simulator | 70.0 (48.1 to 85.5) | 90.0 (69.9 to 97.2) | 100.0 (83.9 to 100.0) | – |",
		"| LeWM | T3 | planning gap | +30.0 | ", "| LeWM | T3 | encoding | +10.0 | ", "| Oracle (state) | T3 | search | 0.0 | 0.0 to +16.1 | 20 episodes |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// The sentences follow from the intervals. With one seed that of 20 episodes is about 20 points
// from the difference. The two seeds of the last case have effects of -60 and -70 points, and
// Student's half width 12.7062 times 5.
func TestDecompositionSays(t *testing.T) {
	for _, c := range []struct {
		name  string
		seeds [][5]int // of SCALE, LeWM, with the simulator, with the probe, with both
		want  []string
	}{
		{"reaches", [][5]int{{4, 1, 1, 9, 9}}, []string{"probe@LeWM reaches SCALE within 5 points (+50.0, ", "so a better cost suffices.", "place of the latent distance success rises by 80.0 points (",
			"Replacing the cost helps more than replacing the dynamics (difference −80.0, "}},
		{"dynamics", [][5]int{{5, 0, 9, 0, 10}}, []string{"probe@LeWM falls short of SCALE (−50.0, ", "and oracle-probe@LeWM reaches it (+50.0, ", "so the dynamics are the limit.",
			"Replacing the dynamics helps more than replacing the cost (difference +90.0, "}},
		{"probe", [][5]int{{10, 1, 1, 2, 2}}, []string{"probe@LeWM falls short of SCALE (−80.0, ", "and so does oracle-probe@LeWM (−80.0, ", "so the latents or their probe are a limit."}},
		{"negative, two seeds", [][5]int{{9, 8, 2, 8, 2}, {9, 9, 2, 9, 2}}, []string{"place of the predictor success falls by 65.0 points (95 % interval −128.5 to −1.5)", "the data do not show that success changes (0.0, no interval)",
			"probe@LeWM may or may not reach SCALE (−5.0, 95 % interval −68.5 to +58.5).",
			"| LeWM | T3 | model | 85.0 (21.5 to 100.0) |"}}, // 80 and 90 %
	} {
		var cells []results.Cell
		for i, x := range c.seeds {
			cells = append(cells, searches(t, i+1, x[0], x[1], x[2], x[3], x[4])...)
		}
		said, text := decomposed(t, ofCells(t, distinct(cells)))
		for _, want := range c.want {
			if !strings.Contains(strings.Join(said, "\n")+text, want) {
				t.Errorf("%s: %q and\n%s, want %q", c.name, said, text, want)
			}
		}
	}
}

// distinct drops repeated cells: the oracle is the same for all seeds.
func distinct(cells []results.Cell) []results.Cell {
	seen := map[string]bool{}
	return slices.DeleteFunc(cells, func(c results.Cell) bool {
		old := seen[c.ID]
		seen[c.ID] = true
		return old
	})
}

// Searches with replaced components change neither the first lines of the report nor the
// paper's tables, claims and colours.
func TestReplacedAreNoMethods(t *testing.T) {
	replaced := distinct(slices.Concat(searches(t, 1, 10, 4, 7, 5, 9), searches(t, 2, 9, 4, 7, 5, 9)))
	without := slices.DeleteFunc(slices.Clone(replaced), func(c results.Cell) bool { return c.Spec.Arm().Replaced() })
	a, b := ofCells(t, without), ofCells(t, replaced)
	for name, of := range map[string]func(*Report) any{
		"lead":      func(r *Report) any { return r.title() + r.lead() },
		"tiles":     func(r *Report) any { return r.tiles() },
		"trainings": func(r *Report) any { return r.trainings() },
		"seen":      func(r *Report) any { return r.seen() },
		"scores":    func(r *Report) any { return r.scores() },
		"paper":     func(r *Report) any { return r.likeThePaper() },
		"compute":   func(r *Report) any { return r.compute() },
		"robust":    func(r *Report) any { return r.robust() },
		"claims":    func(r *Report) any { return r.claims() },
		"overview":  func(r *Report) any { return r.overviewTable() },
		"colours":   func(r *Report) any { return r.arms[:len(a.arms)] },
	} {
		if x, y := fmt.Sprintf("%+v", of(a)), fmt.Sprintf("%+v", of(b)); x != y {
			t.Errorf("%s is\n%s\nwithout replaced searches\n%s", name, y, x)
		}
	}
	if len(a.decomposition("tworoom")) != 0 || len(b.arms) != len(a.arms)+1 || b.class(results.Arm{Wrappers: "probe", Method: lewm}) != b.class(results.Arm{Method: lewm}) {
		t.Errorf("%d and %d colours", len(a.arms), len(b.arms))
	}
	if text := string(rendered(t, b)["report.csv"]); !strings.Contains(text, "tworoom,cem,probe@lewm,2,T3,") || !strings.Contains(text, "tworoom,cem,oracle-state,0,T3,") {
		t.Errorf("report.csv is\n%s", text)
	}
}
