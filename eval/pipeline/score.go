package pipeline

import (
	"scalewm/eval/infer"
	"scalewm/eval/results"
)

// Score is one line of the table of results: the success of an arm at a tier,
// mean and standard deviation over sets in percent (as in report.json); one set
// has no deviation.
type Score struct {
	Task   string   `json:"task"`
	Method string   `json:"method"`
	Seed   int      `json:"seed"`
	Solver string   `json:"solver"`
	Tier   string   `json:"tier"`
	Sets   int      `json:"sets"`
	N      int      `json:"n"`
	Mean   float64  `json:"mean"`
	SD     *float64 `json:"sd"`
	Note   string   `json:"note,omitempty"` // what to know about the costs that chose its plans
}

// Scores sums up what the evaluations among the graph's steps left, a line each.
func (g Graph) Scores() []Score {
	var cells []results.Cell
	for _, s := range Of[*Evaluate](g) {
		cells = append(cells, s.Cells...)
	}
	return Scores(cells)
}

// Scores sums up cells in their order, each in the table to which it belongs.
func Scores(cells []results.Cell) []Score {
	out := []Score{} // in JSON an empty list, never null
	placed, _ := infer.PlaceCells(cells)
	lines := map[Score][]results.Cell{} // by what names a line
	for _, c := range placed {
		name := Score{Task: c.Spec.Task, Method: c.Arm.String(), Seed: c.Spec.TrainSeed, Solver: c.Table, Tier: c.Spec.Tier}
		if lines[name] == nil {
			out = append(out, name)
		}
		lines[name] = append(lines[name], c.Cell)
	}
	for i := range out {
		s := infer.ScoreOf(lines[out[i]])
		out[i].Sets, out[i].N, out[i].Mean = len(s.BySet), s.N, s.Mean
		out[i].Note = s.Note()
		if len(s.BySet) > 1 {
			out[i].SD = &s.SD
		}
	}
	return out
}
