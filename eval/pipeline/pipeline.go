// Package pipeline reproduces a grid: the axes of a Grid become a Graph of steps
// (collect, train, tune, evaluate, report), each a value that says what is there
// of its result and makes what is missing. What holds for all steps (order,
// shards, failures, dry runs) is written once over the graph; each kind of step
// has a file of its own.
//
// The package is silent: a Listener hears what happens. It knows tasks by package
// envs and methods by the table in package model, and nothing of a command line.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"scalewm/dataset/cell"
)

// Step is a piece of work whose result lies in the results folder.
type Step interface {
	// ID names the step by its kind and by what it works on: "train tworoom
	// scale s3072". It is unique in a graph and stays the same between runs.
	ID() string
	// Stage is the stage that the step belongs to. What it needs belongs to the same
	// one or to an earlier one.
	Stage() Stage
	// Needs lists the IDs of the steps whose results this one reads. The first
	// one is the most particular: Divisible steps that share it go to one shard.
	Needs() []string
	// State says what is there of the result. It writes nothing. A RequestError
	// refuses a step whose result does not belong beside what is there.
	State(ctx context.Context) (State, error)
	// Run makes what is missing of the result and says in a few words what became
	// of it. A result that is there is kept, and checked to be what is asked for.
	// A step of which some parts failed returns Failures.
	Run(ctx context.Context) (outcome string, err error)
}

// State is what a dry run says of a step.
type State struct {
	Text    string // "done", or what is to do
	Cells   int    // that the step's result consists of; 0 unless it is Divisible
	Missing int    // cells among them that Run would make
}

var (
	done = State{Text: "done"}
	toDo = State{Text: "to do"}
)

// done says that nothing is missing.
func (s State) done() bool { return s == done || s.Cells > 0 && s.Missing == 0 }

// Divisible is a step whose result is cells, which shards can share.
type Divisible interface {
	Step
	Len() int // cells
	// Part is the step with those of its cells, by index, that ours says yes to.
	Part(ours func(cell int) bool) Divisible
	// found are the ids of its existing cells by the listing of the folder. Files may be damaged,
	// which the step and the report check.
	found(ctx context.Context) (ids []string, err error)
}

// Failures are the errors of a step's parts.
type Failures []error

func (f Failures) Error() string { return fmt.Sprint([]error(f)) }

// Listener hears of a run. Progress may be called from any goroutine, the others
// are called from the one that runs the graph.
type Listener interface {
	Begin(id string, i, n int)               // a step begins, number i (from 1) of n
	Progress(done, total int64, note string) // of the step that began last
	Note(text string)                        // what a person should know about it
	End(id, outcome string)                  // the step's result is there, or what could be made of it
	Failed(id string, err error)             // the step failed, or one of its parts
}

// Graph lists steps in an order in which they can be done.
type Graph []Step

// Run runs the steps one after another. A step that fails does not end the run:
// what needs it is left out, the rest goes on, and the failures are returned, a
// line each. The error is that of an interruption.
func (g Graph) Run(ctx context.Context, l Listener) (failed []string, err error) {
	return g.run(ctx, l, Step.Run)
}

func (g Graph) run(ctx context.Context, l Listener, runStep func(Step, context.Context) (string, error)) (failed []string, err error) {
	failed = []string{}
	without := map[string]bool{} // steps that have no result
	for i, s := range g {
		id := s.ID()
		if without[id] = slices.ContainsFunc(s.Needs(), func(need string) bool { return without[need] }); without[id] {
			continue
		}
		l.Begin(id, i+1, len(g))
		outcome, err := runStep(s, ctx)
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
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

// Check refuses a graph of which a step cannot be done beside what is there, before
// anything is written. A state that cannot be had otherwise is for Run to tell of.
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

// Shard is one shard's part of the graph: some of the cells of Divisible steps,
// with all steps that these need, so that shards can work in folders of their
// own; in a shared folder what one has made the others find. Divisible steps with
// the same first need are a group. Groups are dealt out to shards in turn; where
// there are more shards than groups, the shards of a group share its cells in
// turn. A part of the graph depends on nothing but the graph and the shard.
func (g Graph) Shard(shard cell.Shard) Graph {
	if shard.N <= 1 {
		return g
	}
	part := make(Graph, len(g))
	for i, makers := range g.dealt(shard.N, func(Step) bool { return true }) {
		part[i] = share(g[i], makers, shard)
	}
	return g.withNeeds(part, func(s Step) Step { return s })
}

// dealt lists, for each Divisible step in its place in the graph that is among, which of n
// shards makes each of its cells; nothing for other steps.
func (g Graph) dealt(n int, among func(Step) bool) [][]int {
	groups := map[string]int{} // by first need, numbered in the order of the graph
	for _, s := range g {
		if d, ok := s.(Divisible); ok && among(s) {
			if _, known := groups[d.Needs()[0]]; !known {
				groups[d.Needs()[0]] = len(groups)
			}
		}
	}
	cells := make([]int, len(groups)) // of each group so far
	makers := make([][]int, len(g))
	for i, s := range g {
		d, ok := s.(Divisible)
		if !ok || !among(s) {
			continue
		}
		group := groups[d.Needs()[0]]
		for range d.Len() {
			makers[i] = append(makers[i], makerOf(cells[group], group, len(groups), n))
			cells[group]++
		}
	}
	return makers
}

// makerOf is which of n shards makes a cell of a group. Where there are fewer groups than
// shards, some shards have one group between them: those of the same remainder by groups.
func makerOf(cell, group, groups, n int) int {
	if n <= groups {
		return group % n
	}
	sharing := (n - group + groups - 1) / groups
	return cell%sharing*groups + group
}

// share is what a shard makes of a step of which its makers are known: nil where it is none of them.
func share(s Step, makers []int, shard cell.Shard) Step {
	if !slices.Contains(makers, shard.I) {
		return nil
	}
	switch s := s.(type) {
	case Divisible:
		return s.Part(func(k int) bool { return makers[k] == shard.I })
	case Shareable:
		if shard.N > 1 {
			return s.Share(shard)
		}
	}
	return s
}

// withNeeds are the steps of part, which has them in their places in the graph, after
// the steps that they need, as wrap has them.
func (g Graph) withNeeds(part Graph, wrap func(Step) Step) Graph {
	wanted := map[string]bool{}
	for i, s := range slices.Backward(g) { // a step's needs stand before it
		if part[i] == nil && wanted[s.ID()] {
			part[i] = wrap(s)
		}
		if part[i] != nil {
			for _, need := range s.Needs() {
				wanted[need] = true
			}
		}
	}
	return slices.DeleteFunc(part, func(s Step) bool { return s == nil })
}

// RequestError is a mistake in what was asked for, as opposed to a failure of the
// work: a preset or a set by a wrong name.
type RequestError struct{ error }

func (e *RequestError) Unwrap() error { return e.error }

// Requestf is a RequestError.
func Requestf(format string, args ...any) error {
	return &RequestError{fmt.Errorf(format, args...)}
}

// Of are the graph's steps of one kind.
func Of[S Step](g Graph) (out []S) {
	for _, s := range g {
		if s, ok := s.(S); ok {
			out = append(out, s)
		}
	}
	return out
}
