package report

import (
	"encoding/json"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/model/train/metrics"
)

// FuzzBuild reports on cells that say anything at all: the checksum of a cell says
// that it is whole, not that it makes sense. The hostile cell is paired with one of
// the same content of another method, and with cells that are as they should be.
func FuzzBuild(f *testing.F) {
	for _, p := range []plan{{scale, "T1", []int{4}}, {lewm, "T1", []int{8}}, {random, "", []int{2}}} {
		f.Add(text(f, fakeSpec(p, 0)), text(f, fakeResult(p, 4)), text(f, fakeRun), text(f, fakeGate), text(f, fakeMetrics(scale)[0]))
	}
	f.Fuzz(func(t *testing.T, spec, result, run, gate, row string) {
		c, d, g, r := results.Cell{ID: "hostile"}, &Data{Runs: map[string]results.Run{}}, results.Gate{}, metrics.Row{}
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
		d.Cells = append(cellsOf(t, []plan{{aux, "T1", []int{4, 5}}}, nil), c, twin)
		d.Gates, d.Training = []results.Gate{g}, []Training{{Task: c.Spec.Task, Method: c.Spec.Method, Rows: []metrics.Row{r, r}}}
		var times results.Run
		if json.Unmarshal([]byte(run), &times) == nil {
			d.Runs[c.ID] = times
		}
		fuzztest.Read(t, len(spec)+len(result)+len(run)+len(gate)+len(row), func() {
			if report, err := Build(d, infer.Options{}); err == nil {
				_, _ = report.Render(Formats())
			}
		})
	})
}

func text(f *testing.F, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		f.Fatal(err)
	}
	return string(b)
}
