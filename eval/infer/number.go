package infer

import (
	"cmp"
	"math"
	"slices"

	"scalewm/eval/results"
)

// Sources of numbers.
const (
	Ours    = "ours"    // computed from the results folder
	Paper   = "paper"   // printed in the paper
	Authors = "authors" // from the result files that its authors published
)

// Kinds of numbers (What) that several files use. Other kinds are named where they are
// added.
const (
	Success      = "success"             // success rate in percent, mean over sets
	Diff         = "difference"          // of success rates, in points; the unit is the episode
	SeedDiff     = "seed_difference"     // the same, but the unit is the training seed
	SetDiff      = "set_difference"      // the same, but the unit is the evaluation set; over the paper's solvers and tiers
	Printed      = "printed_t2_minus_t2" // success at T2 as printed (T2p) minus that at T2 as run, in points
	PreSolved    = "pre_solved_share"    // share of a difference's episodes that start at their goal, in percent
	Gain         = "icem_gain"           // success of iCEM minus that of CEM, in points
	Spearman     = "spearman"            // rank correlation of squared distances between latents and between task states
	RolloutError = "rollout_error"       // squared error of predicted latents, relative to the squared distance of two reached ones
	Tau          = "tau"                 // Kendall's τ-b of predicted and reached costs
)

// Mean is the tier of a number that is averaged over tiers.
const Mean = "mean"

// Number is one value that was computed from a results folder or that was published. What,
// Source, Place, Of, Minus and Seed identify it in a Table. Everything that is unknown or
// does not apply is nil or "": a pointer never points to NaN or an infinity, which JSON
// cannot represent.
type Number struct {
	What   string `json:"what"`   // kind, such as Success
	Source string `json:"source"` // Ours, Paper or Authors
	Place
	Of    results.Arm `json:"of,omitzero"`    // the arm that the number is about
	Minus results.Arm `json:"minus,omitzero"` // of a difference, the arm that is subtracted
	// Seed is the training seed. It is nil if the number is over all seeds, or if the kind
	// of number has no seed.
	Seed *int `json:"seed,omitempty"`
	// Value is in percent or points if the number is about success. SD is the standard
	// deviation over units, Lo and Hi bound the 95 % interval, P is two-sided, and Adjusted
	// is P adjusted for the number of tests.
	Value    *float64 `json:"value"`
	SD       *float64 `json:"sd,omitempty"`
	Lo       *float64 `json:"lo,omitempty"`
	Hi       *float64 `json:"hi,omitempty"`
	P        *float64 `json:"p,omitempty"`
	Adjusted *float64 `json:"adjusted,omitempty"`
	N        int      `json:"n,omitempty"`    // number of units
	Unit     string   `json:"unit,omitempty"` // episode, training seed, set, ...
	From     []string `json:"from,omitempty"` // ids of the cells that the value depends on
	Notes    []string `json:"notes,omitempty"`
	// How is the inference behind the value, with its inputs: a *Score, *Difference, *Contrast,
	// *SetTest, *Seeds, *Tuning or nil. Views that need more than the value use it.
	How any `json:"-"`
}

// Place is the part of a grid that a number covers. An empty field means that the number
// is over all values of it, or does not depend on it.
type Place struct {
	Task     string `json:"task,omitempty"`
	Solver   string `json:"solver,omitempty"` // name of a table, see Placed
	Tier     string `json:"tier,omitempty"`   // or Mean
	Set      string `json:"set,omitempty"`
	Settings string `json:"settings,omitempty"` // what differs from other settings, for readers
}

// At returns the same place at a tier.
func (p Place) At(tier string) Place { p.Tier = tier; return p }

// some returns a pointer to x, or nil if x is NaN or infinite.
func some(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// Or returns the value that a pointer of a Number points to, or NaN if it is nil.
func Or(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}

// Estimate returns the value with its interval. Everything that is missing is NaN, also
// if n is nil.
func (n *Number) Estimate() Estimate {
	if n == nil {
		return Estimate{math.NaN(), math.NaN(), math.NaN()}
	}
	return Estimate{Or(n.Value), Or(n.Lo), Or(n.Hi)}
}

// put returns n with the value and interval of e.
func (n Number) put(e Estimate) Number {
	n.Value, n.Lo, n.Hi = some(e.Value), some(e.Lo), some(e.Hi)
	return n
}

// key identifies a number in a table. A number without a training seed has seed -1.
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

// Table holds all numbers of a results folder, the published ones, and the cells behind
// them in blocks and groups. Infer builds it. Views look numbers up with Find and Where
// and compute none themselves. They may rely on these invariants:
//
//   - Numbers is sorted by What, and numbers of one kind are in the order of blocks.
//   - No two numbers have the same What, Source, Place, Of, Minus and Seed.
//   - Every id in From is that of a cell, a tuning cell or an analysis in Contents, or
//     of a cell of another program.
//   - There is at least one block and one group.
type Table struct {
	Numbers []*Number
	Blocks  []*Block // by task, solver and settings
	Groups  []Group
	// Baseline is the arm with which the others are compared, see Options.
	Baseline results.Arm
	// Claims are those of the paper. There are none if the folder has no SCALE, or if the arms
	// are not compared with LeWM.
	Claims []Finding
	Checks []Check
	// Warnings are what a reader needs to know in order to judge the numbers.
	Warnings []string
	Origin   results.Origin
	// Foreign are the arms whose outcomes another program computed. Their cells are not in
	// Contents.
	Foreign []*Foreign
	*results.Contents

	byKey       map[key]*Number
	foreign     map[string]Placed        // cells of other programs, by id
	checkpoints map[string][]*Checkpoint // by task
	seedOf      map[string]int           // training seed of each cell, by its id
	weightsOf   map[string]string        // hash of the weights of each cell and analysis, by its id
}

// add adds a number, and returns it as stored. If the table already has a number with the
// same key, that one stays and is returned. Several groups may contain one block, whose
// numbers are then added repeatedly with equal values.
func (t *Table) add(n Number) *Number {
	n.Source = cmp.Or(n.Source, Ours)
	k := n.key()
	if old := t.byKey[k]; old != nil {
		return old
	}
	t.Numbers, t.byKey[k] = append(t.Numbers, &n), &n
	return &n
}

// Find returns the number with the same key as n, or nil. Only What, Source (Ours if
// empty), Place, Of, Minus and Seed of n are used.
func (t *Table) Find(n Number) *Number {
	n.Source = cmp.Or(n.Source, Ours)
	return t.byKey[n.key()]
}

// Where returns the numbers of a kind for which ok returns true, in the order of the
// table.
func (t *Table) Where(what string, ok func(*Number) bool) (out []*Number) {
	for _, n := range t.Numbers {
		if n.What == what && ok(n) {
			out = append(out, n)
		}
	}
	return out
}

// Success returns an arm's success in a block, at a tier or averaged over tiers (Mean).
// It is over all training seeds of the arm: the only one or their mean. It is nil if
// the arm was not run there.
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

// BySeed returns an arm's successes in a block at a tier, one for each training seed
// that has one, in ascending order of seeds.
func (t *Table) BySeed(b *Block, arm results.Arm, tier string) (out []*Number) {
	for _, seed := range b.SeedsOf(arm) {
		if n := t.Find(Number{What: Success, Place: b.Place.At(tier), Of: arm, Seed: &seed}); n != nil {
			out = append(out, n)
		}
	}
	return out
}

// union returns the ids of several lists, sorted and without repetitions.
func union(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}
