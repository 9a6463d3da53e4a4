package report

import (
	"fmt"
	"strings"
	"testing"

	"scalewm/eval/infer"
	"scalewm/eval/results"
)

// Two methods of three checkpoints each. Within each method better alignment goes with less
// success, yet the better aligned method has more. By hand: ranks of all differ by 2, 0 and 2
// in both methods, so 1 - 6*16/(6*35) = 0.54, z = 0.608 with deviation sqrt((1+0.54^2/2)/3) = 0.618. Within
// methods -1, taken as -(1 - 6/210): z = -2.120 with deviation sqrt((1+0.971^2/2)/2) = 0.858, so up to
// tanh(-2.120 + 1.681) = -0.41. The mean with a second task of the same numbers has 1/sqrt(2) of the deviations: from
// tanh(0.608 - 0.857) to tanh(0.608 + 0.857), and tanh(-2.120 + 1.189) = -0.73 within.
func TestForetold(t *testing.T) {
	r := &Report{}
	add := func(b *Block, method string, seed int, alignment, success float64) {
		weights := fmt.Sprint(b.Task, method, seed)
		spec := results.AnalysisSpec{Analysis: "rank", Task: b.Task, Method: method, TrainSeed: seed, Weights: weights, Device: "cpu"}
		r.Analyses = append(r.Analyses, results.Analysis{ID: weights, Spec: spec, Results: results.Results{Rank: []results.Rank{{Spearman: results.Number(alignment)}}}})
		b.Arms = append(b.Arms, Arm{Name: method, Weights: weights, Mean: Score{Score: infer.Score{Mean: success, BySet: make([]infer.SetRate, 1)}}})
	}
	blocks := []*Block{{Task: "tworoom"}, {Task: "reacher"}}
	for _, b := range blocks {
		for i, method := range []string{lewm, scale} {
			for seed := range 3 {
				add(b, method, seed, float64(3*i+seed), float64(30*i+30-10*seed))
			}
		}
		add(b, "untrained", 0, 9, 1) // a floor takes no part
	}
	g := Group{Foretold: r.foretold(blocks)}
	text := string(markdown([]Section{{Parts: []Part{g.foretoldTable()}}}))
	for _, want := range []string{
		"| Two-Room | rank alignment | 6 | 2 | 0.54 | −0.54 to 0.95 | −1.00 | −1.00 to −0.41 |",
		"| mean | rank alignment | 12 | 2 | 0.54 | −0.24 to 0.90 | −0.97 | −1.00 to −0.73 |",
	} {
		if len(g.Foretold) != 3 || !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
}
