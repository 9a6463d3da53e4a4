package report

import (
	"strings"
	"testing"

	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// The page shows the share of the cost, the leverage of components next to their R2, and
// the picture of pairs with the percentiles of its analysis; a picture without an analysis
// is not shown.
func TestLeverage(t *testing.T) {
	c := resultstest.Contents(t)
	c.Analyses = []results.Analysis{{ID: "x", Spec: results.AnalysisSpec{Analysis: "leverage", Task: "tworoom", Method: "lewm", Weights: "w", Device: "cpu"},
		Results: results.Results{Leverage: &results.Leverage{N: 9, Components: []float64{22.9, 3}, R2: []results.Number{.271, .5}, Explained: .125, Readout: .195,
			Near: []results.FramePair{{Latent: 1.2, State: 99.6}}, Far: []results.FramePair{{Latent: 97, State: 8}, {Latent: 90, State: 10}}}}}}
	for _, method := range []string{"lewm", "scale"} {
		c.Clips = append(c.Clips, results.Clip{Task: "tworoom", Arm: results.Arm{Method: method}, Tier: results.PairsTier, GIF: []byte(resultstest.GIF)})
	}
	r := reportOf(t, c)
	md := string(doc.Markdown(r.leverage("tworoom", r.Checkpoints("tworoom"))))
	for _, want := range []string{"| LeWM | 0.125 | – | 0.195 | – |", "| Component | LeWM: 2λ | R² |", "| 1 | 22.9 | 0.271 |", "| 2 | 3 | 0.500 |", "Of LeWM (1/100; 97/8, 90/10).*"} {
		if !strings.Contains(md, want) {
			t.Errorf("the section lacks %q:\n%s", want, md)
		}
	}
	if films := string(doc.Markdown(r.films("tworoom"))); strings.Contains(films, results.PairsTier) {
		t.Errorf("a picture of pairs is among the films:\n%s", films)
	}
	if r := reportOf(t, resultstest.Contents(t)); len(r.leverage("tworoom", r.Checkpoints("tworoom"))) != 0 {
		t.Error("a folder without the analysis has the section")
	}
}

// The temperatures of a tuning are drawn and listed, and the chosen one is marked.
func TestTemperature(t *testing.T) {
	c := resultstest.Contents(t)
	if r := reportOf(t, c); len(r.temperature()) != 0 {
		t.Error("a folder without a tuning has the section")
	}
	at := func(temperature float64, hits int) []results.Cell {
		return resultstest.Cells(t, []resultstest.Plan{resultstest.P("lewm", "T1", hits)}, func(c *results.Cell) {
			c.Spec.Solver, c.Spec.Temperature = results.MPPI, temperature
		})
	}
	c.Tuning = append(at(8, 5), at(32, 7)...)
	c.Cells = append(c.Cells, at(32, 7)...)
	sections := reportOf(t, c).temperature()
	md := string(doc.Markdown(sections))
	for _, want := range []string{"| Two-Room | LeWM | 8 | 50.0 | 23.7 to 76.3 | 10 |  |", "| Two-Room | LeWM | 32 | 70.0 |", "| 10 | chosen |"} {
		if !strings.Contains(md, want) {
			t.Errorf("the section lacks %q:\n%s", want, md)
		}
	}
	figure := sections[0].Parts[0].(doc.Figure)
	if svg := string(figure.Panels[0]); strings.Count(svg, `<line class="zero"`) != 1 || !strings.Contains(svg, "LeWM at temperature 8: 50.0 % (95 %: 23.7 to 76.3)") {
		t.Errorf("%s", svg)
	}
}
