package pipeline

import (
	"scalewm/eval/infer"
	"scalewm/eval/results"
)

// Score is a line of the table of results: the success of an arm at a tier in
// percent, mean and standard deviation over sets, the same numbers as in report.json.
// SD is nil for a single set.
type Score struct {
	Task   string `json:"task"`
	Method string `json:"method"`
	Seed   int    `json:"seed"`
	Solver string `json:"solver"`
	Tier   string `json:"tier"`
	// Settings describe, for readers, what distinguishes the evaluation from others.
	Settings string   `json:"settings,omitempty"`
	Sets     int      `json:"sets"`
	N        int      `json:"n"`
	Mean     float64  `json:"mean"`
	SD       *float64 `json:"sd"`
	Note     string   `json:"note,omitempty"` // a warning about NaN or infinite costs, or ""
}

// Scores summarises the cells that the graph's evaluations returned, one line per
// arm, solver and tier.
func (g Graph) Scores() []Score {
	var cells []results.Cell
	for _, s := range StepsOf[*Evaluate](g) {
		cells = append(cells, s.Cells...)
	}
	return Scores(cells)
}

// Scores summarises cells, one line per arm, solver, tier and settings, in the order of
// their first cells.
func Scores(cells []results.Cell) []Score {
	out := []Score{} // in JSON an empty list, never null
	placed, _ := infer.PlaceCells(cells)
	lines := map[Score][]results.Cell{} // keyed by a Score with only the naming fields set
	for _, c := range placed {
		name := Score{Task: c.Spec.Task, Method: c.Arm.String(), Seed: c.Spec.TrainSeed, Solver: c.Table, Tier: c.Spec.Tier, Settings: c.Settings.Name}
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
