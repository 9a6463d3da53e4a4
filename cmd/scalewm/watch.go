package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"scalewm/eval/pipeline"
	"scalewm/eval/submit"
)

// watchEvery is the interval at which the screen is updated.
const watchEvery = 5 * time.Second

// screen is what `reproduce --watch` shows: the numbers of results by stage, the
// queue of the batch system, and errors of jobs.
type screen struct {
	pipeline.Progress
	Queue  []string                   `json:"queue"`  // states of the batch system's jobs, with their numbers
	Errors []string                   `json:"errors"` // last lines of the logs of failed jobs
	rates  map[pipeline.Stage]float64 // results per hour
}

// watch shows the progress of a grid that other processes compute. On a terminal it
// updates the screen until everything is done or the user interrupts it. Otherwise,
// and with --json, it prints once. It takes no locks and writes nothing except files
// that it pulls from an object store.
func (c *command) watch(ctx context.Context, w *pipeline.Workspace, out string, asJSON bool) error {
	show := terminal(c.stdout)
	again := !asJSON && show != nil // repeat, only where the screen can be cleared
	v, began := pipeline.NewWatcher(w), time.Now()
	var first pipeline.Progress // rates are measured since this look
	for {
		if err := w.Pull(ctx, w.Graph()); err != nil {
			return err
		}
		look, err := v.Look(ctx)
		if err != nil {
			return err
		}
		if first.Stages == nil {
			first = look
		}
		s := screen{Progress: look, Queue: submit.Queue(ctx, out), Errors: submit.LastErrors(out), rates: ratesOf(first, look, time.Since(began))}
		if asJSON {
			return c.printJSON(s)
		}
		if again {
			fmt.Fprint(show, "\x1b[H\x1b[2J") // ANSI: cursor to the top left, clear the screen
		}
		if err := s.print(c.stdout); err != nil || !again || s.complete() {
			return err
		}
		// An interrupt takes effect at once.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchEvery):
		}
	}
}

// complete reports whether all results exist.
func (s screen) complete() bool {
	return !slices.ContainsFunc(s.Stages, func(l pipeline.StageProgress) bool { return l.Done < l.Of })
}

// ratesOf returns the results per hour of each stage between two looks; stages
// without progress have none. A rate is that of the entire run of --watch, since
// single results of slow stages are rare.
func ratesOf(first, now pipeline.Progress, since time.Duration) map[pipeline.Stage]float64 {
	rates := map[pipeline.Stage]float64{}
	// Both looks list the same stages in the same order: the graph does not change.
	for i, l := range now.Stages {
		if n := l.Done - first.Stages[i].Done; n > 0 {
			rates[l.Stage] = float64(n) / since.Hours()
		}
	}
	return rates
}

// print prints the table of stages with rates and remaining time, then the lists.
func (s screen) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "stage\tdone\tof\tan hour\tleft\t")
	for _, l := range s.Stages {
		rate, left := "–", "–"
		// Without progress so far there is no estimate.
		if r := s.rates[l.Stage]; r > 0 {
			rate = fmt.Sprintf("%.0f", r)
			left = time.Duration(float64(l.Of-l.Done) / r * float64(time.Hour)).Round(time.Minute).String()
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\t%s\n", l.Stage, l.Done, l.Of, rate, left, l.Note)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	// The title is printed on the first line of each list.
	for _, part := range []struct {
		title string
		lines []string
	}{{"training", s.Training}, {"queue", s.Queue}, {"errors", s.Errors}} {
		for i, line := range part.lines {
			title := ""
			if i == 0 {
				title = part.title
			}
			if _, err := fmt.Fprintf(w, "%-9s %s\n", title, line); err != nil {
				return err
			}
		}
	}
	return nil
}
