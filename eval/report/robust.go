package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/eval/stats"
	"scalewm/model"
)

// What the paper does not say: how much its comparison owes to the training seed, to rules of
// the evaluation and to starts that are solved already, and what it takes to show an effect.

// BySeed is a difference of two methods on a task by training seed, averaged over the
// solvers and tiers that all have.
type BySeed struct {
	Task, A, B string
	Solvers    []string
	Seeds      []int
	Points     []float64 // of each seed
	Episodes   int       // that each seed was measured on
	OfSet      int       // episodes of a set
	Spread     stats.Components
}

// bySeed pairs two methods on the solvers that both have, one training seed at a time.
func bySeed(of map[string]*Block, solvers []string, a, b string, tiers ...string) (among []string, seeds []int, points [][][]float64) {
	as, bs := map[string]*infer.Arm{}, map[string]*infer.Arm{}
	for _, solver := range solvers {
		if x := of[solver]; x != nil && x.arms[a] != nil && x.arms[b] != nil {
			among, as[solver], bs[solver] = append(among, solver), x.arms[a], x.arms[b]
		}
	}
	seeds, points = infer.BySeed(infer.Join(a, as), infer.Join(b, bs), tiers...)
	return among, seeds, points
}

// seedPoints are those differences, each the mean over its episodes.
func seedPoints(of map[string]*Block, solvers []string, a, b string, tiers ...string) (seeds []int, x []float64) {
	_, seeds, points := bySeed(of, solvers, a, b, tiers...)
	return seeds, means(points)
}

func means(points [][][]float64) (x []float64) {
	for _, p := range points {
		x = append(x, mean(slices.Concat(p...)))
	}
	return x
}

// seedsOf has a line for every task and pair of learned methods.
func seedsOf(blocks []*Block) (out []BySeed) {
	for _, v := range versus(blocks) {
		if infer.MethodOf(v[0]).Floor {
			continue
		}
		for _, task := range tasksOf(blocks) {
			among, seeds, points := bySeed(tested(blocks, task), solversOf, v[0], v[1])
			if len(seeds) == 0 || len(points[0]) < 2 || len(points[0][0]) < 2 {
				continue
			}
			out = append(out, BySeed{Task: task, A: v[0], B: v[1], Solvers: among, Seeds: seeds, Points: means(points),
				OfSet: len(points[0][0]), Episodes: len(points[0]) * len(points[0][0]), Spread: stats.VarianceComponents(points)})
		}
	}
	return out
}

// robust is the chapter.
func (r *Report) robust() []Section {
	g := &r.Groups[0]
	out := []Section{{Title: "What the paper does not say", Anchor: "robust", Level: 2, Nav: "Robustness", Parts: []Part{Text{Body: "How much the comparison owes to the training seed, to the rules of the evaluation and to starts that need no plan, and what it takes to show an effect."}}}}
	add := func(title, name string, parts ...Part) {
		parts = slices.DeleteFunc(parts, func(p Part) bool {
			t, isTable := p.(Table)
			text, isText := p.(Text)
			return isTable && len(t.Rows) == 0 || isText && text.Body == "" && len(text.Items) == 0
		})
		if len(parts) > 0 {
			out = append(out, Section{Title: title, Anchor: "robust-" + name, Level: 3, Parts: parts})
		}
	}
	add("Training seeds as the unit", "seeds", g.seedTable(), g.seedCounts(), g.seedGap())
	add("How many seeds and episodes an effect needs", "power", g.powerTable())
	add("Where the variance comes from", "sources", g.sourceTable())
	add("Whether geometry foretells planning", "foretold", g.foretoldTable())
	add("One factor at a time", "factors", r.factorTable(), r.tierReadings(), r.factorGaps())
	add("Without starts that are solved already", "presolved", r.freshTable())
	return out
}

func listed(x []float64) Field {
	var s []string
	for _, v := range x {
		s = append(s, signed(v))
	}
	return words(strings.Join(s, ", "))
}

func solverList(solvers []string) Field {
	var names []string
	for _, s := range solvers {
		names = append(names, solverNames[s])
	}
	return words(strings.Join(names, ", "))
}

// seedRow is a row of differences by seed.
func seedRow(head []Field, seeds []int, x []float64) []Field {
	var names []string
	for _, s := range seeds {
		names = append(names, itoa(s))
	}
	e := infer.MeanOf(x)
	_, sd := stats.MeanSD(x)
	between := none()
	if e.Lo <= e.Hi {
		between = number(interval(e.Lo, e.Hi), e.Lo)
	}
	return append(head, words(strings.Join(names, ", ")), listed(x), number(signed(e.Value), e.Value), number(points(sd), sd), between)
}

// seedTable has each training seed's difference.
func (g *Group) seedTable() Table {
	t := Table{Anchor: "seeds", Head: []string{"Comparison", "Task", "Source", "Solvers", "Seeds", "Difference by seed", "Mean", "SD", "95 % interval"},
		Caption: "Differences in points by training seed, averaged over the solvers and tiers that all seeds have; mean, standard deviation and Student's interval over seeds, which covers the luck of training. Split and order follow the seed, and here the initial weights too. The authors' seeds 3073 and 3074 are in their repository and not in the paper."}
	for _, l := range g.Seeds {
		head := []Field{words(minus(l.A, l.B)), words(taskName(l.Task))}
		t.Rows = append(t.Rows, seedRow(append(slices.Clip(head), words("ours"), solverList(l.Solvers)), l.Seeds, l.Points))
		if seeds, x, solvers := publishedSeeds(l.Task, l.A, l.B); len(seeds) > 1 {
			t.Rows = append(t.Rows, muted(seedRow(append(slices.Clip(head), words("authors"), solverList(solversOf[:solvers])), seeds, x)))
		}
	}
	return t
}

// publishedSeeds are the differences of the authors' training seeds on a task, averaged over
// the solvers that all of them have.
func publishedSeeds(task, a, b string) (seeds []int, x []float64, solvers int) {
	of := func(method string, seed int) (out []float64) {
		if seed == paperSeed {
			for _, solver := range solversOf {
				if row, _, ok := published.row(task, solver, method); ok {
					out = append(out, row.Average)
				}
			}
			return out
		}
		for _, p := range published.Seeds {
			if p.Task == task && p.Method == method && p.Seed == seed {
				return p.Average
			}
		}
		return nil
	}
	var all [][2][]float64
	for seed := paperSeed; seed < paperSeed+3; seed++ {
		if as, bs := of(a, seed), of(b, seed); len(as) > 0 && len(as) == len(bs) {
			seeds, all = append(seeds, seed), append(all, [2][]float64{as, bs})
			if solvers == 0 || len(as) < solvers {
				solvers = len(as)
			}
		}
	}
	for _, v := range all {
		x = append(x, mean(v[0][:solvers])-mean(v[1][:solvers]))
	}
	return seeds, x, solvers
}

// paperSeed is the training seed of the paper's tables.
const paperSeed = 3072

// seedCounts counts, by training seed, the averages of a task and solver in which SCALE, or
// what the report leads with, is above the baseline.
func (g *Group) seedCounts() Table {
	t := Table{Anchor: "seed-counts", Head: []string{"Comparison", "Source", "Seed", "Averages led", "of"},
		Caption: "Averages of a task and a solver that the first method leads, by training seed. The paper's count is that of seed 3072; the others are counted in its authors' files."}
	for _, v := range versus(g.Blocks) {
		if m := infer.MethodOf(v[0]); m.Floor || infer.MethodOf(v[1]).Name != model.Baseline {
			continue
		}
		led, of := map[int]int{}, map[int]int{}
		for _, b := range g.Blocks {
			if !slices.Contains(solversOf, b.Solver) {
				continue
			}
			for _, x := range b.Arms {
				for _, y := range b.Arms {
					if x.Name == v[0] && y.Name == v[1] && x.Seed == y.Seed && len(x.Mean.BySet) > 0 && len(y.Mean.BySet) > 0 {
						of[x.Seed]++
						if x.Mean.Mean > y.Mean.Mean+1e-9 {
							led[x.Seed]++
						}
					}
				}
			}
		}
		name := minus(v[0], v[1])
		for _, seed := range sortedKeys(of) {
			t.Rows = append(t.Rows, []Field{words(name), words("ours"), whole(seed), whole(led[seed]), whole(of[seed])})
		}
		for seed := paperSeed; len(of) > 0 && seed < paperSeed+3; seed++ {
			k, n := publishedLeads(seed, v[0], v[1])
			if n > 0 {
				source := "authors"
				if seed == paperSeed {
					source = "paper"
				}
				t.Rows = append(t.Rows, muted([]Field{words(name), words(source), whole(seed), whole(k), whole(n)}))
			}
		}
	}
	return t
}

func sortedKeys(m map[int]int) (out []int) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// publishedLeads counts the averages in which a is above b with one of the authors' training seeds.
func publishedLeads(seed int, a, b string) (led, of int) {
	count := func(x, y []float64) {
		for i := range min(len(x), len(y)) {
			if of++; x[i] > y[i] {
				led++
			}
		}
	}
	for _, tab := range published.Tables {
		by := map[string][]float64{}
		for _, p := range published.Seeds {
			if p.Task == tab.Task && p.Seed == seed {
				by[p.Method] = p.Average
			}
		}
		for _, row := range tab.Rows {
			if seed == paperSeed {
				by[row.Method] = append(by[row.Method], row.Average)
			}
		}
		count(by[a], by[b])
	}
	return led, of
}

// seedGap says what is missing where there is one training seed.
func (g *Group) seedGap() Text {
	for _, l := range g.Seeds {
		if len(l.Seeds) > 1 {
			return Text{}
		}
	}
	return Text{Style: "note", Body: "One training seed is here, which has no interval over seeds: add others to the folder with reproduce --seeds 3072,3073,3074."}
}

// mostSeeds is where the table of needs stops counting.
const mostSeeds = 200

// effects are those, in points, whose needs the table of needs shows.
var effects = []float64{8, 4, 2}

// powerTable says what an effect needs.
func (g *Group) powerTable() Table {
	t := Table{Anchor: "power", Head: []string{"Comparison", "Task", "Source", "SD of seeds", "of sets", "of episodes", "rest", "Episodes for 8", "for 4", "for 2", "Seeds for 8", "for 4", "for 2"},
		Caption: fmt.Sprintf("What it takes to find a difference of 8, 4 and 2 points with a power of %.0f %% at 5 %%. The standard deviations, in points, are those of the difference between training seeds, between evaluation sets, between episodes, and what is left in an episode of one seed (with one seed it is part of the episodes'). "+
			"Episodes: of one pair of checkpoints, whose difference says nothing of other seeds. Seeds: with as many episodes each as here, by Student's test of their differences.", 100*stats.Goal)}
	limited := func(n int) Field {
		switch {
		case n == 0:
			return none()
		case n >= mostSeeds:
			return number(fmt.Sprintf("≥ %d", mostSeeds), mostSeeds)
		}
		return whole(n)
	}
	sd := func(variance float64) Field {
		if math.IsNaN(variance) {
			return none()
		}
		v := math.Sqrt(variance)
		return number(points(v), v)
	}
	for _, l := range g.Seeds {
		head := []Field{words(minus(l.A, l.B)), words(taskName(l.Task))}
		row := append(slices.Clip(head), words("ours"), sd(l.Spread.Seed), sd(l.Spread.Set), sd(l.Spread.Episode))
		if len(l.Seeds) > 1 {
			row = append(row, sd(l.Spread.Rest))
		} else {
			row = append(row, none())
		}
		for _, effect := range effects {
			n := l.Spread.Episodes(effect, l.OfSet)
			row = append(row, number(thousands(n), float64(n)))
		}
		for _, effect := range effects {
			row = append(row, limited(l.Spread.Seeds(effect, l.Episodes, mostSeeds)))
		}
		t.Rows = append(t.Rows, row)
		if seeds, x, _ := publishedSeeds(l.Task, l.A, l.B); len(seeds) > 2 {
			_, s := stats.MeanSD(x)
			row := append(slices.Clip(head), words("authors"), number(points(s), s), none(), none(), none(), none(), none(), none())
			for _, effect := range effects {
				row = append(row, limited(stats.StudentUnits(effect, s, mostSeeds)))
			}
			t.Rows = append(t.Rows, muted(row))
		}
	}
	return t
}

// Factor is a block that varies a main one, and that one, each of the cells alone whose places both have.
type Factor struct{ Varied, Main *Block }

// factorsOf has one for each block that varies another.
func factorsOf(blocks []*blockCells, o infer.Options) (out []Factor) {
	o.MeanOnly = true
	for _, b := range blocks {
		for _, main := range blocks {
			if b.Main == &main.Block {
				if f := (Factor{b.within(main, o), main.within(b, o)}); len(f.Main.Tiers) > 0 {
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// within is the block of the cells whose places another block has too.
func (b *blockCells) within(other *blockCells, o infer.Options) *Block {
	w := &blockCells{Block: Block{Task: b.Task, Solver: b.Solver, Settings: b.Settings}, cells: maps.Clone(b.cells)}
	maps.DeleteFunc(w.cells, func(s slot, _ results.Cell) bool { _, both := other.cells[s]; return !both })
	w.sum(nil)
	w.pair(o)
	return &w.Block
}

// factorTable sets the settings of one task and solver beside each other.
func (r *Report) factorTable() Table {
	t := Table{Anchor: "factors", Head: []string{"Task", "Solver", "Evaluated with", "Tiers", "Seeds"},
		Caption: "The same task and solver under settings that differ in what is named; the main setting has the default planner noise, clips and temperature. Success (%) averaged over tiers and training seeds, and the paired difference that each block leads with. " +
			"Of the main setting and one that varies it, a pair of rows has the tiers, seeds and sets that both were evaluated on. Rows are not paired with each other: their episodes or rules differ."}
	arms := slices.DeleteFunc(names(r.Blocks), func(a string) bool { return infer.MethodOf(a).Floor })
	for _, a := range arms {
		t.Head = append(t.Head, armTitle(a))
	}
	t.Head = append(t.Head, "Difference", "95 % interval")
	main := mainOf(r.Blocks)
	for _, b := range main {
		if n := len(slices.DeleteFunc(slices.Clone(main), func(o *Block) bool { return o.Task != b.Task || o.Solver != b.Solver })); n > 1 {
			t.Rows = append(t.Rows, b.factorRow(b.Settings, arms))
		}
	}
	var last []Field
	for _, f := range r.Factors {
		if row := f.Main.factorRow(cmp.Or(f.Main.Settings, "the main setting"), arms); !slices.EqualFunc(row, last, func(x, y Field) bool { return x.Text == y.Text }) {
			t.Rows, last = append(t.Rows, row), row
		}
		what := f.Varied.Settings
		if f.Varied.Solver == infer.StockMPPI {
			what = strings.TrimPrefix(what+", stock temperature", ", ")
		}
		t.Rows = append(t.Rows, f.Varied.factorRow(what, arms))
	}
	return t
}

// factorRow is a block in one row.
func (b *Block) factorRow(what string, arms []string) []Field {
	seeds := map[int]bool{}
	var success []Field
	for _, name := range arms {
		s := b.seriesOf(name)
		for _, a := range s.arms {
			seeds[a.Seed] = true
		}
		if mean := s.at(len(b.Tiers)); mean != nil {
			success = append(success, number(points(mean.Mean), mean.Mean))
		} else {
			success = append(success, none())
		}
	}
	row := []Field{words(taskName(b.Task)), words(solverNames[strings.TrimSuffix(b.Solver, "-stock")]), words(what), words(strings.Join(b.averaged(), ", ")), whole(len(seeds))}
	row = append(row, success...)
	if c := b.headline(); c != nil {
		return append(row, number(signed(c.Mean.Diff), c.Mean.Diff), number(interval(c.Mean.Lo, c.Mean.Hi), c.Mean.Lo))
	}
	return append(row, none(), none())
}

// tierReadings sets T2 as it was run (150/15) beside T2 as it is printed (100/20).
func (r *Report) tierReadings() Table {
	t := Table{Anchor: "tier-readings", Head: []string{"Task, solver", "Method", "T2", "T2p", "Difference"},
		Caption: "Tier T2 as the authors ran it (150 candidates, 15 iterations) and as the paper prints it (100 and 20, here T2p): success (%)."}
	for _, b := range r.Blocks {
		for _, a := range b.Arms {
			ran, okRan := a.Scores["T2"]
			printed, okPrinted := a.Scores["T2p"]
			if okRan && okPrinted && infer.MethodOf(a.Name).Plans() {
				d := printed.Mean - ran.Mean
				t.Rows = append(t.Rows, []Field{words(b.title()), words(b.label(a)), number(pm(ran), ran.Mean), number(pm(printed), printed.Mean), number(signed(d), d)})
			}
		}
	}
	return t
}

// factors are what one may change of an evaluation, the words by which settings name it and
// the flags that do.
var factors = []struct{ name, said, flags string }{
	{"the strict protocol (held-out episodes)", "protocol strict", "--protocol strict --out DIR/strict"},
	{"iCEM without its clipping", "clip ", "--solvers icem --icem-clip none --out DIR"},
	{"actions clipped to the task's bounds", "actions executed", "--action-clip --out DIR"},
	{"the planner's random draws", "planner noise", "--planner-noise 1 --out DIR"},
	{"all valid starts in the pool", "pool full", "--pool full --out DIR"},
}

// factorGaps names the factors that nothing here varies, with the commands that do.
func (r *Report) factorGaps() Text {
	out := Text{Style: "commands", Title: "Not varied here"}
	add := func(flags string) { out.Items = append(out.Items, Item{Text: "scalewm reproduce " + flags}) }
	var missing []string
	for _, f := range factors {
		if !slices.ContainsFunc(r.Blocks, func(b *Block) bool { return strings.Contains(b.Settings, f.said) }) {
			missing = append(missing, f.name)
			add(f.flags)
		}
	}
	if !slices.ContainsFunc(r.Blocks, func(b *Block) bool { return b.Solver == infer.StockMPPI }) {
		missing = append(missing, "MPPI's temperature")
		add("--solvers mppi --temperature stock --out DIR")
	}
	if !slices.ContainsFunc(r.Blocks, func(b *Block) bool { return b.tierIndex("T2p") >= 0 }) {
		missing = append(missing, "the printed T2")
		add("--tiers T2,T2p --out DIR")
	}
	if len(missing) > 0 {
		out.Body = "The folder has no second setting of " + listing(missing) + ". These add one; scalewm report takes a folder with all folders in it."
	}
	return out
}

// freshTable repeats each block's leading difference without the starts that are solved already.
func (r *Report) freshTable() Table {
	t := Table{Anchor: "presolved", Head: []string{"Task, solver", "Comparison", "Tier", "Solved already, %", "Episodes", "Difference", "Without: episodes", "Difference", "95 % interval"},
		Caption: "A start that meets the goal before the first step counts as a success of every method. Differences in points with all starts, and without those."}
	for _, b := range mainOf(r.Blocks) {
		c := b.headline()
		if c == nil || b.Fresh == nil {
			continue
		}
		for _, d := range c.ByTier {
			for _, f := range b.Fresh.ByTier {
				if f.Tier == d.Tier {
					share := 100 * float64(d.N-f.N) / float64(d.N)
					t.Rows = append(t.Rows, []Field{words(b.title()), words(minus(c.A, c.B)), words(d.Tier), number(points(share), share), whole(d.N), number(signed(d.Diff), d.Diff),
						whole(f.N), number(signed(f.Diff), f.Diff), number(interval(f.Lo, f.Hi), f.Lo)})
				}
			}
		}
	}
	return t
}
