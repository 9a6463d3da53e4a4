package infer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/eval/results"
)

// Why is the evidence behind a number, which `scalewm report --why` shows.
type Why struct {
	Number *Number `json:"number"`
	// Rows are the outcomes behind the number. For the paired difference of a block they are
	// OfPair values by training seed, tier and set, and for other numbers OfCell values.
	Rows  []any     `json:"rows"`
	Cells []WhyCell `json:"cells"`
	Test  *WhyTest  `json:"test"` // nil if the number has no inference behind it
}

// OfCell is a row of Why with the successes of one cell.
type OfCell struct {
	Cell   string      `json:"cell"`
	Arm    results.Arm `json:"arm"`
	Seed   int         `json:"seed"`
	Solver string      `json:"solver,omitempty"`
	Tier   string      `json:"tier,omitempty"`
	Set    string      `json:"set"`
	N      int         `json:"n"`
	Hits   int         `json:"hits"`
}

// OfPair is a row of Why with the paired outcomes of two arms on one set.
type OfPair struct {
	SeedA   int    `json:"seed_a"`
	SeedB   int    `json:"seed_b"`
	Tier    string `json:"tier"`
	Set     string `json:"set"`
	N       int    `json:"n"`
	Both    int    `json:"both"`
	OnlyA   int    `json:"only_a"`
	OnlyB   int    `json:"only_b"`
	Neither int    `json:"neither"`
}

// WhyCell is a cell that a number depends on. SHA256 is the hash of its file.
type WhyCell struct {
	ID     string `json:"id"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Device string `json:"device"`
}

// WhyTest describes how a number was estimated and tested, and from which inputs.
type WhyTest struct {
	Name     string   `json:"name"`
	Interval string   `json:"interval,omitempty"`
	P        *float64 `json:"p,omitempty"`
	Inputs   any      `json:"inputs"`
}

// Select returns the number that a selector describes:
//
//	WHAT[,task=..][,solver=..][,tier=..][,set=..][,settings=..][,a=..][,b=..][,seed=..][,source=..]
//
// Among the numbers that match, it prefers those in which a field that the selector omits
// is empty (for the tier: the mean over tiers), which is the most general number. It returns
// an error if no number matches, or if several remain.
func (t *Table) Select(selector string) (*Number, error) {
	parts := strings.Split(selector, ",")
	want := map[string]string{"source": Ours}
	for _, p := range parts[1:] {
		name, value, ok := strings.Cut(p, "=")
		if _, known := described(&Number{})[name]; !ok || !known {
			return nil, fmt.Errorf("unknown part %q of the selector (hint: WHAT and then any of %s, as in difference,task=tworoom,solver=cem,tier=mean,a=scale,b=lewm)", p, strings.Join(slices.Sorted(maps.Keys(described(&Number{}))), "=.., ")+"=..")
		}
		want[name] = value
	}
	fit := t.Where(parts[0], func(n *Number) bool {
		is := described(n)
		for name, value := range want {
			if is[name] != value {
				return false
			}
		}
		return true
	})
	if len(fit) == 0 {
		kinds := map[string]bool{}
		for _, n := range t.Numbers {
			kinds[n.What] = kinds[n.What] || n.What == parts[0] || !strings.HasPrefix(n.What, "r2_") && !strings.HasPrefix(n.What, Claimed)
		}
		maps.DeleteFunc(kinds, func(_ string, shown bool) bool { return !shown })
		if kinds[parts[0]] {
			return nil, fmt.Errorf("no number %s fits the selector %q (hint: `numbers` of report.json lists all of them)", parts[0], selector)
		}
		return nil, fmt.Errorf("there is no number %q (hint: one of %s, r2_PROBE_COMPONENTS_STATE or %sMEASURE)", parts[0], strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), Claimed)
	}
	// Narrow the candidates down to the most general ones, field by field. Fields that
	// usually are not of interest come first.
	for _, name := range []string{"settings", "set", "seed", "tier", "solver", "task", "b", "a"} {
		if _, said := want[name]; said {
			continue
		}
		general := slices.DeleteFunc(slices.Clone(fit), func(n *Number) bool { return described(n)[name] != "" && (name != "tier" || n.Tier != Mean) })
		if len(general) > 0 {
			fit = general
		}
	}
	if len(fit) > 1 {
		const show = 4
		var which []string
		for _, n := range fit[:min(show, len(fit))] {
			which = append(which, n.Selector())
		}
		return nil, fmt.Errorf("%d numbers fit the selector %q, such as %s (hint: say which)", len(fit), selector, strings.Join(which, " or "))
	}
	return fit[0], nil
}

// described returns the identifying fields of a number by their names in selectors.
func described(n *Number) map[string]string {
	seed := ""
	if n.Seed != nil {
		seed = strconv.Itoa(*n.Seed)
	}
	return map[string]string{"source": n.Source, "task": n.Task, "solver": n.Solver, "tier": n.Tier, "set": n.Set, "settings": n.Settings, "a": n.Of.String(), "b": n.Minus.String(), "seed": seed}
}

// Selector returns a selector that describes the number.
func (n *Number) Selector() string {
	s, is := n.What, described(n)
	for _, name := range []string{"task", "solver", "tier", "set", "a", "b", "seed", "settings"} {
		if is[name] != "" {
			s += "," + name + "=" + is[name]
		}
	}
	return s
}

// Why returns the evidence behind a number. It reads the files of the cells to hash
// them.
func (t *Table) Why(n *Number) (w Why, err error) {
	full := *n
	w = Why{Number: &full, Rows: []any{}, Cells: []WhyCell{}}
	by := map[string]results.Cell{}
	for _, c := range slices.Concat(t.Tuning, t.Cells) {
		by[c.ID] = c
	}
	for id, c := range t.foreign {
		by[id] = c.Cell
	}
	of := map[string]string{} // kinds of device of analyses, whose ids are not in by
	for _, a := range t.Analyses {
		of[a.ID] = a.Spec.Device
	}
	for _, id := range n.From {
		c := by[id]
		cell := WhyCell{ID: id, Path: cmp.Or(t.Paths[id], t.foreign[id].Foreign), Device: c.Result.Device + of[id]}
		if cell.SHA256, err = safefile.SHA256(cell.Path); err != nil {
			return w, err
		}
		w.Cells = append(w.Cells, cell)
		if s := c.Spec; c.ID != "" {
			w.Rows = append(w.Rows, OfCell{id, s.Arm(), s.TrainSeed, s.Solver, s.Tier, s.Set, len(c.Result.Rows), c.Result.Hits()})
		}
	}
	if pairs := t.pairRows(n); pairs != nil {
		w.Rows = pairs
	}
	w.Test = test(n)
	return w, nil
}

// pairRows returns the rows of a paired difference of a block, and nil for other
// numbers. They add up to the counts of the difference, because they cover its episodes
// only.
func (t *Table) pairRows(n *Number) (rows []any) {
	d, is := n.How.(*Difference)
	at := slices.IndexFunc(t.Blocks, func(b *Block) bool { return b.Place == n.Place.At("") })
	if !is || at < 0 || n.What != Diff {
		return nil
	}
	a, b := t.Blocks[at].sides[n.Of], t.Blocks[at].sides[n.Minus]
	pairs, _ := seedPairs(a, b) // the difference exists
	for _, s := range pairs {
		for _, tier := range d.Tiers {
			bySet := map[string]fourfold{}
			xs := a.at(s[0], tier)
			ys := b.at(s[1], tier).named(xs)
			for _, e := range d.episodes {
				x, hasX := xs[e.set][e.n]
				if y, hasY := ys[e.set][e.n]; hasX && hasY {
					bySet[e.set] = bySet[e.set].plus(pairOf(x.success, y.success))
				}
			}
			for _, set := range slices.Sorted(maps.Keys(bySet)) {
				f := bySet[set]
				rows = append(rows, OfPair{s[0], s[1], tier, set, f.total(), f.both, f.onlyA, f.onlyB, f.neither})
			}
		}
	}
	return rows
}

// test describes the inference behind a number.
func test(n *Number) *WhyTest {
	w := &WhyTest{P: n.P, Inputs: n.How}
	switch how := n.How.(type) {
	case *Difference:
		w.Name, w.Interval = how.Test, how.Interval
	case *Score:
		if w.Name = "mean-of-" + n.Unit + "s"; n.Unit == "episode" {
			w.Name = "mean-of-sets"
		}
		if n.Lo != nil && n.N == how.N {
			w.Interval = "wilson"
		} else if n.Lo != nil {
			w.Interval = "student"
		}
	case *Contrast:
		w.Name, w.Interval = "paired-contrast", how.Interval
	case *SetTest:
		w.Name, w.Interval = "wilcoxon-signed-rank-exact-sets", Bootstrap
	case *Seeds:
		w.Name, w.Interval = "mean-of-training-seeds", "student"
	default:
		return nil
	}
	return w
}
