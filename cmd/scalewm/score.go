package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"scalewm/eval/pipeline"
	"scalewm/eval/results"
)

// printScores prints success rates as a table, followed by notes on NaN or infinite
// costs. Policies have no solver, and random actions no seed either.
func printScores(w io.Writer, scores []pipeline.Score) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "task\tmethod\tseed\tsolver\ttier\tsets\tepisodes\tsuccess\tSD")
	for _, s := range scores {
		seed := fmt.Sprint(s.Seed)
		if s.Solver == "" { // a policy, or random actions
			s.Solver, s.Tier = "-", "-"
		}
		if arm, err := results.ParseArm(s.Method); err != nil || !arm.Entry().HasModel() {
			seed = "-"
		}
		if s.Settings != "" {
			s.Solver += " (" + s.Settings + ")"
		}
		sd := "-"
		if s.SD != nil {
			sd = fmt.Sprintf("%.1f", *s.SD)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%.1f %%\t%s\n", s.Task, s.Method, seed, s.Solver, s.Tier, s.Sets, s.N, s.Mean, sd)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range scores {
		if s.Note != "" {
			fmt.Fprintf(w, "note: %s %s, seed %d, %s %s: %s\n", s.Task, s.Method, s.Seed, s.Solver, s.Tier, s.Note)
		}
	}
	return nil
}
