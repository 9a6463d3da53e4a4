package infer

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"scalewm/eval/results"
)

// Kinds of numbers that show the effect of one setting. A block that varies a main block is
// compared with it on the cells whose places both have. The numbers of the main block are
// FactorMain, those of the varying block Factor; the Settings of both are those of the varying
// block. If a task and solver have several main blocks, their numbers are FactorAll. Each kind
// has successes by arm, one difference and a count of seeds (see factor).
const (
	Factor     = "factor"
	FactorMain = "factor_main"
	FactorAll  = "factor_all"
)

// factors adds the numbers of all factors.
func (t *Table) factors(o Options) {
	o.MeanOnly = true
	for _, b := range t.Blocks {
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
		if main := b.Main.within(b, o); len(main.Tiers) > 0 {
			t.factor(FactorMain, p, cmp.Or(b.Main.Settings, "the main setting"), main)
			t.factor(Factor, p, p.Settings, b.within(b.Main, o))
		}
	}
}

// within returns a block with those cells of b whose places another block has too.
func (b *Block) within(other *Block, o Options) *Block {
	w := &Block{Place: b.Place, cells: maps.Clone(b.cells)}
	maps.DeleteFunc(w.cells, func(s slot, _ results.Cell) bool { _, both := other.cells[s]; return !both })
	w.arrange(nil)
	w.pair(o)
	return w
}

// factor adds the numbers of a block of factors: the success of its arms averaged over tiers, which
// their Tier lists, its headline difference, and the number of its training seeds, with the
// block's name as a note.
func (t *Table) factor(what string, p Place, name string, b *Block) {
	p.Tier = strings.Join(b.Averaged(), ", ")
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
		n.Place, n.Of, n.Minus = p, results.Arm{}, results.Arm{} // one per block, whatever arms its headline compares
		n.Notes = []string{c.A + " minus " + c.B}
	}
	t.add(n)
	t.add(Number{What: what + "_seeds", Place: p, Value: some(float64(len(seeds))), From: from, Notes: []string{name}})
}
