package infer

import (
	"cmp"
	"math"
	"slices"

	"scalewm/eval/results"
)

// Sources of numbers.
const (
	Ours    = "ours"
	Paper   = "paper"   // as printed
	Authors = "authors" // from the authors' files
)

// Kinds of numbers that several chapters read; the others are named where they are made.
const (
	Success      = "success"             // percent, mean over sets
	Diff         = "difference"          // of success, points, the episode as the unit
	SeedDiff     = "seed_difference"     // the same with the training seed as the unit
	SetDiff      = "set_difference"      // the same with the evaluation set as the unit, over the solvers and tiers of the paper
	Printed      = "printed_t2_minus_t2" // success at T2 as the paper prints it minus that as it was run
	PreSolved    = "pre_solved_share"    // of the episodes of a paired difference, percent
	Gain         = "icem_gain"           // of success by iCEM over CEM, points
	Spearman     = "spearman"            // of squared distances of latents and of task states
	RolloutError = "rollout_error"       // squared error of predicted latents over the distance of two reached ones
	Tau          = "tau"                 // Kendall's, of predicted and reached costs
)

// Mean is the tier of a number that averages tiers.
const Mean = "mean"

// Number is one value that a results folder gives, or that was published. What is missing is nil or "".
type Number struct {
	What   string `json:"what"`
	Source string `json:"source"`
	Place
	Of    results.Arm `json:"of,omitzero"`
	Minus results.Arm `json:"minus,omitzero"` // where the number is a difference
	Seed  *int        `json:"seed,omitempty"` // of the training; nil: over all, or there is only one
	// Value in percent or points where it is about success; SD is over the units; Lo and Hi bound the 95 % interval;
	// Adjusted is P corrected for the number of tests.
	Value    *float64 `json:"value"`
	SD       *float64 `json:"sd,omitempty"`
	Lo       *float64 `json:"lo,omitempty"`
	Hi       *float64 `json:"hi,omitempty"`
	P        *float64 `json:"p,omitempty"`
	Adjusted *float64 `json:"adjusted,omitempty"`
	N        int      `json:"n,omitempty"`
	Unit     string   `json:"unit,omitempty"` // of N: episode, training seed, set, ...
	From     []string `json:"from,omitempty"` // ids of the cells
	Notes    []string `json:"notes,omitempty"`
	// How is the inference behind the value, with its inputs: a *Score, *Difference, *SetTest, *Seeds or nil.
	How any `json:"-"`
}

// Place says what a number is about; an empty field stands for all.
type Place struct {
	Task     string `json:"task,omitempty"`
	Solver   string `json:"solver,omitempty"` // a table's name, as Place gives it
	Tier     string `json:"tier,omitempty"`   // or Mean
	Set      string `json:"set,omitempty"`
	Settings string `json:"settings,omitempty"` // what differs from the usual settings, in words
}

// At is the place at a tier.
func (p Place) At(tier string) Place { p.Tier = tier; return p }

// some is a pointer to a number, nil for NaN and infinities.
func some(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// Or is the value that a pointer of a Number holds, NaN for nil.
func Or(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}

// Estimate is the value with its interval; all NaN for nil.
func (n *Number) Estimate() Estimate {
	if n == nil {
		return Estimate{math.NaN(), math.NaN(), math.NaN()}
	}
	return Estimate{Or(n.Value), Or(n.Lo), Or(n.Hi)}
}

// put sets the value and its interval.
func (n Number) put(e Estimate) Number {
	n.Value, n.Lo, n.Hi = some(e.Value), some(e.Lo), some(e.Hi)
	return n
}

// key is what distinguishes a number from all others of a table.
type key struct {
	what, source string
	Place
	of, minus results.Arm
	seed      int
}

func (n *Number) key() key {
	k := key{n.What, n.Source, n.Place, n.Of, n.Minus, -1}
	if n.Seed != nil {
		k.seed = *n.Seed
	}
	return k
}

// Table is all numbers of a folder and the published ones next to them, and how they are arranged.
type Table struct {
	Numbers []*Number
	Blocks  []*Block
	Groups  []Group
	Claims  []Finding
	Checks  []Check
	// Warnings are what a reader must know to judge the numbers.
	Warnings []string
	Origin   results.Origin
	*results.Contents

	byKey       map[key]*Number
	checkpoints map[string][]*Checkpoint // by task
	seedOf      map[string]int           // training seeds of cells
}

// add takes a number; the first of a key stays.
func (t *Table) add(n Number) *Number {
	n.Source = cmp.Or(n.Source, Ours)
	k := n.key()
	if old := t.byKey[k]; old != nil {
		return old
	}
	t.Numbers, t.byKey[k] = append(t.Numbers, &n), &n
	return &n
}

// Find is the number with the description of n, whose values are not read; nil where there is none.
func (t *Table) Find(n Number) *Number {
	n.Source = cmp.Or(n.Source, Ours)
	return t.byKey[n.key()]
}

// Where lists the numbers of a kind for which ok is true, in the order of the table.
func (t *Table) Where(what string, ok func(*Number) bool) (out []*Number) {
	for _, n := range t.Numbers {
		if n.What == what && ok(n) {
			out = append(out, n)
		}
	}
	return out
}

// Success is an arm's success in a block, over its training seeds, at a tier or their Mean; nil where it was not run.
func (t *Table) Success(b *Block, arm results.Arm, tier string) *Number {
	n := Number{What: Success, Place: b.Place.At(tier), Of: arm}
	if found := t.Find(n); found != nil {
		return found
	}
	seeds := b.SeedsOf(arm)
	if len(seeds) != 1 {
		return nil
	}
	n.Seed = &seeds[0]
	return t.Find(n)
}

// BySeed are an arm's successes in a block at a tier, a training seed each.
func (t *Table) BySeed(b *Block, arm results.Arm, tier string) (out []*Number) {
	for _, seed := range b.SeedsOf(arm) {
		if n := t.Find(Number{What: Success, Place: b.Place.At(tier), Of: arm, Seed: &seed}); n != nil {
			out = append(out, n)
		}
	}
	return out
}

// union are the ids of several lists, sorted, once each.
func union(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}
