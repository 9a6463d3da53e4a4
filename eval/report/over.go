package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/results"
)

// What is taken over several blocks: the paper's test task by task, its counts, what
// iCEM gains, and each method's success over all cells.

// SetTest is the paper's significance test on one task: its solvers and tiers
// averaged, set by set, MPPI at stock temperature where it was run.
type SetTest struct {
	Task, A, B    string
	infer.SetTest                   // without Points where no two sets are in all cells
	Pooled        *infer.Difference // over the same cells, the episode as unit; nil where no episode, or not every training seed, is in all
	Missing       []string          // cells and sets of the paper's test that are not here
}

// Gain is what a method gains from iCEM over CEM on a task, mean over tiers.
type Gain struct {
	Task, Arm string
	infer.Difference
}

// Tally counts where method A leads B.
type Tally struct {
	A, B           string
	Leads, Of      int // means over tiers of a task and solver
	Up, Down, Tied int // cells: task, solver and tier
}

// Aggregate sums up an arm over all cells (task, solver, tier) that every
// trained method of the report has: success in percent.
type Aggregate struct {
	Arm            string
	Cells          int
	Mean, IQM, Gap infer.Estimate // Gap: how far success falls short of 100 %
}

// solversOf are the solvers of the paper's tables.
var solversOf = []string{results.CEM, results.ICEM, results.MPPI}

// fourSolvers are those and gradient descent, which the authors ran beside them.
var fourSolvers = append(slices.Clip(solversOf), results.Descent)

// setTests has a line for every task and pair of methods.
func setTests(blocks []*Block, o infer.Options) (out []SetTest) {
	for _, v := range versus(blocks) {
		for _, task := range tasksOf(blocks) {
			if t, ok := setTest(tested(blocks, task), solversOf, v[0], v[1], o); ok {
				t.Task = task
				out = append(out, t)
			}
		}
	}
	return out
}

// tested are the blocks of a task by solver, MPPI at stock temperature where all was run so.
func tested(blocks []*Block, task string) map[string]*Block {
	of := map[string]*Block{}
	for _, b := range blocks {
		switch {
		case b.Task != task:
		case b.Solver == infer.StockMPPI && (b.Main == nil || b.asFullAs(b.Main)):
			of[results.MPPI] = b
		case slices.Contains(fourSolvers, b.Solver) && of[b.Solver] == nil:
			of[b.Solver] = b
		}
	}
	return of
}

// asFullAs says that b has all learned arms and tiers of another block.
func (b *Block) asFullAs(o *Block) bool {
	for _, want := range o.Arms {
		i := slices.IndexFunc(b.Arms, func(a Arm) bool { return a.Name == want.Name && a.Seed == want.Seed })
		for tier := range want.Scores {
			if !infer.MethodOf(want.Name).Floor && (i < 0 || len(b.Arms[i].Scores[tier].BySet) == 0) {
				return false
			}
		}
	}
	return true
}

// setTest is the test of two arms over blocks of a task, those of some solvers; false where no cell has both.
func setTest(of map[string]*Block, solvers []string, a, b string, o infer.Options) (t SetTest, ok bool) {
	t = SetTest{A: a, B: b}
	var cells []map[string]float64
	var named []string
	as, bs := map[string]*infer.Arm{}, map[string]*infer.Arm{}
	for _, solver := range solvers {
		var without []string
		for _, tier := range published.Tiers {
			var d map[string]float64
			if of[solver] != nil {
				d = of[solver].setDifferences(tier, a, b)
			}
			if len(d) == 0 {
				without = append(without, tier)
				continue
			}
			cells, named = append(cells, d), append(named, solver+" "+tier)
			as[solver], bs[solver] = of[solver].arms[a], of[solver].arms[b]
		}
		switch len(without) {
		case 0:
		case len(published.Tiers):
			t.Missing = append(t.Missing, solverNames[solver])
		default:
			t.Missing = append(t.Missing, solverNames[solver]+" at "+listing(without))
		}
	}
	if len(cells) == 0 {
		return t, false
	}
	t.SetTest, ok = infer.TestSets(cells)
	if n, want := len(t.Sets), published.Sets[results.CEM]; n < want {
		t.Missing = append(t.Missing, count(want-n, "set"))
	}
	if ok {
		o.MeanOnly = true
		if d := infer.Compare(infer.Join(a, as), infer.Join(b, bs), o).Mean; d != nil && slices.Equal(slices.Sorted(slices.Values(named)), d.Tiers) {
			t.Pooled = d
		}
	}
	return t, true
}

// gains has a line for every task and method with both solvers.
func gains(blocks []*Block, o infer.Options) (out []Gain) {
	o.MeanOnly = true
	for _, task := range tasksOf(blocks) {
		of := tested(blocks, task)
		cem, icem := of[results.CEM], of[results.ICEM]
		if cem == nil || icem == nil {
			continue
		}
		for _, arm := range names([]*Block{cem, icem}) {
			a, b := icem.arms[arm], cem.arms[arm]
			if a == nil || b == nil || !infer.MethodOf(arm).Plans() {
				continue
			}
			if d := infer.Compare(a, b, o).Mean; d != nil {
				out = append(out, Gain{task, arm, *d})
			}
		}
	}
	return out
}

// setDifferences are the rates of A minus those of B on the sets that both have, over the training seeds that are compared
// at the tier.
func (b *Block) setDifferences(tier, armA, armB string) map[string]float64 {
	seeds := map[string][]int{}
	for _, a := range b.Arms {
		if _, ok := a.Scores[tier]; ok {
			seeds[a.Name] = append(seeds[a.Name], a.Seed)
		}
	}
	var as, bs []int
	for _, s := range infer.SeedPairs(seeds[armA], seeds[armB]) {
		as, bs = append(as, s[0]), append(bs, s[1])
	}
	out := map[string]float64{}
	if len(as) == 0 {
		return out
	}
	ra, rb := b.setRates(tier, armA, as...), b.setRates(tier, armB, bs...)
	for set, x := range ra {
		if y, ok := rb[set]; ok {
			out[set] = x - y
		}
	}
	return out
}

// setRates is an arm's success by set, the mean over those training seeds, or all.
func (b *Block) setRates(tier, arm string, seeds ...int) map[string]float64 {
	sum, n := map[string]float64{}, map[string]float64{}
	for _, a := range b.Arms {
		if a.Name != arm || len(seeds) > 0 && !slices.Contains(seeds, a.Seed) {
			continue
		}
		for _, s := range a.Scores[tier].BySet {
			sum[s.Set] += s.Rate
			n[s.Set]++
		}
	}
	for set := range sum {
		sum[set] /= n[set]
	}
	return sum
}

// tallies counts where each arm leads those that it is compared with, on the paper's
// solvers and tiers.
func tallies(blocks []*Block) (out []Tally) {
	const tie = 1e-9 // sums of decimals
	for _, v := range versus(blocks) {
		t := Tally{A: v[0], B: v[1]}
		for _, b := range blocks {
			if !slices.Contains(solversOf, b.Solver) {
				continue
			}
			sum, cells := 0.0, 0
			for _, tier := range published.Tiers {
				var points []float64
				for _, d := range b.setDifferences(tier, t.A, t.B) {
					points = append(points, d)
				}
				slices.Sort(points) // the order of a map must not show in a sum
				if len(points) == 0 {
					continue
				}
				d := mean(points)
				sum += d
				cells++
				switch {
				case d > tie:
					t.Up++
				case d < -tie:
					t.Down++
				default:
					t.Tied++
				}
			}
			if cells > 0 {
				t.Of++
				if sum > tie {
					t.Leads++
				}
			}
		}
		if t.Of > 0 {
			out = append(out, t)
		}
	}
	return out
}

// meanOf is the mean over sets, in their order.
func meanOf(bySet map[string]float64) float64 {
	var x []float64
	for _, set := range slices.Sorted(maps.Keys(bySet)) {
		x = append(x, bySet[set])
	}
	return mean(x)
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// aggregates are the arms' numbers over the cells that all of them have, each the mean of their training seeds.
func aggregates(blocks []*Block) []Aggregate {
	names := slices.DeleteFunc(names(blocks), func(arm string) bool { return !infer.MethodOf(arm).Plans() })
	cells := map[string][][]float64{}
	for _, b := range blocks {
		for _, tier := range b.averaged() {
			rates := map[string][]float64{}
			for _, m := range names {
				bySet := b.setRates(tier, m)
				for _, set := range slices.Sorted(maps.Keys(bySet)) {
					rates[m] = append(rates[m], bySet[set])
				}
			}
			if len(rates) < len(names) {
				continue
			}
			for m, r := range rates {
				cells[m] = append(cells[m], r)
			}
		}
	}
	var out []Aggregate
	for _, m := range names {
		if c := cells[m]; len(c) > 0 {
			a := Aggregate{Arm: m, Cells: len(c)}
			a.Mean, a.IQM, a.Gap = infer.Aggregate(m, c)
			out = append(out, a)
		}
	}
	return out
}

// overEverything sums up tasks, solvers and tiers, settings that differ apart.
func (r *Report) overEverything() (out []Section) {
	for i, g := range r.Groups {
		s := Section{Title: "Over everything", Anchor: "everything", Level: 2, Nav: "Over everything"}
		suffix := ""
		if g.Name != "" {
			suffix = fmt.Sprintf("-%d", i+1)
			s.Title += ", " + g.Name
			s.Anchor += suffix
		}
		if i > 0 {
			s.Nav = ""
		}
		for _, p := range []Part{g.setTestTable(), g.setTestGaps(), g.tallyTable(), g.gainTable(), g.aggregateTable()} {
			switch p := p.(type) {
			case Table:
				if p.Anchor += suffix; len(p.Rows) > 0 {
					s.Parts = append(s.Parts, p)
				}
			case Text:
				if len(p.Items) > 0 {
					s.Parts = append(s.Parts, p)
				}
			}
		}
		if len(s.Parts) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func (g *Group) aggregateTable() Table {
	t := Table{Anchor: "aggregates", Head: []string{"Method", "Cells", "Mean", "95 %", "Interquartile mean", "95 %", "Gap to 100 %", "95 %"},
		Caption: "Success (%) over all cells (task, solver, tier) that every method has, with 95 % intervals from a bootstrap of sets within cells. The intervals of two methods do not say whether they differ: the paired tables do."}
	for _, a := range g.Aggregates {
		row := []Field{words(armTitle(a.Arm)), whole(a.Cells)}
		for _, e := range []infer.Estimate{a.Mean, a.IQM, a.Gap} {
			row = append(row, number(points(e.Value), e.Value), words(points(e.Lo)+" to "+points(e.Hi)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// tallyTable counts where a method leads another, the paper's counts below ours.
func (g *Group) tallyTable() Table {
	t := Table{Anchor: "tally", Head: []string{"Comparison", "Source", "Averages led", "of", "Cells up", "down", "tied"},
		Caption: "Where the first method is above the second: averages over tiers (one a task and solver), and single cells (task, solver, tier). The paper's counts stand under ours."}
	count := func(n *int) Field {
		if n == nil {
			return none()
		}
		return whole(*n)
	}
	for _, c := range g.Tallies {
		t.Rows = append(t.Rows, []Field{words(minus(c.A, c.B)), words("ours"), whole(c.Leads), whole(c.Of), whole(c.Up), whole(c.Down), whole(c.Tied)})
		for _, p := range published.Tallies {
			if p.A == c.A && p.B == c.B {
				t.Rows = append(t.Rows, muted([]Field{words(minus(c.A, c.B)), words("paper"), whole(p.Leads), whole(p.Of), count(p.Up), count(p.Down), count(p.Tied)}))
			}
		}
	}
	return t
}

// setTestTable is the paper's significance test, task by task.
func (g *Group) setTestTable() Table {
	t := Table{Anchor: "sets", Head: []string{"Comparison", "Task", "Source", "Cells", "Sets", "Difference", "95 % interval", "p", "By set"},
		Caption: "The paper's test, task by task: of each set the mean over its three solvers and five tiers (MPPI at stock temperature where all of it was run so), the difference of two methods in points set by set, and the exact two-sided Wilcoxon signed-rank test over sets. With six sets p is never below 0.031. " +
			"The interval is of the same difference with the episode as the unit, which has its outcomes in all cells averaged; it is left out where no episode, or not every training seed, is in all cells. The paper's numbers are from its authors' files; of them it prints the verdicts on DINO-WM."}
	for _, l := range g.SetTests {
		row := []Field{words(minus(l.A, l.B)), words(taskName(l.Task)), words("ours"), whole(l.Cells), whole(len(l.Sets))}
		if len(l.Points) == 0 {
			t.Rows = append(t.Rows, append(row, none(), none(), none(), none()))
		} else {
			var by []string
			for _, d := range l.Points {
				by = append(by, signed(d))
			}
			between := none()
			if d := l.Pooled; d != nil {
				between = number(interval(d.Lo, d.Hi), d.Lo)
			}
			t.Rows = append(t.Rows, append(row, number(signed(l.Mean), l.Mean), between, number(pvalue(l.P), l.P), words(strings.Join(by, ", "))))
		}
		for _, p := range published.SetTests {
			if p.Task == l.Task && p.A == l.A && p.B == l.B {
				t.Rows = append(t.Rows, muted([]Field{words(minus(l.A, l.B)), words(taskName(l.Task)), words("authors"), whole(p.Cells), whole(p.Sets),
					number(signed(p.Mean), p.Mean), none(), number(pvalue(p.P), p.P), words("–")}))
			}
		}
	}
	return t
}

// setTestGaps names what the paper's test has and this one lacks.
func (g *Group) setTestGaps() Text {
	notes := Text{Style: "note", Title: "Not in these tests"}
	whose := map[string][]string{} // comparisons, by what they lack
	for _, l := range g.SetTests {
		if len(l.Missing) > 0 {
			what := taskName(l.Task) + " without " + listing(l.Missing)
			whose[what] = append(whose[what], minus(l.A, l.B))
		}
	}
	for what, pairs := range whose {
		notes.Items = append(notes.Items, Item{Text: what + ": " + listing(pairs)})
	}
	var tasks, pairs []string
	for _, p := range published.SetTests {
		pair := minus(p.A, p.B)
		switch {
		case !slices.Contains(tasksOf(g.Blocks), p.Task):
			tasks = append(tasks, taskName(p.Task))
		case !slices.ContainsFunc(g.SetTests, func(l SetTest) bool { return l.A == p.A && l.B == p.B }):
			pairs = append(pairs, pair)
		}
	}
	for what, names := range map[string][]string{"Tasks": tasks, "Comparisons": pairs} {
		if len(names) > 0 {
			notes.Items = append(notes.Items, Item{Text: what + " of the paper that are not here: " + listing(distinct(names))})
		}
	}
	slices.SortFunc(notes.Items, func(a, b Item) int { return strings.Compare(a.Text, b.Text) })
	return notes
}

// gainTable sets iCEM against CEM, method by method.
func (g *Group) gainTable() Table {
	t := Table{Anchor: "icem", Head: []string{"Task", "Method", "Source", "Episodes", "CEM", "iCEM", "Difference", "95 % interval", "p"},
		Caption: "What iCEM gains over CEM: success (%) averaged over tiers, the difference in points episode by episode. The paper's averages have no interval."}
	for _, l := range g.Gains {
		name := words(armTitle(l.Arm))
		t.Rows = append(t.Rows, []Field{words(taskName(l.Task)), name, words("ours"), whole(l.N), number(points(l.RateB), l.RateB), number(points(l.RateA), l.RateA),
			number(signed(l.Diff), l.Diff), number(interval(l.Lo, l.Hi), l.Lo), number(pvalue(l.P), l.P)})
		cem, _, ok := published.row(l.Task, results.CEM, l.Arm)
		icem, _, too := published.row(l.Task, results.ICEM, l.Arm)
		if ok && too {
			d := icem.Average - cem.Average
			t.Rows = append(t.Rows, muted([]Field{words(taskName(l.Task)), name, words("paper"), none(), number(points(cem.Average), cem.Average), number(points(icem.Average), icem.Average),
				number(signed(d), d), none(), none()}))
		}
	}
	return t
}
