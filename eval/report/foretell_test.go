package report

import (
	"fmt"
	"strings"
	"testing"

	"scalewm/eval/paired"
	"scalewm/eval/record"
)

// Two methods of three checkpoints each. Within each method better alignment goes with less
// success, yet the better aligned method has more. By hand: ranks of all differ by 2, 0 and 2
// in both methods, so 1 - 6*16/(6*35) = 0.54, z = 0.608 with deviation sqrt((1+0.54^2/2)/3) = 0.618.
func TestForetold(t *testing.T) {
	r, b := &Report{}, &Block{Task: "tworoom"}
	add := func(method string, seed int, alignment, success float64) {
		weights := fmt.Sprint(method, seed)
		spec := record.AnalysisSpec{Analysis: "rank", Task: "tworoom", Method: method, TrainSeed: seed, Weights: weights, Device: "cpu"}
		r.Analyses = append(r.Analyses, record.Analysis{ID: weights, Spec: spec, Results: record.Results{Rank: []record.Rank{{Spearman: record.Number(alignment)}}}})
		b.Arms = append(b.Arms, Arm{Name: method, Weights: weights, Mean: Score{Score: paired.Score{Mean: success, BySet: make([]paired.SetRate, 1)}}})
	}
	for i, method := range []string{lewm, scale} {
		for seed := range 3 {
			add(method, seed, float64(3*i+seed), float64(30*i+30-10*seed))
		}
	}
	add("untrained", 0, 9, 1) // a floor takes no part
	g := Group{Foretold: r.foretold([]*Block{b})}
	text := string(markdown([]Section{{Parts: []Part{g.foretoldTable()}}}))
	if want := "| Two-Room | rank alignment | 6 | 2 | 0.54 | −0.54 to 0.95 | −1.00 | −1.00 to −1.00 |"; len(g.Foretold) != 1 || !strings.Contains(text, want) {
		t.Errorf("the table lacks %q:\n%s", want, text)
	}
}
