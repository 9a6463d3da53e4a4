package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"scalewm/eval/paired"
	"scalewm/eval/pipeline"
	"scalewm/eval/record"
)

// score is one line of the table of results: the success of an arm at a tier,
// mean and standard deviation over sets in percent (as in report.json); one set
// has no deviation.
type score struct {
	Task   string   `json:"task"`
	Method string   `json:"method"`
	Seed   int      `json:"seed"`
	Solver string   `json:"solver"`
	Tier   string   `json:"tier"`
	Sets   int      `json:"sets"`
	N      int      `json:"n"`
	Mean   float64  `json:"mean"`
	SD     *float64 `json:"sd"`
}

// scoresOf sums up what the evaluations among the steps left, a line each.
func scoresOf(steps pipeline.Graph) []score {
	var cells []record.Cell
	for _, s := range pipeline.Of[*pipeline.Evaluate](steps) {
		cells = append(cells, s.Cells...)
	}
	return scores(cells)
}

// scores sums up cells in their order, each in the table to which it belongs.
func scores(cells []record.Cell) []score {
	out := []score{} // in JSON an empty list, never null
	placed, _ := paired.Place(cells)
	lines := map[score][]record.Cell{} // by what names a line
	for _, c := range placed {
		name := score{Task: c.Spec.Task, Method: c.Arm, Seed: c.Spec.TrainSeed, Solver: c.Table, Tier: c.Spec.Tier}
		if lines[name] == nil {
			out = append(out, name)
		}
		lines[name] = append(lines[name], c.Cell)
	}
	for i := range out {
		s := paired.ScoreOf(lines[out[i]])
		out[i].Sets, out[i].N, out[i].Mean = len(s.BySet), s.N, s.Mean
		if len(s.BySet) > 1 {
			out[i].SD = &s.SD
		}
	}
	return out
}

func printScores(w io.Writer, scores []score) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "task\tmethod\tseed\tsolver\ttier\tsets\tepisodes\tsuccess\tSD")
	for _, s := range scores {
		seed := fmt.Sprint(s.Seed)
		if s.Solver == "" {
			seed, s.Solver, s.Tier = "-", "-", "-"
		}
		sd := "-"
		if s.SD != nil {
			sd = fmt.Sprintf("%.1f", *s.SD)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%.1f %%\t%s\n", s.Task, s.Method, seed, s.Solver, s.Tier, s.Sets, s.N, s.Mean, sd)
	}
	return t.Flush()
}
