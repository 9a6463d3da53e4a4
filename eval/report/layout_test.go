package report

import (
	"strings"
	"testing"

	"scalewm/eval/infer"
	"scalewm/eval/results"
)

// From the paper's own means (plus half a point, fromPaper) the tables have the paper's
// layout: four methods by three solvers, each with the paper's row under it, and the bold
// numbers of the paper.
func TestFullTable(t *testing.T) {
	g := &Group{Blocks: fromPaper()}
	full, cross := g.fullTable("pusht"), g.crossTable()
	if len(full.Rows) != 4*3*2 || len(cross.Rows) != 4*5*2 || g.fullGaps("pusht") != nil {
		t.Fatalf("%d and %d rows, gaps %v", len(full.Rows), len(cross.Rows), g.fullGaps("pusht"))
	}
	text := string(markdown([]Section{{Title: "x", Level: 2, Parts: []Part{full, cross}}}))
	for _, want := range []string{ // tab:full-pusht and tab:cross-task of the paper
		"| CEM | SCALE | paper | **96.0 ± 2.0** | 93.2 ± 2.6 | **84.7 ± 4.0** | 63.0 ± 4.6 | 32.5 ± 4.4 | 73.9 |",
		"| CEM | Aux | paper | 94.2 ± 1.9 | **93.3 ± 2.0** | **84.7 ± 5.3** | **66.2 ± 8.9** | **36.2 ± 7.9** | **74.9** |",
		"| PointMaze | DINO-WM | paper | **94.2 ± 1.7** |", "| MPPI | LeWM | ours | 80.7 ± 1.9 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A folder with fewer solvers, tiers and methods says what is not there; the mean is over
// the tiers that are.
func TestFullTableGaps(t *testing.T) {
	r := complete(t)
	text := string(markdown(r.besideThePaper()))
	for _, want := range []string{
		"Not in this folder: iCEM, MPPI, CEM at T2, CEM at T4 and DINO-WM.",
		"| CEM | LeWM | ours | 80.0 ± 10.0 | – | 73.3 ± 5.8 | – | 50.0 ± 10.0 | 67.8 |",
		"| CEM | LeWM | paper | 88.0 ± 2.0 | 87.7 ± 2.6 | 84.3 ± 3.4 | 71.7 ± 3.5 | 58.0 ± 4.4 | 76.8 |", // (88.0 + 84.3 + 58.0) / 3
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// SCALE with half the state succeeds in 6 of 10 at two tiers on two sets, with all of it in 7 and 9: 60 and 80 %.
func TestSelection(t *testing.T) {
	cells := cellsOf(t, []plan{{scale, "T1", []int{6, 6}}, {scale, "T3", []int{6, 6}}}, func(c *results.Cell) { c.Spec.Schema, c.Spec.Q, c.Spec.Weights = 2, "half", "half" })
	cells = append(cells, cellsOf(t, []plan{{scale, "T1", []int{7, 7}}, {scale, "T3", []int{9, 9}}}, func(c *results.Cell) { c.Spec.Schema, c.Spec.Q = 2, "full" })...)
	r, err := Build(&Data{Cells: cells}, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := string(markdown([]Section{{Title: "x", Level: 2, Parts: []Part{r.Groups[0].selectionTable()}}}))
	if want := "| Two-Room | SCALE | ours | 1 | 2 | 60.00 | 80.00 | – | +20.0 |"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

func TestLatentsOverTasks(t *testing.T) {
	r := complete(t)
	r.Analyses = analysed()
	r.Analyses = append(r.Analyses, results.Analysis{Spec: r.Analyses[0].Spec, Results: results.Results{Cost: &results.Cost{Params: 12345, Batch: 8, StepFLOP: 3e9,
		Tiers: []results.Plans{{Tier: "T1", FLOP: 1e12}, {Tier: "sum", FLOP: 2e12, Rollouts: 9000, PredictorCalls: 45000}},
		Times: &results.CostTimes{Plans: []results.PlanTime{{Tier: "T1", Seconds: 1.5}, {Tier: "sum", Seconds: 2.5}}, Step: &results.StepTime{StepsPerSec: 4, EpochSeconds: 20}}}}})
	sections := r.latents()
	text := string(markdown(sections))
	for _, want := range []string{"| Two-Room | LeWM | ours | 12,345 | 8 | 4 | 20 | 3 |", "| any | SCALE | authors | – | 128 | 3.85 |",
		"| Two-Room | LeWM | ours | 1.5 | – | – | – | – | 2.5 | 9,000 | 45,000 | 2 |", "| any | LeWM | authors | 1.2 | 0.578 | – | – | – | 2.41 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	page := textFormats(t, append(r.front(), sections...))["html"]
	if err := wellFormed(page); err != nil || strings.Count(page, `class="bar `) != 2+1 || strings.Count(page, `class="paperline"`) != 2+1 {
		t.Errorf("%v; %d bars", err, strings.Count(page, `class="bar `))
	}
}
