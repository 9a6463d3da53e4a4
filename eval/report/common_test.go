package report

import (
	"testing"

	_ "scalewm/envs/cube" // for their titles
	_ "scalewm/envs/pointmaze"
	_ "scalewm/envs/pusht"
	_ "scalewm/envs/reacher"
	_ "scalewm/envs/tworoom"
	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// Methods of the test folder (package resultstest).
const (
	lewm      = resultstest.LeWM
	scale     = resultstest.Scale
	aux       = resultstest.Aux
	untrained = resultstest.Untrained
	random    = resultstest.Random
)

type plan = resultstest.Plan

var p = resultstest.P

// reportOf returns the report of a folder's contents.
func reportOf(t *testing.T, c *results.Contents) *Report {
	t.Helper()
	r, err := Of(c, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ofCells returns the report of cells.
func ofCells(t *testing.T, cells ...[]results.Cell) *Report {
	t.Helper()
	c := &results.Contents{Gates: []results.Gate{resultstest.Gate}}
	for _, x := range cells {
		c.Cells = append(c.Cells, x...)
	}
	return reportOf(t, c)
}

// complete returns the report of the complete test folder.
func complete(t *testing.T) *Report {
	t.Helper()
	return reportOf(t, resultstest.Contents(t))
}

// rendered returns a report in all formats, by the names of the files.
func rendered(t *testing.T, r *Report) map[string][]byte {
	t.Helper()
	files, err := r.Render(AllFormats())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		out[f.Name] = f.Bytes
	}
	return out
}

// markdown returns parts as Markdown.
func markdown(parts ...doc.Part) string {
	return string(doc.Markdown([]doc.Section{{Title: "x", Level: 2, Parts: parts}}))
}

// ofSeed returns an edit that gives cells a training seed.
func ofSeed(seed int, edit func(*results.Spec)) func(*results.Cell) {
	return func(c *results.Cell) {
		c.Spec.TrainSeed = seed
		c.Spec.Weights += string(rune('0' + seed))
		edit(&c.Spec)
	}
}

func same(*results.Spec) {}
