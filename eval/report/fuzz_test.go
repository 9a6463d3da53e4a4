package report

import (
	"encoding/json"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
	"scalewm/model/train/metrics"
)

// FuzzBuild reports on cells with arbitrary content: the checksum of a cell says that
// it is complete, not that it makes sense. The malicious cell is paired with one of the
// same content and another method, and with normal cells.
func FuzzBuild(f *testing.F) {
	for _, p := range []plan{p(scale, "T1", 4), p(lewm, "T1", 8), p(random, "", 2)} {
		f.Add(inJSON(f, resultstest.Spec(p, 0)), inJSON(f, resultstest.Result(p, 4)), inJSON(f, resultstest.Run), inJSON(f, resultstest.Gate), inJSON(f, resultstest.Metrics(scale)[0]))
	}
	tuned := resultstest.Spec(p(lewm, "T1", 4), 0)
	tuned.Solver, tuned.Temperature = results.MPPI, 8
	f.Add(inJSON(f, tuned), inJSON(f, resultstest.Result(p(lewm, "T1", 4), 4)), "", inJSON(f, resultstest.Gate), inJSON(f, resultstest.Metrics(lewm)[0]))
	f.Fuzz(func(t *testing.T, spec, result, run, gate, row string) {
		c, d, g, r := results.Cell{ID: "hostile"}, &results.Contents{Runs: map[string]results.Run{}}, results.Gate{}, metrics.Row{}
		for _, part := range []struct {
			text string
			into any
		}{{spec, &c.Spec}, {result, &c.Result}, {gate, &g}, {row, &r}} {
			if json.Unmarshal([]byte(part.text), part.into) != nil {
				return
			}
		}
		twin := c
		twin.ID, twin.Spec.Method = "twin", lewm
		d.Cells = append(resultstest.Cells(t, []plan{p(aux, "T1", 4, 5)}, nil), c, twin)
		hotter := c
		hotter.ID, hotter.Spec.Temperature = "hotter", 2*c.Spec.Temperature
		d.Tuning = []results.Cell{c, hotter}
		d.Gates, d.Curves = []results.Gate{g}, []results.Curve{{Task: c.Spec.Task, Arm: c.Spec.Arm(), Rows: []metrics.Row{r, r}}}
		var times results.Run
		if json.Unmarshal([]byte(run), &times) == nil {
			d.Runs[c.ID] = times
		}
		fuzztest.Read(t, len(spec)+len(result)+len(run)+len(gate)+len(row), func() {
			if report, err := Of(d, infer.Options{}); err == nil {
				_, _ = report.Render(Formats())
			}
		})
	})
}

func inJSON(f *testing.F, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		f.Fatal(err)
	}
	return string(b)
}
