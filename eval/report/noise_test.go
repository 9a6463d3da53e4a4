package report

import (
	"math"
	"strings"
	"testing"

	"scalewm/eval/infer"
	"scalewm/eval/results"
)

// With the second draw SCALE solves one more episode of ten, of each seed and set: differences of
// 100 points in a tenth of the episodes, so a variance of 0.1 * 100^2 / 2 = 500.
func TestSources(t *testing.T) {
	var cells []results.Cell
	for noise := range 2 {
		for seed, hits := range map[int]int{1: 7, 2: 4} {
			cells = append(cells, cellsOf(t, []plan{{lewm, "T1", []int{5, 5}}, {scale, "T1", []int{hits + noise, hits + noise}}}, func(c *results.Cell) {
				c.Spec.TrainSeed, c.Spec.PlannerNoise = seed, noise
				c.Spec.Weights += itoa(seed)
			})...)
		}
	}
	r, err := Build(&Data{Cells: cells}, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var found []Sources
	for _, g := range r.Groups {
		found = append(found, g.Sources...)
	}
	if len(found) != 1 || found[0].Noise != 500 || math.Abs(found[0].Interaction-(found[0].Rest-500)) > 1e-9 || found[0].Episodes != 20 || len(found[0].Seeds) != 2 {
		t.Fatalf("got %+v", found)
	}
	text := string(markdown(r.robust()))
	if want := "| SCALE − LeWM | Two-Room | CEM | T1 | 2 | 20 |"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}
