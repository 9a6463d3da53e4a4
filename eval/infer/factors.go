package infer

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"scalewm/eval/results"
)

// Kinds of numbers that show the effect of varying one setting. They are prefixes, see
// factor. A block that varies a main block is compared with it on the slots that both
// have: Factor is about the varied block and FactorMain about the main one, and both have
// the settings of the varied block as their place. FactorAll is about main blocks of one
// task and solver that differ in more than factors.
const (
	Factor     = "factor"
	FactorMain = "factor_main"
	FactorAll  = "factor_all"
)

// PrecisionDiff is the success of an arm planned in bf16 minus that planned in fp32, in
// points, over the tiers and episodes that both have. Its place has the settings of the
// block in fp32.
const PrecisionDiff = "precision_difference"

// factors adds these numbers for all blocks.
func (t *Table) factors(o Options) {
	o.MeanOnly = true
	for _, b := range t.Blocks {
		// The solver of a number is that of the table without the suffix of MPPI at stock
		// temperature, which is a setting here like the others.
		same := func(x *Block) bool { return x != b && x.Main == nil && x.Task == b.Task && x.Solver == b.Solver }
		p := Place{Task: b.Task, Solver: strings.TrimSuffix(b.Solver, "-stock"), Settings: b.Settings}
		if b.Main == nil {
			if slices.ContainsFunc(t.Blocks, same) {
				t.factor(FactorAll, p, b.Settings, b)
			}
			continue
		}
		if b.Solver == results.StockMPPI {
			p.Settings = strings.TrimPrefix(p.Settings+", stock temperature", ", ")
		}
		if slices.Equal(b.Varied, []string{"precision"}) {
			t.precisions(b, o)
		}
		if main := b.Main.restrictedTo(b, o); len(main.Tiers) > 0 {
			t.factor(FactorMain, p, cmp.Or(b.Main.Settings, "the main setting"), main)
			t.factor(Factor, p, p.Settings, b.restrictedTo(b.Main, o))
		}
	}
}

// restrictedTo returns the block of those cells of b whose slots the other block has too.
// Only then does the comparison of two settings not mix in other tiers, sets or seeds.
func (b *Block) restrictedTo(other *Block, o Options) *Block {
	w := &Block{Place: b.Place, cells: maps.Clone(b.cells)}
	maps.DeleteFunc(w.cells, func(s slot, _ results.Cell) bool { _, both := other.cells[s]; return !both })
	w.arrange(nil)
	w.pair(o)
	return w
}

// factor adds the numbers of one side of such a comparison, for the place p and the
// tiers of b: the arms' successes averaged over these tiers (what_success), the
// difference of the headline pair (what_difference), and the number of training seeds
// (what_seeds), with the name of the setting as a note.
func (t *Table) factor(what string, p Place, name string, b *Block) {
	p.Tier = strings.Join(b.Averaged(), ", ")
	// Success adds one number for each tier and seed. A table on the side keeps those that
	// are not needed out of t.
	scores := &Table{byKey: map[key]*Number{}}
	scores.success(b)
	seeds, from := map[int]bool{}, []string(nil)
	for _, a := range b.Arms {
		if !a.Floor() {
			seeds[a.Seed] = true
		}
		if n := scores.Success(b, a.Arm, Mean); n != nil {
			n := *n
			n.What, n.Place, n.Seed = what+"_success", p, nil
			from = union(from, n.From)
			t.add(n)
		}
	}
	n := Number{What: what + "_difference", Place: p}
	if c := b.Headline(); c != nil {
		n = b.difference(n.What, c, c.Mean)
		// Without arms in the key, a view finds the one difference of a block without
		// knowing its headline.
		n.Place, n.Of, n.Minus = p, results.Arm{}, results.Arm{}
		n.Notes = []string{c.A + " minus " + c.B}
	}
	t.add(n)
	t.add(Number{What: what + "_seeds", Place: p, Value: some(float64(len(seeds))), From: from, Notes: []string{name}})
}

// precisions adds PrecisionDiff for the arms of a block that differs from its main block
// in the precision of planning.
func (t *Table) precisions(b *Block, o Options) {
	for _, arm := range b.Names() {
		main, other := b.Main.sides[arm], b.sides[arm]
		if main == nil || other == nil || !arm.Plans() {
			continue
		}
		if d := Compare(main, other, o).Mean; d != nil {
			n := Number{What: PrecisionDiff, Place: b.Place.At(strings.Join(d.Tiers, ", ")), Of: arm, P: some(d.P), N: d.N, Unit: "episode",
				From: union(b.Main.ids(arm, d.Tiers), b.ids(arm, d.Tiers)), How: d}
			t.add(n.put(Estimate{d.Diff, d.Lo, d.Hi}))
		}
	}
}
