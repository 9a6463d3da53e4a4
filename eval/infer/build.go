package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"scalewm/dataset/parallel"
	"scalewm/eval/results"
)

// ErrNothing means that a folder has no cell of a method that plans.
var ErrNothing = errors.New("nothing to compare")

// Infer computes the table of a folder's contents. It returns an error that wraps
// [ErrNothing] if there is nothing to report, and an error if two cells contradict each other.
// Lesser problems become warnings of the table. It is deterministic: bootstraps and Monte
// Carlo tests use random streams derived from names.
func Infer(c *results.Contents, o Options) (*Table, error) {
	unread := c.Unread()
	if len(c.Cells) == 0 {
		because := ""
		if len(unread) > 0 {
			because = "; unusable: " + strings.Join(unread, "; ")
		}
		return nil, fmt.Errorf("report: %w: the folder holds no evaluation cells (hint: run `scalewm reproduce` or `scalewm eval` into it first)%s", ErrNothing, because)
	}
	placed, notes := PlaceCells(c.Cells)
	t := &Table{Contents: c, Origin: c.Origin(), Warnings: slices.Concat(unread, notes), byKey: map[key]*Number{}, checkpoints: map[string][]*Checkpoint{}, seedOf: map[string]int{}}
	for _, c := range c.Cells {
		t.seedOf[c.ID] = c.Spec.TrainSeed
	}
	var err error
	if t.Blocks, err = blocksOf(placed, c.Runs); err != nil {
		return nil, err
	}
	if len(t.Blocks) == 0 {
		return nil, fmt.Errorf("report: %w: the folder holds cells of random actions and policies only (hint: evaluate a trained method, `scalewm eval --help`)", ErrNothing)
	}
	t.compare(o)
	for _, b := range t.Blocks {
		t.success(b)
		t.differences(b)
	}
	for _, g := range t.Groups {
		t.over(g, o)
		t.seeds(g)
		t.sources(g)
	}
	t.factors(o)
	t.measure()
	for _, g := range t.Groups {
		t.predict(g)
	}
	t.publish()
	t.Claims = t.findings(t.Groups[0])
	t.check()
	// The order in which kinds were added means nothing; readers find rows by kind.
	slices.SortStableFunc(t.Numbers, func(a, b *Number) int { return strings.Compare(a.What, b.What) })
	return t, nil
}

// compare pairs the arms of all blocks, sorts the blocks into groups, and adjusts the
// p-values of each family of tests.
func (t *Table) compare(o Options) {
	var settings []*Settings
	var of []*Block
	// Bootstraps take most of a report's time. Each has its own random stream, so the result
	// does not depend on the number of workers.
	parallel.For(context.Background(), 0, len(t.Blocks), func(_, i int) error {
		t.Blocks[i].pair(o)
		t.Blocks[i].fresh(o)
		return nil
	})
	for _, b := range t.Blocks {
		if b.Main == nil || b.Main.Solver != b.Solver { // blocks of MPPI at stock temperature belong to a group too: the paper's test uses them
			of, settings = append(of, b), append(settings, b.settings)
		}
	}
	for _, x := range Groups(settings) {
		g := Group{Name: x.Name}
		for _, i := range x.Members {
			g.Blocks = append(g.Blocks, of[i])
		}
		Adjust(pairsOf(g.Main()))
		t.Groups = append(t.Groups, g)
	}
	adjustVaried(t.Blocks)
}
