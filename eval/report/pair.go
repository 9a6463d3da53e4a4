package report

import (
	"fmt"
	"maps"
	"slices"

	"scalewm/eval/record"
)

// episode names a paired episode: the unit of every test. Its outcome is 0 or
// 1, or an average of those over tiers and training seeds.
type episode struct {
	set   string
	index int
}

// matched collects the outcomes of two arms on the episodes both have.
type matched struct {
	a, b map[episode]int // successes
	seen map[episode]int // outcomes an arm; a paired episode has all of them
	want int             // outcomes an episode: tiers x seeds
}

// pairs compares every trained method (and the untrained model) with LeWM, and
// SCALE with Aux.
func (g *grid) pairs(b *Block) []Pair {
	has := map[string]bool{}
	for _, a := range b.Arms {
		has[a.Method] = true
	}
	var out []Pair
	for _, m := range slices.SortedFunc(maps.Keys(has), func(x, y string) int { return byOrder(methodOrder, x, y) }) {
		if m != lewm && m != random && has[lewm] {
			out = append(out, g.pair(b, m, lewm))
		}
		if m == aux && has[scale] {
			out = append(out, g.pair(b, scale, aux))
		}
	}
	return out
}

// pair compares two methods tier by tier and over the mean of the tiers.
func (g *grid) pair(b *Block, methodA, methodB string) Pair {
	p := Pair{A: methodA, B: methodB}
	seeds := seedPairs(b, methodA, methodB)
	if len(seeds) == 0 {
		p.Refused = append(p.Refused, "the arms share no training seed")
		return p
	}
	var paired []Tier
	for _, t := range b.Tiers {
		row, notes := g.difference(b, p, []Tier{t}, seeds)
		p.Refused = append(p.Refused, notes...)
		if row != nil {
			p.Rows = append(p.Rows, *row)
			paired = append(paired, t)
		}
	}
	switch {
	case len(paired) < len(b.Tiers):
		p.Refused = append(p.Refused, "no mean over the tiers, since a tier is missing")
	case len(paired) > 1:
		if row, _ := g.difference(b, p, paired, seeds); row != nil {
			p.Rows = append(p.Rows, *row)
		}
	}
	return p
}

// seedPairs lists which training seeds of A and B are compared: the common
// ones, or the only one of each.
func seedPairs(b *Block, methodA, methodB string) (out [][2]int) {
	var as, bs []int
	for _, a := range b.Arms {
		switch a.Method {
		case methodA:
			as = append(as, a.Seed)
		case methodB:
			bs = append(bs, a.Seed)
		}
	}
	for _, s := range as {
		if slices.Contains(bs, s) {
			out = append(out, [2]int{s, s})
		}
	}
	if len(out) == 0 && len(as) == 1 && len(bs) == 1 {
		out = append(out, [2]int{as[0], bs[0]})
	}
	return out
}

// difference pairs the episodes of two methods over some tiers and seeds; nil
// where none could be paired. The notes say what was left out.
func (g *grid) difference(b *Block, p Pair, tiers []Tier, seeds [][2]int) (*Difference, []string) {
	m := matched{a: map[episode]int{}, b: map[episode]int{}, seen: map[episode]int{}, want: len(tiers) * len(seeds)}
	var notes []string
	for _, t := range tiers {
		for _, s := range seeds {
			for _, set := range b.Sets {
				ca, okA := g.at(place{b.Task, p.A, s[0], b.Solver, t.Name, set})
				cb, okB := g.at(place{b.Task, p.B, s[1], b.Solver, t.Name, set})
				note := ""
				if okA && okB {
					note = m.add(ca, cb)
				} else if okA != okB {
					note = "evaluated for one arm only"
				}
				if note != "" {
					notes = append(notes, fmt.Sprintf("%s, set %s: %s", t.Name, set, note))
				}
			}
		}
	}
	maps.DeleteFunc(m.seen, func(_ episode, n int) bool { return n != m.want })
	if len(m.seen) == 0 {
		return nil, notes
	}
	d := m.difference()
	d.Tier, d.Seeds = MeanTier, len(seeds)
	if len(tiers) == 1 {
		d.Tier = tiers[0].Name
	}
	return &d, notes
}

// add pairs the rows of two cells. A note says why they do not pair, or pair
// in part only.
func (m *matched) add(a, b record.Cell) string {
	if err := record.Unlike(a, b); err != nil {
		return "not paired: " + err.Error()
	}
	rows := map[int]record.Row{}
	for _, r := range b.Result.Rows {
		rows[r.Episode] = r
	}
	common := 0
	for _, ra := range a.Result.Rows {
		if rb, ok := rows[ra.Episode]; ok {
			e := episode{a.Spec.Set, ra.Episode}
			common++
			m.seen[e]++
			m.a[e] += one(ra.Success)
			m.b[e] += one(rb.Success)
		}
	}
	if len(a.Result.Rows) != common || len(b.Result.Rows) != common {
		return fmt.Sprintf("%d episodes in both arms, of %d and %d", common, len(a.Result.Rows), len(b.Result.Rows))
	}
	return ""
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
