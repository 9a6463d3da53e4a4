// Package pipeline reproduces a grid of experiments: tasks, methods, seeds, solvers, tiers
// and evaluation sets.
//
// A Grid is the product of these axes. Workspace.Graph turns it into a Graph of steps:
// collect a data set, tune MPPI's temperature, train, evaluate, analyse, report. A Step
// reports how much of its result exists (State) and computes the rest (Run), so that
// resuming is running the same graph again. Everything that applies to all steps is
// implemented once, over the graph: order, failures, dry runs (Graph.DryRun), shards
// (Graph.Shard), the stages of a batch system (Graph.Stage), and sharing results through an
// object store (Workspace.Run). Each kind of step has its own file.
//
// A typical caller reads a Preset with LoadPreset, fills a Grid, makes a Workspace for a
// results folder with NewWorkspace, calls Graph.Check to find requests that contradict the
// folder, and then Workspace.Run.
//
// The package also evaluates a single arm outside a grid (Evaluation) and describes a
// single training (Training), for the commands eval and train and for the Python package.
//
// The package prints nothing and does not know the command line; a Listener receives its
// progress. Mistakes in what the user requested are RequestErrors.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"scalewm/dataset/cell"
)

// Step is a unit of work of the graph. Its result is a set of files in the results
// folder, and the files alone say whether it is done: a step remembers nothing from
// earlier runs of the program.
type Step interface {
	// ID names the step by its kind and its subject: "train tworoom scale s3072". It is
	// unique in a graph and the same in every run.
	ID() string
	// Stage is the stage that the step belongs to. The steps that it needs belong to the
	// same stage or to an earlier one.
	Stage() Stage
	// Needs lists the IDs of the steps whose results this one reads. The first must be the
	// most specific one, such as the training of an evaluation: Divisible steps with the
	// same first need form a group, which shards try to keep together.
	Needs() []string
	// State returns how much of the result exists. It writes nothing. It returns a
	// RequestError if the step would conflict with the existing contents of the results
	// folder.
	State(ctx context.Context) (State, error)
	// Run computes the missing part of the result and describes the outcome in a few
	// words. It keeps existing results, after checking that they are the requested ones.
	// If only parts of the step failed, the error is of type Failures.
	Run(ctx context.Context) (outcome string, err error)
}

// State is how much of a step's result exists, as a dry run reports it.
type State struct {
	Text    string // "done", or what is to do
	Cells   int    // number of cells of the step's result; 0 unless the step is Divisible
	Missing int    // number of those cells that Run would compute
}

var (
	done = State{Text: "done"}
	toDo = State{Text: "to do"}
)

// done reports whether nothing is missing.
func (s State) done() bool { return s == done || s.Cells > 0 && s.Missing == 0 }

// Divisible is a step whose result consists of cells, which several shards can
// compute.
type Divisible interface {
	Step
	Len() int // number of cells
	// Part returns the step restricted to the cells, by index, for which ours is true.
	Part(ours func(cell int) bool) Divisible
	// found returns the ids of the step's cells that a listing of the folder shows. It
	// does not read them: the step and the report find damaged files.
	found(ctx context.Context) (ids []string, err error)
}

// Failures are the errors of the parts of a step that otherwise has a result, for
// instance of single sets of an evaluation.
type Failures []error

func (f Failures) Error() string { return fmt.Sprint([]error(f)) }

// Listener receives the events of a run. Progress may be called from any goroutine;
// the other methods are called from the goroutine that runs the graph.
type Listener interface {
	Begin(id string, i, n int)               // a step begins: number i (from 1) of n
	Progress(done, total int64, note string) // of the step that began last
	Note(text string)                        // something the user should know about that step
	End(id, outcome string)                  // the step has a result, perhaps an incomplete one
	Failed(id string, err error)             // the step or one of its parts failed
}

// Graph is a list of steps in topological order: each step follows those that it
// needs.
type Graph []Step

// Run runs the steps in order. A step that fails does not end the run: the steps that
// need it, directly or indirectly, are skipped, and all others still run. Run returns
// one line per failure. The error is not nil only if ctx was cancelled.
func (g Graph) Run(ctx context.Context, l Listener) (failed []string, err error) {
	return g.run(ctx, l, Step.Run)
}

// run is Run with another function in place of Step.Run.
func (g Graph) run(ctx context.Context, l Listener, runStep func(Step, context.Context) (string, error)) (failed []string, err error) {
	failed = []string{}          // in JSON an empty list, never null
	without := map[string]bool{} // IDs of steps without a result: failed or skipped
	for i, s := range g {
		id := s.ID()
		if without[id] = slices.ContainsFunc(s.Needs(), func(need string) bool { return without[need] }); without[id] {
			continue
		}
		l.Begin(id, i+1, len(g))
		outcome, err := runStep(s, ctx)
		// Whatever a step returned after a cancellation is a consequence of it and not a
		// failure of the step.
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
		// A step with failed parts has an incomplete result: steps that need it are skipped.
		var parts Failures
		if some, ok := err.(Failures); ok {
			parts = some
		} else if err != nil {
			parts = Failures{err}
		}
		for _, err := range parts {
			failed = append(failed, fmt.Sprintf("%s: %v", id, err))
			l.Failed(id, err)
		}
		without[id] = len(parts) > 0
		if outcome != "" {
			l.End(id, outcome)
		}
	}
	return failed, nil
}

// Check returns a RequestError, before anything is written, if a step would conflict
// with existing results. It ignores other errors of reading a step's state: Run
// reports them for the step concerned and runs the others.
func (g Graph) Check(ctx context.Context) error {
	for _, s := range g {
		_, err := s.State(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if refused := (*RequestError)(nil); errors.As(err, &refused) {
			return refused
		}
	}
	return nil
}

// Shard returns one shard's part of the graph: some of the cells of the Divisible
// steps, and all steps that these need. The needs are included in full, so that
// shards can run in separate folders without communication; in a shared folder a
// shard finds what another one has already made, or waits for its lock.
//
// Divisible steps with the same first need (normally a training) form a group. Groups
// are assigned to shards round-robin, so that as few shards as possible make the same
// checkpoint. If there are more shards than groups, the shards of a group share its
// cells round-robin. The assignment depends on the graph and the shard only and not
// on existing results: shards that start at different times must agree on it.
func (g Graph) Shard(shard cell.Shard) Graph {
	if shard.N <= 1 {
		return g
	}
	part := make(Graph, len(g))
	for i, shards := range g.assignment(shard.N, func(Step) bool { return true }) {
		part[i] = partOf(g[i], shards, shard)
	}
	return g.withNeeds(part, func(s Step) Step { return s })
}

// assignment returns, for each step at its index in the graph, which of n shards
// computes each of its cells. It covers the Divisible steps for which among is true;
// the entries of all other steps are nil.
func (g Graph) assignment(n int, among func(Step) bool) [][]int {
	groups := map[string]int{} // number of each group in the order of the graph, by first need
	for _, s := range g {
		if d, ok := s.(Divisible); ok && among(s) {
			if _, known := groups[d.Needs()[0]]; !known {
				groups[d.Needs()[0]] = len(groups)
			}
		}
	}
	cells := make([]int, len(groups)) // cells of each group seen so far
	shards := make([][]int, len(g))
	for i, s := range g {
		d, ok := s.(Divisible)
		if !ok || !among(s) {
			continue
		}
		group := groups[d.Needs()[0]]
		for range d.Len() {
			shards[i] = append(shards[i], shardOf(cells[group], group, len(groups), n))
			cells[group]++
		}
	}
	return shards
}

// shardOf returns which of n shards computes a cell of a group. With at least as many
// groups as shards, a group has one shard. Otherwise the shards that are equal to the
// group modulo the number of groups share its cells.
func shardOf(cell, group, groups, n int) int {
	if n <= groups {
		return group % n
	}
	sharing := (n - group + groups - 1) / groups
	return cell%sharing*groups + group
}

// partOf returns a shard's part of a step, given the shard of each of its cells or
// units, or nil if the shard has none of them.
func partOf(s Step, shards []int, shard cell.Shard) Step {
	if !slices.Contains(shards, shard.I) {
		return nil
	}
	switch s := s.(type) {
	case Divisible:
		return s.Part(func(k int) bool { return shards[k] == shard.I })
	case Shareable:
		if shard.N > 1 {
			return s.Share(shard)
		}
	}
	return s
}

// withNeeds completes part, in which each step is at its index in the graph or nil,
// with the steps that its steps need. It passes those through wrap and returns all of
// them in order.
func (g Graph) withNeeds(part Graph, wrap func(Step) Step) Graph {
	needed := map[string]bool{}
	// Backward, since a step's needs precede it: one pass adds the needs of needs too.
	for i, s := range slices.Backward(g) {
		if part[i] == nil && needed[s.ID()] {
			part[i] = wrap(s)
		}
		if part[i] != nil {
			for _, need := range s.Needs() {
				needed[need] = true
			}
		}
	}
	return slices.DeleteFunc(part, func(s Step) bool { return s == nil })
}

// RequestError is a mistake in what the user requested, such as an unknown name or a
// results folder of another protocol, in contrast to a failure of the work. Commands
// exit with the code for wrong usage on it.
type RequestError struct{ error }

func (e *RequestError) Unwrap() error { return e.error }

// Requestf returns a RequestError with a formatted message.
func Requestf(format string, args ...any) error {
	return &RequestError{fmt.Errorf(format, args...)}
}

// StepsOf returns the graph's steps of type S, in order.
func StepsOf[S Step](g Graph) (out []S) {
	for _, s := range g {
		if s, ok := s.(S); ok {
			out = append(out, s)
		}
	}
	return out
}
