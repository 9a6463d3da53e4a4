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

// watchEvery is how often a screen is drawn anew.
const watchEvery = 5 * time.Second

// screen is what `reproduce --watch` shows.
type screen struct {
	pipeline.Look
	Queue  []string `json:"queue"`  // states of the jobs that the batch system has, with their counts
	Errors []string `json:"errors"` // the last words of jobs that failed
	rates  map[pipeline.Stage]float64
}

// watch shows how a grid comes along until everything is there: a screen that is drawn
// anew on a terminal, once elsewhere.
func (c *command) watch(ctx context.Context, w *pipeline.Workspace, out string, asJSON bool) error {
	show := terminal(c.stdout)
	again := !asJSON && show != nil
	v, began := pipeline.NewWatcher(w), time.Now()
	var first pipeline.Look
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
		s := screen{Look: look, Queue: submit.Queue(ctx, out), Errors: submit.LastErrors(out), rates: ratesOf(first, look, time.Since(began))}
		if asJSON {
			return c.printJSON(s)
		}
		if again {
			fmt.Fprint(show, "\x1b[H\x1b[2J") // the screen is cleared
		}
		if err := s.print(c.stdout); err != nil || !again || s.complete() {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchEvery):
		}
	}
}

func (s screen) complete() bool {
	return !slices.ContainsFunc(s.Stages, func(l pipeline.StageLook) bool { return l.Done < l.Of })
}

// ratesOf are results an hour by stage, since the first look.
func ratesOf(first, now pipeline.Look, since time.Duration) map[pipeline.Stage]float64 {
	rates := map[pipeline.Stage]float64{}
	for i, l := range now.Stages {
		if n := l.Done - first.Stages[i].Done; n > 0 {
			rates[l.Stage] = float64(n) / since.Hours()
		}
	}
	return rates
}

func (s screen) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "stage\tdone\tof\tan hour\tleft\t")
	for _, l := range s.Stages {
		rate, left := "–", "–"
		if r := s.rates[l.Stage]; r > 0 {
			rate = fmt.Sprintf("%.0f", r)
			left = time.Duration(float64(l.Of-l.Done) / r * float64(time.Hour)).Round(time.Minute).String()
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\t%s\n", l.Stage, l.Done, l.Of, rate, left, l.Note)
	}
	if err := table.Flush(); err != nil {
		return err
	}
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
