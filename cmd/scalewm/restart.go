package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/eval/pipeline"
	"scalewm/eval/results"
)

// errStalled ends a run that a batch system should not start again.
var errStalled = errors.New("no progress")

// restarts limits how often in a row a batch system restarts a job that makes no
// progress. A job whose time is shorter than the time to its first checkpoint would
// otherwise restart for ever. The count is stored in OUT/jobs, next to the job's
// other files, since every attempt is a new process.
type restarts struct {
	steps  pipeline.Graph
	path   string // file with the count
	limit  int    // 0: no limit
	before string // states of the steps at the start
}

// newRestarts records the states of a job's steps before it runs.
func newRestarts(ctx context.Context, steps pipeline.Graph, out, job string, limit int) restarts {
	r := restarts{steps: steps, path: filepath.Join(results.Folder(out).Jobs(), "stalled-"+job), limit: limit}
	if limit > 0 {
		r.before = states(ctx, steps)
	}
	return r
}

// states returns a text that changes whenever the steps make progress.
func states(ctx context.Context, steps pipeline.Graph) string {
	var all strings.Builder
	for _, s := range steps {
		state, err := s.State(ctx)
		fmt.Fprintln(&all, s.ID(), state, err)
	}
	return all.String()
}

// check returns the error of a run that ended with err. If SIGUSR1 stopped the run
// without progress for more than limit times in a row, that is errStalled. Any
// progress resets the count.
func (r restarts) check(ctx context.Context, err error) error {
	if r.limit == 0 || context.Cause(ctx) != errTimeUp {
		return err
	}
	// ctx is cancelled; reading the states must still work.
	if states(context.WithoutCancel(ctx), r.steps) != r.before {
		return errors.Join(err, safefile.Remove(r.path))
	}
	text, _ := safefile.Read(r.path, safefile.MaxRecord) // a missing file counts as 0
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if n++; n > r.limit {
		return fmt.Errorf("%w: the time was up %d times in a row without a new cell or checkpoint (hint: give the job more --time, and delete %s)", errStalled, n, r.path)
	}
	return errors.Join(err, safefile.Write(r.path, func(w io.Writer) error { _, err := fmt.Fprintln(w, n); return err }))
}
