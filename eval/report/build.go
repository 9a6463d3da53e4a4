package report

import (
	"cmp"
	"errors"
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

// Report is everything that is computed from a results folder; all rates and
// differences are in percent.
type Report struct {
	Protocol string    // several with "and" between them
	Blocks   []*Block  // one a task, solver and settings
	Groups   []Group   // what the numbers over blocks are taken over
	Factors  []Factor  // blocks that vary a main one, beside it
	Findings []Finding // of the paper's claims
	Checks   []Check
	Warnings []string
	Unread   []string // files that could not be used, and why; warnings have them too
	Training []Training
	Analyses []results.Analysis
	Cells    []results.Cell
	Clips    []Clip
	Origin   Origin
}

// Group are main blocks that agree in their settings, and the numbers over them. A
// report has one, unless its folder holds several settings of one task that differ in more than factors.
type Group struct {
	Name       string // what differs from the other groups; "" for the only one
	Blocks     []*Block
	SetTests   []SetTest
	Tallies    []Tally
	Gains      []Gain
	Seeds      []BySeed
	Sources    []Sources
	Foretold   []Foretold
	Aggregates []Aggregate
}

// Block holds the arms of one task and solver under the same settings.
type Block struct {
	Task, Solver string // Solver as infer.Place names the table
	Settings     string // what differs from other blocks of the same task and solver; "" for the only one and the main one
	Tiers        []Tier // most compute first
	Sets         []string
	Arms         []Arm
	Pairs        []*infer.Comparison
	Fresh        *infer.Comparison // the headline without starts that are solved already; nil where there are none
	// Main is the block that this one varies in the factors of these names, as infer.Settings have them; nil
	// of a main one. Numbers over blocks are taken over main ones.
	Main   *Block
	Varied []string

	arms map[string]*infer.Arm // by name, all training seeds of each together
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
	Name    string // as infer.Place names it: the method, and what makes it a variant
	Method  string
	Seed    int
	Weights string           // SHA-256 of the weights file
	Scores  map[string]Score // by tier
	Mean    Score            // over the block's tiers
}

// Score is the success of an arm at a tier.
type Score struct {
	infer.Score
	Solved   []float64 // Solved[k]: percent solved within k env steps, k = 0..budget
	PreRate  float64   // share of starts that already meet the goal, percent
	Filtered float64   // success without those starts, percent; NaN where none is left
}

// slot is where a cell stands in its block. Random actions and policies have no tier
// and stand at every one.
type slot struct {
	arm       string
	seed      int
	tier, set string
}

// blockCells are a block and the cells that it is computed from.
type blockCells struct {
	Block
	settings *infer.Settings
	cells    map[slot]results.Cell
}

// ErrNothing says that no cell of a folder is of a method that plans.
var ErrNothing = errors.New("nothing to compare")

// Build computes the report of a folder. It fails where there is nothing to
// report; everything less becomes a warning.
func Build(d *Data, o infer.Options) (*Report, error) {
	if len(d.Cells) == 0 {
		return nil, fmt.Errorf("report: %w: the folder holds no evaluation cells (hint: run `scalewm reproduce` or `scalewm eval` into it first)%s", ErrNothing, because(d.Unread))
	}
	placed, notes := infer.Place(d.Cells)
	r := &Report{Protocol: listing(protocols(d.Cells)), Training: d.Training, Analyses: d.Analyses, Cells: d.Cells, Clips: d.Clips, Origin: originOf(d), Unread: d.Unread, Warnings: slices.Concat(d.Unread, notes)}
	blocks, err := blocksOf(placed, d.Runs)
	if err != nil {
		return nil, err
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("report: %w: the folder holds cells of random actions and policies only (hint: evaluate a trained method, `scalewm eval --help`)", ErrNothing)
	}
	var settings []*infer.Settings
	var of []*Block
	for _, b := range blocks {
		b.pair(o)
		b.fresh(o)
		r.Blocks = append(r.Blocks, &b.Block)
		if b.Main == nil || b.Main.Solver != b.Solver { // the paper's test has MPPI at stock temperature
			of, settings = append(of, &b.Block), append(settings, b.settings)
		}
	}
	r.Factors = factorsOf(blocks, o)
	for _, g := range infer.Groups(settings) {
		r.Groups = append(r.Groups, r.group(g, of, o))
	}
	adjustVaried(r.Blocks)
	r.Findings = r.findings()
	r.Checks = checks(r, blocks, d.Gates)
	r.Warnings = append(r.Warnings, warnings(r)...)
	return r, nil
}

func because(problems []string) string {
	if len(problems) == 0 {
		return ""
	}
	return "; unusable: " + strings.Join(problems, "; ")
}

func protocols(cells []results.Cell) []string {
	seen := map[string]bool{}
	for _, c := range cells {
		seen[c.Spec.Protocol] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// group computes what is taken over several blocks.
func (r *Report) group(of infer.Group, among []*Block, o infer.Options) Group {
	g := Group{Name: of.Name}
	for _, i := range of.Members {
		g.Blocks = append(g.Blocks, among[i])
	}
	main := mainOf(g.Blocks)
	infer.Adjust(pairsOf(main))
	g.SetTests, g.Tallies, g.Gains, g.Aggregates = setTests(g.Blocks, o), tallies(main), gains(main, o), aggregates(main)
	g.Seeds, g.Sources, g.Foretold = seedsOf(main), r.sources(main), r.foretold(main)
	return g
}

// mainOf leaves out the blocks that vary another.
func mainOf(blocks []*Block) []*Block {
	return slices.DeleteFunc(slices.Clone(blocks), func(b *Block) bool { return b.Main != nil })
}

func pairsOf(blocks []*Block) (out []*infer.Comparison) {
	for _, b := range blocks {
		out = append(out, b.Pairs...)
	}
	return out
}

// adjustVaried adjusts the comparisons of blocks that are no main ones among those that vary the same.
func adjustVaried(blocks []*Block) {
	families := map[string][]*Block{}
	for _, b := range blocks {
		if b.Main != nil {
			what := strings.Join(b.Varied, " ") + ": " + b.Settings
			families[what] = append(families[what], b)
		}
	}
	for _, family := range families {
		infer.Adjust(pairsOf(family))
	}
}

// blocksOf lays the cells out: a block for each task, table and settings that hold a
// method with a solver, and random actions in all that they can stand beside.
func blocksOf(placed []infer.Placed, runs map[string]results.Run) ([]*blockCells, error) {
	by := map[*infer.Settings]*blockCells{}
	for _, p := range placed {
		if p.Table != "" && by[p.Settings] == nil {
			by[p.Settings] = &blockCells{Block: Block{Task: p.Settings.Task, Solver: p.Table, Settings: p.Settings.Name}, settings: p.Settings, cells: map[slot]results.Cell{}}
		}
	}
	blocks := slices.SortedFunc(maps.Values(by), func(a, b *blockCells) int {
		return cmp.Or(compareTasks(a.Task, b.Task), strings.Compare(a.Solver, b.Solver), strings.Compare(a.Settings, b.Settings))
	})
	for _, b := range blocks {
		if main := by[b.settings.Main]; main != nil {
			b.Main, b.Varied = &main.Block, b.settings.Varied
		}
		millis := map[string][]float64{}
		for _, p := range placed {
			if p.Settings != b.settings && (p.Table != "" || !p.Settings.Joins(b.settings)) {
				continue
			}
			s := slot{p.Arm, p.Spec.TrainSeed, p.Spec.Tier, p.Spec.Set}
			if other, taken := b.cells[s]; taken {
				return nil, fmt.Errorf("report: the cells %s and %s stand in one place and differ in nothing that a cell says (hint: keep one of them)", other.ID, p.ID)
			}
			b.cells[s] = p.Cell
			if ms := runs[p.ID].PlanMillis; ms > 0 {
				millis[s.tier] = append(millis[s.tier], ms)
			}
		}
		b.sum(millis)
	}
	return blocks, nil
}

// sum lists the sets, tiers and arms of a block's cells and what they score.
func (b *blockCells) sum(millis map[string][]float64) {
	arms, sets := map[string]Arm{}, map[string]bool{}
	for s, c := range b.cells {
		arms[fmt.Sprint(s.arm, s.seed)] = Arm{Name: s.arm, Method: c.Spec.Method, Seed: s.seed, Weights: c.Spec.Weights}
		if c.Spec.Solver != "" {
			sets[s.set] = true // not of random actions alone
		}
	}
	b.Sets = slices.Sorted(maps.Keys(sets))
	b.Tiers = b.tiers(millis)
	b.Arms = slices.SortedFunc(maps.Values(arms), func(x, y Arm) int { return cmp.Or(compareArms(x.Name, y.Name), x.Seed-y.Seed) })
	for i := range b.Arms {
		b.score(&b.Arms[i])
	}
}

// compareArms orders arms as tables do: by method, the plain one before its variants.
func compareArms(a, b string) int {
	return cmp.Or(model.CompareMethods(infer.MethodOf(a).Name, infer.MethodOf(b).Name), strings.Compare(a, b))
}

// tiers lists the tiers of a block, most compute first.
func (b *blockCells) tiers(millis map[string][]float64) []Tier {
	found := map[string]Tier{}
	for p, c := range b.cells {
		if s := c.Spec; s.Solver != "" {
			found[p.tier] = Tier{Name: s.Tier, Candidates: s.Candidates, Iterations: s.Iterations, Elites: s.Elites,
				Horizon: s.Horizon, Budget: s.Budget, GoalOffset: s.GoalOffset, Episodes: s.Episodes, PlanMillis: median(millis[p.tier])}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Tier) int {
		return cmp.Or(b.Rollouts()-a.Rollouts(), strings.Compare(a.Name, b.Name))
	})
}

// at lists an arm's cells at a tier, by set; those of arms that do not search stand
// at every tier.
func (b *blockCells) at(a Arm, tier string) (cells []results.Cell) {
	if !infer.MethodOf(a.Name).Plans() {
		tier = ""
	}
	for _, set := range b.Sets {
		if c, ok := b.cells[slot{a.Name, a.Seed, tier, set}]; ok {
			cells = append(cells, c)
		}
	}
	return cells
}

// each lists the cells of a block in the order of arms, tiers and sets, those of
// arms that do not search once.
func (b *blockCells) each(f func(results.Cell)) {
	seen := map[string]bool{}
	for _, a := range b.Arms {
		for _, t := range b.Tiers {
			for _, c := range b.at(a, t.Name) {
				if !seen[c.ID] {
					seen[c.ID] = true
					f(c)
				}
			}
		}
	}
}

// score sums up one trained model (or floor) at every tier it has.
func (b *blockCells) score(a *Arm) {
	a.Scores = map[string]Score{}
	for _, t := range b.Tiers {
		if cells := b.at(*a, t.Name); len(cells) > 0 {
			a.Scores[t.Name] = scoreOf(cells)
		}
	}
	var scores []infer.Score
	for _, t := range b.averaged() {
		if s, ok := a.Scores[t]; ok {
			scores = append(scores, s.Score)
		} else { // the mean over the others is no mean beside those of all
			scores = nil
			break
		}
	}
	a.Mean = Score{Score: infer.MeanScore(scores)}
}

// averaged are the tiers that a mean over tiers is of.
func (b *Block) averaged() (tiers []string) {
	for _, t := range b.Tiers {
		tiers = append(tiers, t.Name)
	}
	return infer.Averaged(tiers)
}

// meanNote says which tiers and training seeds the means of the block's tables are not of.
func (b *Block) meanNote() (note string) {
	if len(b.averaged()) < len(b.Tiers) {
		note += " T2p is T2 as the paper prints it, and in no mean."
	}
	var lack, fewer []string
	for _, l := range b.series() {
		if l.at(len(b.Tiers)) == nil {
			lack = append(lack, armTitle(l.name))
		}
		for _, t := range b.Tiers {
			n := 0
			for _, a := range l.arms {
				if _, ok := a.Scores[t.Name]; ok {
					n++
				}
			}
			if n > 0 && n < len(l.arms) {
				fewer = append(fewer, fmt.Sprintf("%s at %s (%d of %d)", armTitle(l.name), t.Name, n, len(l.arms)))
			}
		}
	}
	if len(lack) > 0 {
		note += fmt.Sprintf(" %s: no mean, since a tier is missing.", listing(lack))
	}
	if len(fewer) > 0 {
		note += fmt.Sprintf(" Not every training seed has %s; a mean is of those with all tiers.", listing(fewer))
	}
	return note
}

// scoreOf is the success of an arm at one tier, and when it came.
func scoreOf(cells []results.Cell) Score {
	s := Score{Score: infer.ScoreOf(cells)}
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

// pair compares the arms of a block with those that the table of methods sets
// against them, all training seeds together.
func (b *blockCells) pair(o infer.Options) {
	b.arms = map[string]*infer.Arm{}
	for _, a := range b.Arms {
		if b.arms[a.Name] == nil {
			b.arms[a.Name] = &infer.Arm{Name: a.Name}
		}
	}
	for p, c := range b.cells {
		if slices.Contains(b.Sets, p.set) {
			b.arms[p.arm].Add(c) // each slot is taken once, so no episode is there twice
		}
	}
	names := armsOf(b.Arms)
	for _, x := range names {
		for _, method := range infer.MethodOf(x).Against {
			for _, y := range names {
				if x == y || infer.MethodOf(y).Name != method {
					continue
				}
				c := infer.Compare(b.arms[x], b.arms[y], o)
				c.Task = b.Task
				slices.SortStableFunc(c.ByTier, func(x, y infer.Difference) int { return b.tierIndex(x.Tier) - b.tierIndex(y.Tier) })
				b.Pairs = append(b.Pairs, c)
			}
		}
	}
}

// fresh repeats the comparison that the block leads with, without the starts that are
// solved already.
func (b *blockCells) fresh(o infer.Options) {
	c := b.headline()
	if c == nil {
		return
	}
	arms := map[string]*infer.Arm{c.A: {Name: c.A}, c.B: {Name: c.B}}
	solved := false
	for p, x := range b.cells {
		if arms[p.arm] == nil || !slices.Contains(b.Sets, p.set) {
			continue
		}
		rows := len(x.Result.Rows)
		x.Result.Rows = slices.DeleteFunc(slices.Clone(x.Result.Rows), func(r results.Row) bool { return r.PreSolved })
		solved = solved || len(x.Result.Rows) < rows
		arms[p.arm].Add(x)
	}
	if solved {
		b.Fresh = infer.Compare(arms[c.A], arms[c.B], o)
	}
}

func (b *Block) tierIndex(name string) int {
	return slices.IndexFunc(b.Tiers, func(t Tier) bool { return t.Name == name })
}

// armsOf lists the names of arms once each; those of several seeds stand together.
func armsOf(arms []Arm) (out []string) {
	for _, a := range arms {
		if !slices.Contains(out, a.Name) {
			out = append(out, a.Name)
		}
	}
	return out
}

// names lists the arms of all blocks, in the order of tables.
func names(blocks []*Block) (out []string) {
	for _, b := range blocks {
		out = append(out, armsOf(b.Arms)...)
	}
	slices.SortFunc(out, compareArms)
	return slices.Compact(out)
}

// versus lists the pairs of arms that some block compares, in the order of tables.
func versus(blocks []*Block) (out [][2]string) {
	for _, b := range blocks {
		for _, c := range b.Pairs {
			if v := [2]string{c.A, c.B}; !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	place := func(v [2]string) int { // of the second in the list that the first is set against
		return slices.Index(infer.MethodOf(v[0]).Against, infer.MethodOf(v[1]).Name)
	}
	slices.SortStableFunc(out, func(v, w [2]string) int {
		return cmp.Or(compareArms(v[0], w[0]), place(v)-place(w), compareArms(v[1], w[1]))
	})
	return out
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

// series are the arms of one name, one a training seed, and what they score on average.
type series struct {
	name   string
	arms   []Arm
	scores []Score // as Block.scores lists an arm's: over several arms the mean, and its SD over them
}

// label names them.
func (s series) label() string {
	if len(s.arms) > 1 {
		return fmt.Sprintf("%s, %d seeds", armTitle(s.name), len(s.arms))
	}
	return armTitle(s.name)
}

// at is the score at a tier of the block, by its place there; nil where it was not run.
func (s series) at(tier int) *Score {
	if len(s.scores) == 0 || len(s.scores[tier].BySet) == 0 {
		return nil
	}
	return &s.scores[tier]
}

// series are the block's arms by name, in their order.
func (b *Block) series() (out []series) {
	for _, name := range armsOf(b.Arms) {
		out = append(out, b.seriesOf(name))
	}
	return out
}

func (b *Block) seriesOf(name string) series {
	s := series{name: name}
	for _, a := range b.Arms {
		if a.Name == name {
			s.arms = append(s.arms, a)
		}
	}
	if len(s.arms) > 0 {
		s.scores = b.scores(s.arms[0])
	}
	for i := range s.scores {
		if len(s.arms) > 1 {
			s.scores[i] = b.overSeeds(s.arms, i)
		}
	}
	return s
}

// overSeeds is the mean of arms' scores at a tier, by its place.
func (b *Block) overSeeds(arms []Arm, tier int) (out Score) {
	var means []float64
	for _, a := range arms {
		s := b.scores(a)[tier]
		if len(s.BySet) == 0 {
			continue
		}
		if means = append(means, s.Mean); len(means) == 1 {
			out.BySet, out.Solved = s.BySet, make([]float64, len(s.Solved))
		}
		for k := range min(len(s.Solved), len(out.Solved)) {
			out.Solved[k] += s.Solved[k]
		}
	}
	for k := range out.Solved {
		out.Solved[k] /= float64(len(means))
	}
	out.Mean, out.SD = stats.MeanSD(means)
	return out
}

// best is the highest mean in each column of scores.
func (b *Block) best() []float64 {
	top := slices.Repeat([]float64{math.Inf(-1)}, len(b.Tiers)+1)
	for _, l := range b.series() {
		for i := range top {
			if s := l.at(i); s != nil {
				top[i] = max(top[i], s.Mean)
			}
		}
	}
	return top
}

// several says whether a method has more than one training seed here.
func (b *Block) several() bool {
	return slices.ContainsFunc(b.series(), func(s series) bool { return len(s.arms) > 1 })
}

// headline is the comparison a block leads with: the first method that is no
// floor against the baseline, or the first that was paired.
func (b *Block) headline() *infer.Comparison {
	var first *infer.Comparison
	for _, c := range b.Pairs {
		switch {
		case c.Mean == nil:
		case infer.MethodOf(c.B).Name == model.Baseline && !infer.MethodOf(c.A).Floor:
			return c
		case first == nil:
			first = c
		}
	}
	return first
}

// tasksOf lists the tasks of blocks once each; the blocks are in their order.
func tasksOf(blocks []*Block) (out []string) {
	for _, b := range blocks {
		if !slices.Contains(out, b.Task) {
			out = append(out, b.Task)
		}
	}
	return out
}
