package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"scalewm/eval/paired"
	"scalewm/eval/record"
	"scalewm/model"
)

// Report is everything that is computed from a results folder; all rates and
// differences are in percent.
type Report struct {
	Protocol   string
	Blocks     []Block // one a task and solver
	SetTests   []SetTest
	Tallies    []Tally
	Aggregates []Aggregate
	Checks     []Check
	Warnings   []string
	Training   []Training
	Clips      []Clip
	Origin     Origin
}

// Block holds the arms of one task and solver.
type Block struct {
	Task, Solver string // Solver as paired.Place names the table
	Tiers        []Tier // most compute first
	Sets         []string
	Arms         []Arm
	Pairs        []*paired.Comparison
}

// Tier is a compute budget of the planner.
type Tier struct {
	Name                           string
	Candidates, Iterations, Elites int
	Horizon, Budget, GoalOffset    int     // blocks, env steps, env steps
	PlanMillis                     float64 // median over the tier's cells of one episode's plan; 0: not measured
	Episodes                       int     // a set
}

// Rollouts is the planner's compute: candidates rolled out for one plan.
func (t Tier) Rollouts() int { return t.Candidates * t.Iterations }

// Arm is one trained model (or floor) on a block.
type Arm struct {
	Method  string
	Seed    int
	Weights []string         // SHA-256 of the weights files seen; more than one is a mix
	Scores  map[string]Score // by tier
	Mean    Score            // over the block's tiers
}

// Score is the success of an arm at a tier.
type Score struct {
	paired.Score
	Solved   []float64 // Solved[k]: percent solved within k env steps, k = 0..budget
	PreRate  float64   // share of starts that already meet the goal, percent
	Filtered float64   // success without those starts, percent; NaN where none is left
}

// SetTest is the paper's significance test on one task: its solvers and tiers
// averaged, set by set, MPPI at stock temperature where it was run.
type SetTest struct {
	Task, A, B string
	paired.SetTest
}

// Tally counts where method A leads B.
type Tally struct {
	A, B           string
	Leads, Of      int // means over tiers of a task and solver
	Up, Down, Tied int // cells: task, solver and tier
}

// Aggregate sums up a method over all cells (task, solver, tier) that every
// trained method of the report has: success in percent.
type Aggregate struct {
	Method         string
	Cells          int
	Mean, IQM, Gap paired.Estimate // Gap: how far success falls short of 100 %
}

// place is where a cell stands in the grid. The random floor has neither
// solver nor tier and stands in every block of its task.
type place struct {
	task, method string
	seed         int
	solver, tier string
	set          string
}

// grid finds cells by place.
type grid struct {
	cells  map[place]record.Cell
	places []place // in the order of the cells' IDs
	runs   map[string]record.Run
}

// ErrNothing says that no cell of a folder is of a method that plans.
var ErrNothing = errors.New("nothing to compare")

// Build computes the report of a folder. It fails where there is nothing to
// report or two protocols are mixed; everything less becomes a warning.
func Build(d *Data, o paired.Options) (*Report, error) {
	if len(d.Cells) == 0 {
		return nil, fmt.Errorf("report: %w: the folder holds no evaluation cells (hint: run `scalewm reproduce` or `scalewm eval` into it first)%s", ErrNothing, because(d.Problems))
	}
	protocol, err := oneProtocol(d.Cells)
	if err != nil {
		return nil, err
	}
	g, notes := newGrid(d)
	r := &Report{Protocol: protocol, Training: d.Training, Clips: d.Clips, Origin: originOf(d), Warnings: slices.Concat(d.Problems, notes)}
	var pairs []*paired.Comparison
	for _, k := range g.blocks() {
		b := g.block(k[0], k[1])
		g.pair(&b, o)
		pairs = append(pairs, b.Pairs...)
		r.Blocks = append(r.Blocks, b)
	}
	if len(r.Blocks) == 0 {
		return nil, fmt.Errorf("report: %w: the folder holds cells of the random floor only (hint: evaluate a trained method, `scalewm eval --help`)", ErrNothing)
	}
	paired.Adjust(pairs)
	r.SetTests, r.Tallies, r.Aggregates = setTests(r.Blocks), tallies(r.Blocks), aggregates(r.Blocks)
	r.Checks = g.checks(r, d.Gates)
	r.Warnings = append(r.Warnings, warnings(r)...)
	return r, nil
}

func because(problems []string) string {
	if len(problems) == 0 {
		return ""
	}
	return "; unusable: " + strings.Join(problems, "; ")
}

func oneProtocol(cells []record.Cell) (string, error) {
	seen := map[string]bool{}
	for _, c := range cells {
		seen[c.Spec.Protocol] = true
	}
	ps := slices.Sorted(maps.Keys(seen))
	if len(ps) > 1 {
		return "", fmt.Errorf("report: the folder mixes the protocols %s, whose numbers do not compare (hint: keep one folder a protocol)", strings.Join(ps, " and "))
	}
	return ps[0], nil
}

// newGrid places the cells. Where two stand in one place (a model was trained
// again, say) the one measured last is kept, and the rest are counted.
func newGrid(d *Data) (*grid, []string) {
	g := &grid{cells: map[place]record.Cell{}, runs: d.Runs}
	stale := map[string]int{}
	placed, notes := paired.Place(d.Cells)
	for _, c := range placed {
		p := place{c.Spec.Task, c.Spec.Method, c.Spec.TrainSeed, c.Table, c.Spec.Tier, c.Spec.Set}
		old, taken := g.cells[p]
		if taken {
			stale[methodName(p.method)+" on "+taskName(p.task)]++
		} else {
			g.places = append(g.places, p)
		}
		if !taken || d.Runs[c.ID].Started >= d.Runs[old.ID].Started {
			g.cells[p] = c.Cell
		}
	}
	for _, arm := range slices.Sorted(maps.Keys(stale)) {
		notes = append(notes, fmt.Sprintf("%s: %s left out, since a later one stands in the same place (task, seed, solver, tier, set) with other weights or settings", arm, count(stale[arm], "cell")))
	}
	return g, notes
}

// blocks lists the (task, solver) pairs that hold a method with a solver.
func (g *grid) blocks() [][2]string {
	seen := map[[2]string]bool{}
	for p := range g.cells {
		if p.solver != "" {
			seen[[2]string{p.task, p.solver}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b [2]string) int {
		return cmp.Or(compareTasks(a[0], b[0]), strings.Compare(a[1], b[1]))
	})
}

// block gathers the arms of one task and solver.
func (g *grid) block(task, solver string) Block {
	b := Block{Task: task, Solver: solver, Tiers: g.tiers(task, solver)}
	type arm struct {
		method string
		seed   int
	}
	arms, sets := map[arm]bool{}, map[string]bool{}
	for p := range g.cells {
		if p.task == task && (p.solver == solver || p.solver == "") {
			arms[arm{p.method, p.seed}] = true
		}
		if p.task == task && p.solver == solver { // not of the floor alone
			sets[p.set] = true
		}
	}
	b.Sets = slices.Sorted(maps.Keys(sets))
	for _, a := range slices.SortedFunc(maps.Keys(arms), func(x, y arm) int {
		return cmp.Or(model.CompareMethods(x.method, y.method), x.seed-y.seed)
	}) {
		b.Arms = append(b.Arms, g.arm(&b, a.method, a.seed))
	}
	return b
}

// tiers lists the tiers of a block, most compute first.
func (g *grid) tiers(task, solver string) []Tier {
	found := map[string]Tier{}
	millis := map[string][]float64{}
	for _, p := range g.places {
		if p.task != task || p.solver != solver {
			continue
		}
		c := g.cells[p]
		s := c.Spec
		found[p.tier] = Tier{Name: s.Tier, Candidates: s.Candidates, Iterations: s.Iterations, Elites: s.Elites,
			Horizon: s.Horizon, Budget: s.Budget, GoalOffset: s.GoalOffset, Episodes: s.Episodes}
		if ms := g.runs[c.ID].PlanMillis; ms > 0 {
			millis[p.tier] = append(millis[p.tier], ms)
		}
	}
	for n, t := range found {
		t.PlanMillis = median(millis[n])
		found[n] = t
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Tier) int {
		return cmp.Or(b.Rollouts()-a.Rollouts(), strings.Compare(a.Name, b.Name))
	})
}

// at lists an arm's cells at a tier, by set; those of the random floor stand at
// every tier.
func (g *grid) at(b *Block, method string, seed int, tier string) (cells []record.Cell) {
	p := place{task: b.Task, method: method, seed: seed, solver: b.Solver, tier: tier}
	if !model.MethodOf(method).Plans() {
		p.solver, p.tier = "", ""
	}
	for _, p.set = range b.Sets {
		if c, ok := g.cells[p]; ok {
			cells = append(cells, c)
		}
	}
	return cells
}

// arm scores one trained model (or floor) at every tier it has.
func (g *grid) arm(b *Block, method string, seed int) Arm {
	a := Arm{Method: method, Seed: seed, Scores: map[string]Score{}}
	weights := map[string]bool{}
	var scores []paired.Score
	for _, t := range b.Tiers {
		cells := g.at(b, method, seed, t.Name)
		for _, c := range cells {
			weights[c.Spec.Weights] = true
		}
		if len(cells) > 0 {
			s := scoreOf(cells)
			a.Scores[t.Name] = s
			scores = append(scores, s.Score)
		}
	}
	a.Weights = slices.Sorted(maps.Keys(weights))
	a.Mean = Score{Score: paired.MeanScore(scores)}
	return a
}

// scoreOf is the success of an arm at one tier, and when it came.
func scoreOf(cells []record.Cell) Score {
	s := Score{Score: paired.ScoreOf(cells)}
	budget := 0
	for _, c := range cells {
		budget = max(budget, c.Spec.Budget)
	}
	solvedAt := make([]int, budget+1) // episodes first solved after k env steps
	pre, preHits := 0, 0
	for _, c := range cells {
		for _, row := range c.Result.Rows {
			if row.PreSolved {
				pre++
			}
			if row.Success {
				solvedAt[min(max(row.Steps, 0), budget)]++
				if row.PreSolved {
					preHits++
				}
			}
		}
	}
	solved := 0
	for _, n := range solvedAt {
		solved += n
		s.Solved = append(s.Solved, percent(solved, s.N))
	}
	s.PreRate = percent(pre, s.N)
	s.Filtered = percent(s.Hits-preHits, s.N-pre)
	return s
}

// percent is 100 k/n, NaN for n = 0.
func percent(k, n int) float64 { return 100 * float64(k) / float64(n) }

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// pair compares the methods of a block with those that the table of methods
// sets against them, all training seeds together.
func (g *grid) pair(b *Block, o paired.Options) {
	arms := map[string]*paired.Arm{}
	added := map[string]bool{} // cells, since random actions stand at every tier
	for _, a := range b.Arms {
		if arms[a.Method] == nil {
			arms[a.Method] = &paired.Arm{Name: a.Method}
		}
		for _, t := range b.Tiers {
			for _, c := range g.at(b, a.Method, a.Seed, t.Name) {
				if added[c.ID] {
					continue
				}
				added[c.ID] = true
				arms[a.Method].Add(c) // each place is taken once, so no episode is there twice
			}
		}
	}
	for _, m := range methodsOf(b.Arms) {
		for _, against := range model.MethodOf(m).Against {
			if arms[against] == nil || m == against {
				continue
			}
			c := paired.Compare(arms[m], arms[against], o)
			c.Task = b.Task
			slices.SortStableFunc(c.ByTier, func(x, y paired.Difference) int { return b.tierIndex(x.Tier) - b.tierIndex(y.Tier) })
			b.Pairs = append(b.Pairs, c)
		}
	}
}

func (b *Block) tierIndex(name string) int {
	return slices.IndexFunc(b.Tiers, func(t Tier) bool { return t.Name == name })
}

// methodsOf lists the methods of arms once each; the arms are in the order of methods.
func methodsOf(arms []Arm) (out []string) {
	for _, a := range arms {
		if !slices.Contains(out, a.Method) {
			out = append(out, a.Method)
		}
	}
	return out
}

// methods lists those of all blocks, in the order of tables.
func methods(blocks []Block) (out []string) {
	for i := range blocks {
		out = append(out, methodsOf(blocks[i].Arms)...)
	}
	slices.SortFunc(out, model.CompareMethods)
	return slices.Compact(out)
}

// versus lists the pairs of methods that some block compares, in the order of tables.
func versus(blocks []Block) (out [][2]string) {
	for _, a := range methods(blocks) {
		for _, b := range model.MethodOf(a).Against {
			if slices.ContainsFunc(blocks, func(x Block) bool {
				return slices.ContainsFunc(x.Pairs, func(c *paired.Comparison) bool { return c.A == a && c.B == b })
			}) {
				out = append(out, [2]string{a, b})
			}
		}
	}
	return out
}

// setTests has a line for every task and pair of methods.
func setTests(blocks []Block) (out []SetTest) {
	for _, v := range versus(blocks) {
		for _, task := range tasksOf(blocks) {
			var cells []map[string]float64
			for i := range blocks {
				b := &blocks[i]
				stock := slices.ContainsFunc(blocks, func(x Block) bool { return x.Task == task && x.Solver == paired.StockMPPI })
				if b.Task != task || b.Solver == paired.MPPI && stock {
					continue
				}
				for _, t := range b.Tiers {
					if d := b.setDifferences(t.Name, v[0], v[1]); len(d) > 0 {
						cells = append(cells, d)
					}
				}
			}
			if t, ok := paired.TestSets(cells); ok {
				out = append(out, SetTest{task, v[0], v[1], t})
			}
		}
	}
	return out
}

// setDifferences are the rates of A minus those of B on the sets that both have.
func (b *Block) setDifferences(tier, methodA, methodB string) map[string]float64 {
	ra, rb := b.setRates(tier, methodA), b.setRates(tier, methodB)
	out := map[string]float64{}
	for set, x := range ra {
		if y, ok := rb[set]; ok {
			out[set] = x - y
		}
	}
	return out
}

// setRates is a method's success by set, the mean over its training seeds.
func (b *Block) setRates(tier, method string) map[string]float64 {
	sum, n := map[string]float64{}, map[string]float64{}
	for _, a := range b.Arms {
		if a.Method != method {
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

// tallies counts where each method leads those that it is compared with.
func tallies(blocks []Block) (out []Tally) {
	const tie = 1e-9 // sums of decimals
	for _, v := range versus(blocks) {
		t := Tally{A: v[0], B: v[1]}
		for i := range blocks {
			sum, cells := 0.0, 0
			for _, tier := range blocks[i].Tiers {
				var points []float64
				for _, d := range blocks[i].setDifferences(tier.Name, t.A, t.B) {
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
		out = append(out, t)
	}
	return out
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// aggregates are the methods' numbers over the cells that all of them have.
func aggregates(blocks []Block) []Aggregate {
	names := slices.DeleteFunc(methods(blocks), func(m string) bool { return !model.MethodOf(m).Plans() })
	cells := map[string][][]float64{}
	for i := range blocks {
		b := &blocks[i]
		for _, t := range b.Tiers {
			rates := map[string][]float64{}
			for _, m := range names {
				bySet := b.setRates(t.Name, m)
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
			a := Aggregate{Method: m, Cells: len(c)}
			a.Mean, a.IQM, a.Gap = paired.Aggregate(m, c)
			out = append(out, a)
		}
	}
	return out
}

// first is the first arm of a method.
func (b *Block) first(method string) (Arm, bool) {
	for _, a := range b.Arms {
		if a.Method == method {
			return a, true
		}
	}
	return Arm{}, false
}

// scores lists an arm's scores at the block's tiers and their mean; a tier that
// it lacks has a score without sets.
func (b *Block) scores(a Arm) []Score {
	var out []Score
	for _, t := range b.Tiers {
		out = append(out, a.Scores[t.Name])
	}
	return append(out, a.Mean)
}

// best is the highest of the arms' means in each column of scores.
func (b *Block) best() []float64 {
	top := slices.Repeat([]float64{math.Inf(-1)}, len(b.Tiers)+1)
	for _, a := range b.Arms {
		for i, s := range b.scores(a) {
			if len(s.BySet) > 0 {
				top[i] = max(top[i], s.Mean)
			}
		}
	}
	return top
}

// headline is the comparison a block leads with: the first method that is no
// floor against the baseline, or the first that was paired.
func (b *Block) headline() *paired.Comparison {
	var first *paired.Comparison
	for _, c := range b.Pairs {
		switch {
		case c.Mean == nil:
		case c.B == model.Baseline && !model.MethodOf(c.A).Floor:
			return c
		case first == nil:
			first = c
		}
	}
	return first
}

// tasksOf lists the tasks of blocks once each; the blocks are in their order.
func tasksOf(blocks []Block) (out []string) {
	for _, b := range blocks {
		if !slices.Contains(out, b.Task) {
			out = append(out, b.Task)
		}
	}
	return out
}
