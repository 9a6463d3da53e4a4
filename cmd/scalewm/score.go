package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

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

// newScore sums up the cells of one job.
func newScore(cells []record.Cell) score {
	s := cells[0].Spec
	out := score{Task: s.Task, Method: s.Method, Seed: s.TrainSeed, Solver: s.Solver, Tier: s.Tier, Sets: len(cells)}
	for _, c := range cells {
		out.N += len(c.Result.Rows)
		out.Mean += c.Result.Rate() / float64(len(cells))
	}
	if len(cells) > 1 {
		var squares float64
		for _, c := range cells {
			d := c.Result.Rate() - out.Mean
			squares += d * d
		}
		sd := math.Sqrt(squares / float64(len(cells)-1))
		out.SD = &sd
	}
	return out
}

// scoresOf sums up what the evaluations among the steps left, a line each.
func scoresOf(steps pipeline.Graph) []score {
	scores := []score{} // in JSON an empty list, never null
	for _, s := range pipeline.Of[*pipeline.Evaluate](steps) {
		if len(s.Cells) > 0 {
			scores = append(scores, newScore(s.Cells))
		}
	}
	return scores
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
