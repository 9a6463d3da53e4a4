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

// errStalled ends a run that a batch system need not start again.
var errStalled = errors.New("no progress")

// restarts bounds how often in a row a batch system starts a job again that does
// not come along: a job whose time is too short for its first checkpoint would
// otherwise go round for ever. The count lies beside the job's other files.
type restarts struct {
	steps  pipeline.Graph
	path   string
	limit  int    // 0: no bound
	before string // what was there of the steps at the start
}

func newRestarts(ctx context.Context, steps pipeline.Graph, out, job string, limit int) restarts {
	r := restarts{steps: steps, path: filepath.Join(results.Folder(out).Jobs(), "stalled-"+job), limit: limit}
	if limit > 0 {
		r.before = states(ctx, steps)
	}
	return r
}

// states tells what is there of the steps' results.
func states(ctx context.Context, steps pipeline.Graph) string {
	var all strings.Builder
	for _, s := range steps {
		state, err := s.State(ctx)
		fmt.Fprintln(&all, s.ID(), state, err)
	}
	return all.String()
}

// after is the error of a run that ended with err. Where the time was up before
// anything was made, and so it was limit times before, it is errStalled.
func (r restarts) after(ctx context.Context, err error) error {
	if r.limit == 0 || context.Cause(ctx) != errTimeUp {
		return err
	}
	if states(context.WithoutCancel(ctx), r.steps) != r.before {
		return errors.Join(err, safefile.Remove(r.path))
	}
	text, _ := safefile.Read(r.path, safefile.MaxRecord) // none is 0
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if n++; n > r.limit {
		return fmt.Errorf("%w: the time was up %d times in a row without a new cell or checkpoint (hint: give the job more --time, and delete %s)", errStalled, n, r.path)
	}
	return errors.Join(err, safefile.Write(r.path, func(w io.Writer) error { _, err := fmt.Fprintln(w, n); return err }))
}
