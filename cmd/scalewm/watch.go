package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"scalewm/dataset/cell"
	"scalewm/eval/pipeline"
	"scalewm/eval/submit"
)

// watchEvery is how often a screen is drawn anew.
const watchEvery = 5 * time.Second

// screen is what `reproduce --watch` shows.
type screen struct {
	pipeline.Look
	Queue  []string `json:"queue"`  // states of the jobs that Slurm has, with their counts
	Errors []string `json:"errors"` // the last words of jobs that failed
	rates  map[pipeline.Stage]float64
}

// watch shows how a grid comes along until everything is there: a screen that is drawn
// anew on a terminal, once elsewhere.
func (c *command) watch(ctx context.Context, w *pipeline.Workspace, asJSON bool) error {
	f, ok := c.stdout.(*os.File)
	again := !asJSON && ok && isTerminal(f)
	v, began := pipeline.NewWatcher(w), time.Now()
	var first pipeline.Look
	for {
		look, err := v.Look(ctx)
		if err != nil {
			return err
		}
		if first.Stages == nil {
			first = look
		}
		s := screen{Look: look, Queue: queue(ctx, w.Dir), Errors: lastErrors(filepath.Join(w.Dir, submit.Dir, "log")), rates: ratesOf(first, look, time.Since(began))}
		if asJSON {
			return c.printJSON(s)
		}
		if again {
			fmt.Fprint(c.stdout, "\x1b[H\x1b[2J") // the screen is cleared
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

// queue counts the jobs of the last submission by state; none without Slurm.
func queue(ctx context.Context, dir string) []string {
	out := []string{}
	ids, err := submit.Submitted(dir)
	if err != nil || len(ids) == 0 {
		return out
	}
	ctx, stop := context.WithTimeout(ctx, watchEvery)
	defer stop()
	text, err := exec.CommandContext(ctx, "squeue", "--me", "--noheader", "--array", "--format", "%F %j %T").Output()
	if err != nil {
		return out // the controller may be away; the files tell all the same
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && slices.Contains(ids, f[0]) {
			counts[strings.TrimPrefix(f[1], "scalewm-")+" "+strings.ToLower(f[2])]++
		}
	}
	for state, n := range counts {
		out = append(out, fmt.Sprintf("%d %s", n, state))
	}
	slices.Sort(out)
	return out
}

const (
	shownErrors = 5
	logTail     = 4096 // bytes at the end of a log that its last words are looked for in
)

// lastErrors are the last words of the jobs whose logs end with an error, those of the
// latest logs.
func lastErrors(dir string) []string {
	entries, _ := os.ReadDir(dir) // none where nothing was submitted
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return modTime(b).Compare(modTime(a)) })
	out := []string{}
	for _, e := range entries {
		if line := lastError(filepath.Join(dir, e.Name())); line != "" {
			if out = append(out, e.Name()+": "+line); len(out) == shownErrors {
				break
			}
		}
	}
	return out
}

func modTime(e os.DirEntry) time.Time {
	info, err := e.Info()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// lastError is the last line of a log that tells of a failure.
func lastError(path string) (found string) {
	f, err := cell.Open(path, cell.MaxMetrics)
	if err != nil {
		return ""
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		f.Seek(max(0, end-logTail), io.SeekStart)
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, "scalewm: ") || strings.Contains(line, " failed: ") {
			found = line
		}
	}
	return found
}
