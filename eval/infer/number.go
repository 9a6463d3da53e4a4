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

// Kinds of numbers that several parts of the program read. The names of the others are where
// they are computed.
const (
	Success      = "success"             // percent, mean over evaluation sets
	Diff         = "difference"          // of success in points, with the episode as the unit
	SeedDiff     = "seed_difference"     // the same with the training seed as the unit
	SetDiff      = "set_difference"      // the same with the evaluation set as the unit, over the paper's solvers and tiers
	Printed      = "printed_t2_minus_t2" // success at T2 as printed in the paper (T2p) minus success at T2 as the authors ran it
	PreSolved    = "pre_solved_share"    // percent of the episodes of a paired difference whose start is already solved
	Gain         = "icem_gain"           // success by iCEM minus success by CEM, in points
	Spearman     = "spearman"            // rank correlation of squared distances between latents and between task states
	RolloutError = "rollout_error"       // squared error of predicted latents, relative to the distance between two reached ones
	Tau          = "tau"                 // Kendall's tau between predicted and reached costs
)

// Mean is the Tier of a number that averages over tiers.
const Mean = "mean"

// Number is a row of the table: one value computed from a results folder, or published. Missing
// values are nil or "". What, Source, Place, Of, Minus and Seed identify it; no two rows
// agree in all of them.
type Number struct {
	What   string `json:"what"`
	Source string `json:"source"`
	Place
	Of    results.Arm `json:"of,omitzero"`
	Minus results.Arm `json:"minus,omitzero"` // set if the number is a difference Of - Minus
	Seed  *int        `json:"seed,omitempty"` // training seed; nil: over all seeds, or there is only one
	// Value is in percent or points if it is about success. SD is over units. Lo and Hi are the
	// ends of the 95 % interval. P is two-sided; Adjusted is P corrected for the number of
	// tests in its family (see adjust.go).
	Value    *float64 `json:"value"`
	SD       *float64 `json:"sd,omitempty"`
	Lo       *float64 `json:"lo,omitempty"`
	Hi       *float64 `json:"hi,omitempty"`
	P        *float64 `json:"p,omitempty"`
	Adjusted *float64 `json:"adjusted,omitempty"`
	N        int      `json:"n,omitempty"`
	Unit     string   `json:"unit,omitempty"` // of N: episode, training seed, set, ...
	From     []string `json:"from,omitempty"` // ids of the cells it is computed from, sorted
	Notes    []string `json:"notes,omitempty"`
	// How is the computation that gave the value, with its inputs: a *Score, *Difference, *SetTest,
	// *Seeds or nil. `report --why` prints it.
	How any `json:"-"`
}

// Place says what a number is about. An empty field means all.
type Place struct {
	Task     string `json:"task,omitempty"`
	Solver   string `json:"solver,omitempty"` // a solver's name or results.StockMPPI
	Tier     string `json:"tier,omitempty"`   // or Mean
	Set      string `json:"set,omitempty"`
	Settings string `json:"settings,omitempty"` // how the settings differ from the main ones, in words
}

// At returns the place at a tier.
func (p Place) At(tier string) Place { p.Tier = tier; return p }

// some returns a pointer to x, or nil for NaN and infinities, which JSON lacks.
func some(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// Or returns the value of a pointer in a Number, NaN for nil.
func Or(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}

// Estimate returns the value with its interval, all NaN for a nil Number.
func (n *Number) Estimate() Estimate {
	if n == nil {
		return Estimate{math.NaN(), math.NaN(), math.NaN()}
	}
	return Estimate{Or(n.Value), Or(n.Lo), Or(n.Hi)}
}

// put returns the number with a value and its interval.
func (n Number) put(e Estimate) Number {
	n.Value, n.Lo, n.Hi = some(e.Value), some(e.Lo), some(e.Hi)
	return n
}

// key identifies a number in a table.
type key struct {
	what, source string
	Place
	of, minus results.Arm
	seed      int // -1: none
}

func (n *Number) key() key {
	k := key{n.What, n.Source, n.Place, n.Of, n.Minus, -1}
	if n.Seed != nil {
		k.seed = *n.Seed
	}
	return k
}

// Table has all numbers of a results folder and the published ones next to them. Blocks and
// Groups say how they are arranged. It is not modified after [Infer] returned it.
type Table struct {
	Numbers []*Number
	Blocks  []*Block
	Groups  []Group
	Claims  []Finding
	Checks  []Check
	// Warnings are what a reader must know to judge the numbers: unreadable files, cells that
	// were left out, arms that could not be paired.
	Warnings []string
	Origin   results.Origin
	*results.Contents

	byKey       map[key]*Number
	checkpoints map[string][]*Checkpoint // by task
	seedOf      map[string]int           // training seed by cell id
}

// add adds a number and returns the table's copy. If the table has one of the same key, it stays
// and is returned.
func (t *Table) add(n Number) *Number {
	n.Source = cmp.Or(n.Source, Ours)
	k := n.key()
	if old := t.byKey[k]; old != nil {
		return old
	}
	t.Numbers, t.byKey[k] = append(t.Numbers, &n), &n
	return &n
}

// Find returns the number with the identifying fields of n, or nil. The values of n are
// ignored.
func (t *Table) Find(n Number) *Number {
	n.Source = cmp.Or(n.Source, Ours)
	return t.byKey[n.key()]
}

// Where returns the numbers of a kind for which ok returns true, in the order of the table.
func (t *Table) Where(what string, ok func(*Number) bool) (out []*Number) {
	for _, n := range t.Numbers {
		if n.What == what && ok(n) {
			out = append(out, n)
		}
	}
	return out
}

// Success returns an arm's success in a block at a tier or [Mean], averaged over its training
// seeds. It is nil if the arm was not evaluated there.
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

// BySeed returns an arm's success in a block at a tier or [Mean], one number per training
// seed.
func (t *Table) BySeed(b *Block, arm results.Arm, tier string) (out []*Number) {
	for _, seed := range b.SeedsOf(arm) {
		if n := t.Find(Number{What: Success, Place: b.Place.At(tier), Of: arm, Seed: &seed}); n != nil {
			out = append(out, n)
		}
	}
	return out
}

// union returns the distinct ids of several lists, sorted.
func union(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}
