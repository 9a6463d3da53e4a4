package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"scalewm/eval/infer"
	"scalewm/eval/pipeline"
	"scalewm/eval/results"
)

func init() {
	register(verb{name: "select", args: "RUN...", summary: "rank checkpoints on recorded episodes, without a simulator",
		example: "scalewm select runs/lewm runs/scale --data own.h5\n" +
			"scalewm select runs/lewm runs/lewm/step-*.safetensors --data own.h5 --json", run: runSelect})
}

// runSelect ranks checkpoints by measures on held-out episodes of a data set, and recommends
// the best one if the measures can tell. It only reads. Requests that do not fit are
// rejected before a model is loaded.
func runSelect(ctx context.Context, c *command, args []string) error {
	data := c.String("data", "", "data set with episodes that the trainings have not seen, an HDF5 `file`")
	task := c.String("task", "", "`name` of the task, if the checkpoints do not record it")
	columns := c.String("q-columns", "", "data-set `columns` that form the task state with --task none (default: those of the checkpoints)")
	name := c.String("measure", infer.DefaultMeasure, "`measure` whose score ranks: "+strings.Join(measureNames(), ", "))
	success := c.String("success", "", "results `folder` with evaluations of these checkpoints: also print how well each measure predicted success")
	workers := c.Count("workers", 0, "use `n` goroutines; 0 means one per core (results do not depend on it)")
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	dev := c.deviceFlags("fp32")
	runs, err := c.parse(args, 1, -1)
	if err == nil {
		err = c.required("data")
	}
	if err != nil {
		return err
	}
	m, err := results.SelectionMeasureOf(*name)
	if err != nil {
		return usagef("select: %v", err)
	}
	d, err := dev.open(false)
	if err != nil {
		return err
	}
	defer d.Close()
	l := &listener{command: c, quiet: true}
	defer l.endProgress()
	s, err := pipeline.Selection{Runs: runs, Data: *data, Task: *task, Columns: *columns, Measure: m, Success: *success, Dev: d, Workers: orAllCores(*workers), Listener: l}.Run(ctx)
	if err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(s)
	}
	return printSelection(c.stdout, s)
}

// measureNames returns the names of the measures, in the order of tables.
func measureNames() (names []string) {
	for _, m := range results.SelectionMeasures {
		names = append(names, m.Name)
	}
	return names
}

// selectionCells returns the measures of a checkpoint as cells of a table, with "–" for one
// that it lacks.
func selectionCells(value func(results.SelectionMeasure) results.Number) (cells []string) {
	for _, m := range results.SelectionMeasures {
		text := "–"
		if v := float64(value(m)); !math.IsNaN(v) {
			text = fmt.Sprintf("%.4g", v)
		}
		cells = append(cells, text)
	}
	return cells
}

// printSelection prints the ranking, the recommendation and, if success is known, how well
// the measures predicted it.
func printSelection(out io.Writer, s infer.Selected) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "ranked by %s\t%s\tnotes\n", s.Measure, strings.Join(measureNames(), "\t"))
	for _, r := range s.Ranking {
		cells := selectionCells(func(m results.SelectionMeasure) results.Number { return r.Measures[m.Name] })
		var notes []string
		if r.Success != nil {
			notes = append(notes, fmt.Sprintf("success %.1f %%", *r.Success))
		}
		if r.Seen {
			notes = append(notes, "has seen these rows")
		}
		if r.Missing != "" {
			notes = append(notes, r.Missing)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.Run, strings.Join(cells, "\t"), strings.Join(notes, "; "))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the ranking: %w", err)
	}
	if s.Recommend != nil {
		fmt.Fprintf(out, "\nrecommended: %s: %s\n", *s.Recommend, s.Reason)
	} else {
		fmt.Fprintf(out, "\nno recommendation: %s\n", s.Reason)
	}
	if len(s.Predicts) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nmeasure\tkind\tcheckpoints\tgroups\tSpearman\t95 %%\thit rate\t95 %%\tregret\t95 %%\tby chance\n")
	for _, p := range s.Predicts {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t[%s, %s]\t%s\t[%s, %s]\t%s\t[%s, %s]\t%s\n", p.Measure, p.Kind, p.Runs, p.Groups, number(p.Spearman, 2), number(p.Lo, 2), number(p.Hi, 2),
			number(p.HitRate, 2), number(p.HitLo, 2), number(p.HitHi, 2), number(p.Regret, 1), number(p.RegretLo, 1), number(p.RegretHi, 1), number(p.Chance, 1))
	}
	return w.Flush()
}
