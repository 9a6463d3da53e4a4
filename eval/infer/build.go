package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"scalewm/dataset/parallel"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// ErrNothing is returned, wrapped, if a folder has no cell of a method that plans.
var ErrNothing = errors.New("nothing to compare")

// Infer computes the table of all numbers that a results folder supports. It returns an
// error that wraps ErrNothing if there is nothing to report. Everything less serious (an
// unreadable file, arms that cannot be paired, few episodes) becomes a warning or a note.
//
// The result is a function of the contents and the options. It does not depend on the
// order of files or on the number of cores: all draws come from named random streams.
func Infer(c *results.Contents, o Options) (*Table, error) {
	unread := c.Unread()
	if len(c.Cells) == 0 {
		because := ""
		if len(unread) > 0 {
			because = "; unusable: " + strings.Join(unread, "; ")
		}
		return nil, fmt.Errorf("report: %w: the folder holds no evaluation cells (hint: run `scalewm reproduce` or `scalewm eval` into it first)%s", ErrNothing, because)
	}
	// Place every cell, then arrange the cells in blocks.
	placed, notes := PlaceCells(c.Cells)
	t := &Table{Contents: c, Origin: c.Origin(), Warnings: slices.Concat(unread, c.Notes, notes), byKey: map[key]*Number{}, foreign: map[string]Placed{}, checkpoints: map[string][]*Checkpoint{}, seedOf: map[string]int{}, weightsOf: map[string]string{}}
	for _, c := range c.Cells {
		t.seedOf[c.ID], t.weightsOf[c.ID] = c.Spec.TrainSeed, c.Spec.Weights
	}
	for _, a := range c.Analyses {
		t.weightsOf[a.ID] = a.Spec.Weights
	}
	foreign, err := placeForeign(o.With, placed)
	if err != nil {
		return nil, fmt.Errorf("report: --with: %w", err)
	}
	for _, p := range foreign {
		t.foreign[p.ID] = p
	}
	t.Foreign, placed = o.With, append(placed, foreign...)
	if t.Blocks, err = blocksOf(placed, c.Runs); err != nil {
		return nil, err
	}
	if len(t.Blocks) == 0 {
		return nil, fmt.Errorf("report: %w: the folder holds cells of random actions and policies only (hint: evaluate a trained method, `scalewm eval --help`)", ErrNothing)
	}
	for _, p := range placed {
		if p.Table == "" && !slices.ContainsFunc(t.Blocks, func(b *Block) bool { return p.Settings.Joins(b.settings) }) {
			t.Warnings = append(t.Warnings, fmt.Sprintf("%s: %s is left out, since no search has its settings (%s)", words.Task(p.Spec.Task), words.Arm(p.Arm), p.Settings.value.words(func(setKey) bool { return true })))
		}
	}
	if t.Baseline, err = baselineOf(ArmsOf(t.Blocks), o.Baseline); err != nil {
		return nil, fmt.Errorf("report: --baseline: %w", err)
	}
	o.baseline = t.Baseline
	// Numbers of one block first. Numbers over several blocks, over training seeds, of
	// checkpoints, and the claims are computed from them and look them up with Find.
	t.compare(o)
	for _, b := range t.Blocks {
		t.success(b)
		t.differences(b)
		t.seedDifferences(b)
		t.compute(b)
		t.decompose(b, o)
	}
	t.equalCompute(o)
	for _, g := range t.Groups {
		t.over(g, o)
		t.seeds(g)
		t.sources(g)
	}
	t.factors(o)
	t.measure()
	t.tuning()
	for _, g := range t.Groups {
		t.predict(g)
	}
	t.publish()
	// The claims compare SCALE, the method of the first one, with LeWM, under the paper's
	// settings. Groups that have them are first.
	paper := t.Groups[0].Published()
	if arms := ArmsOf(paper.Blocks); t.Baseline == paperBaseline && slices.Contains(arms, PaperClaims[0].A) {
		t.Claims = t.findings(paper)
	}
	t.check()
	t.Warnings = distinct(t.Warnings)
	// The sort is stable, so that numbers of one kind keep the order of the blocks.
	slices.SortStableFunc(t.Numbers, func(a, b *Number) int { return strings.Compare(a.What, b.What) })
	return t, nil
}

// compare pairs the arms of all blocks, sorts the blocks into groups, and adjusts the
// families of tests.
func (t *Table) compare(o Options) {
	var settings []*Settings
	var of []*Block
	// Bootstraps take most of a report's time, and blocks are independent.
	parallel.For(context.Background(), 0, len(t.Blocks), func(_, i int) error {
		t.Blocks[i].pair(o)
		t.Blocks[i].fresh(o)
		return nil
	})
	for _, b := range t.Blocks {
		// Groups hold main blocks. MPPI at stock temperature, a variation of MPPI at
		// the chosen one, is included: the paper's test over sets uses it.
		if b.Main == nil || b.Main.Solver != b.Solver {
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
