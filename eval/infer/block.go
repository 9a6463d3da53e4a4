package infer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"scalewm/eval/results"
	"scalewm/eval/stats"
	"scalewm/eval/words"
)

// Block holds the cells of one task and solver that were evaluated under the same
// settings, arranged by arm, tier and set. It corresponds to one success table of the
// report. Arms of one block may be paired; arms of different blocks may not, except by
// solver (see Join).
//
// Infer builds the blocks. They do not change afterwards, so several views may read them.
type Block struct {
	// Place has no tier and no set. Its Settings name what distinguishes the block from
	// others of the same task and solver.
	Place
	Tiers []Tier    // in descending order of compute
	Sets  []string  // names in alphabetical order
	Arms  []Trained // one for each arm and training seed, in the order of tables
	// Replaced are the arms of whose searches components are replaced. They are not in Arms:
	// they show why a method succeeds or fails (see decompose.go), and are none themselves.
	Replaced []Trained
	Pairs    []*Comparison
	// Fresh repeats the headline comparison without the starts that already meet the goal.
	// It is nil if there are no such starts.
	Fresh *Comparison
	// Baseline is the arm with which the others are compared: the table's if the block has
	// it, else the block's first arm that is no floor.
	Baseline results.Arm
	// Main is the block that this one is a variation of, and Varied names the factors in
	// which they differ. Main is nil if the block itself is a main block.
	Main   *Block
	Varied []string

	settings *Settings
	cells    map[slot]results.Cell
	foreign  map[results.Arm]bool
	sides    map[results.Arm]*Side // each with all training seeds of its arm
}

// Published reports whether the block may be compared with published numbers.
func (b *Block) Published() bool { return b.settings.Published() }

// Tier is a compute budget of the planner.
type Tier struct {
	Name                           string
	Candidates, Iterations, Elites int
	Horizon, Budget, GoalOffset    int     // blocks, env steps, env steps
	PlanMillis                     float64 // milliseconds to plan for one episode, median over cells; 0 if not measured
	Episodes                       int     // in each set
}

// Rollouts returns the planner's compute: the number of candidates rolled out for one
// plan.
func (t Tier) Rollouts() int { return t.Candidates * t.Iterations }

// Trained is an arm with one training seed, in other words one checkpoint.
type Trained struct {
	results.Arm
	Seed    int
	Weights string // SHA-256 of the weights file
	Foreign bool   // another program computed its outcomes; Weights are the SHA-256 of its files
}

// slot is the position of a cell in its block. A block has at most one cell in each
// slot. The tier is "" for arms that do not search (random actions and policies); their
// cell counts for every tier.
type slot struct {
	arm       results.Arm
	seed      int
	tier, set string
}

// blocksOf arranges cells in blocks, ordered by task, solver and settings, of which those
// that are comparable with published numbers come first. Each
// combination of task, table and settings that has cells of a planning method becomes a
// block. Cells of random actions and policies have no solver; each is added to all
// blocks whose settings it agrees with. It returns an error if two cells belong to the
// same slot.
func blocksOf(placed []Placed, runs map[string]results.Run) ([]*Block, error) {
	by := map[*Settings]*Block{}
	for _, p := range placed {
		if p.Table != "" && by[p.Settings] == nil {
			by[p.Settings] = &Block{Place: Place{Task: p.Settings.Task, Solver: p.Table, Settings: p.Settings.Name}, settings: p.Settings, cells: map[slot]results.Cell{}, foreign: map[results.Arm]bool{}}
		}
	}
	last := func(b *Block) int {
		if b.Published() {
			return 0
		}
		return 1
	}
	blocks := slices.SortedFunc(maps.Values(by), func(a, b *Block) int {
		return cmp.Or(results.CompareTasks(a.Task, b.Task), strings.Compare(a.Solver, b.Solver), last(a)-last(b), strings.Compare(a.Settings, b.Settings))
	})
	for _, b := range blocks {
		if main := by[b.settings.Main]; main != nil {
			b.Main, b.Varied = main, b.settings.Varied
		}
		millis := map[string][]float64{}
		for _, p := range placed {
			if p.Settings != b.settings && (p.Table != "" || !p.Settings.Joins(b.settings)) {
				continue
			}
			// PlaceCells rules this out for the fields that it knows. The check protects
			// against a field of the spec that is missing in the table of fields: a
			// silent overwrite would change numbers with the order of the cells.
			s := slot{p.Arm, p.Spec.TrainSeed, p.Spec.Tier, p.Spec.Set}
			if other, taken := b.cells[s]; taken {
				return nil, fmt.Errorf("report: the cells %s and %s have the same place, arm and settings (hint: keep one of them)", other.ID, p.ID)
			}
			b.cells[s] = p.Cell
			b.foreign[p.Arm] = p.Foreign != ""
			if ms := runs[p.ID].PlanMillis; ms > 0 && !p.Arm.Replaced() {
				millis[s.tier] = append(millis[s.tier], ms)
			}
		}
		b.arrange(millis)
	}
	return blocks, nil
}

// arrange derives the sets, tiers and arms of the block from its cells. Tiers and sets
// come from cells with a solver only, because random actions may have been evaluated on
// more sets. The plan times of a tier are in millis.
func (b *Block) arrange(millis map[string][]float64) {
	arms, sets, tiers := map[slot]Trained{}, map[string]bool{}, map[string]Tier{}
	for s, c := range b.cells {
		arms[slot{arm: s.arm, seed: s.seed}] = Trained{s.arm, s.seed, c.Spec.Weights, b.foreign[s.arm]}
		if x := c.Spec; x.Solver != "" {
			sets[s.set] = true
			tiers[s.tier] = Tier{Name: x.Tier, Candidates: x.Candidates, Iterations: x.Iterations, Elites: x.Elites,
				Horizon: x.Horizon, Budget: x.Budget, GoalOffset: x.GoalOffset, Episodes: x.Episodes, PlanMillis: median(millis[s.tier])}
		}
	}
	b.Sets = slices.Sorted(maps.Keys(sets))
	b.Tiers = slices.SortedFunc(maps.Values(tiers), func(a, b Tier) int { return cmp.Or(b.Rollouts()-a.Rollouts(), strings.Compare(a.Name, b.Name)) })
	for _, a := range slices.SortedFunc(maps.Values(arms), func(x, y Trained) int { return cmp.Or(results.CompareArms(x.Arm, y.Arm), x.Seed-y.Seed) }) {
		if a.Replaced() {
			b.Replaced = append(b.Replaced, a)
		} else {
			b.Arms = append(b.Arms, a)
		}
	}
}

// at returns an arm's cells at a tier, in the order of sets. Cells of arms that do not
// search are returned for every tier.
func (b *Block) at(a Trained, tier string) (cells []results.Cell) {
	if !a.Plans() {
		tier = ""
	}
	for _, set := range b.Sets {
		if c, ok := b.cells[slot{a.Arm, a.Seed, tier, set}]; ok {
			cells = append(cells, c)
		}
	}
	return cells
}

// Every returns the arms, and after them those of Replaced.
func (b *Block) Every() []Trained { return slices.Concat(b.Arms, b.Replaced) }

// Own returns the arms that this program evaluated, without those of Replaced.
func (b *Block) Own() []Trained {
	return slices.DeleteFunc(slices.Clone(b.Arms), func(a Trained) bool { return a.Foreign })
}

// each calls f once for every cell of the block that this program computed, in the order
// of arms, tiers and sets.
func (b *Block) each(f func(results.Cell)) {
	seen := map[string]bool{}
	for _, a := range slices.Concat(b.Own(), b.Replaced) {
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

// TierNames returns the names of the block's tiers, in descending order of compute.
func (b *Block) TierNames() (tiers []string) {
	for _, t := range b.Tiers {
		tiers = append(tiers, t.Name)
	}
	return tiers
}

// Averaged returns the names of the tiers over which the block's means are taken.
func (b *Block) Averaged() []string { return Averaged(b.TierNames()) }

// Names returns the block's arms, each once, in the order of tables.
func (b *Block) Names() []results.Arm { return NamesOf(b.Arms) }

// NamesOf returns arms without their training seeds, each once.
func NamesOf(of []Trained) (out []results.Arm) {
	for _, a := range of {
		if !slices.Contains(out, a.Arm) {
			out = append(out, a.Arm)
		}
	}
	return out
}

// SeedsOf returns the training seeds of an arm in ascending order.
func (b *Block) SeedsOf(arm results.Arm) (seeds []int) {
	for _, a := range b.Every() {
		if a.Arm == arm {
			seeds = append(seeds, a.Seed)
		}
	}
	return seeds
}

// SeveralSeeds reports whether some arm has more than one training seed in the block.
func (b *Block) SeveralSeeds() bool { return len(b.Names()) < len(b.Arms) }

// Title returns the block's name for readers: task, solver and settings.
func (b *Block) Title() string {
	t := words.Task(b.Task) + ", " + words.Solver(b.Solver)
	if b.Settings != "" {
		t += ", " + b.Settings
	}
	return t
}

// Label returns the name of a trained arm for readers. It includes the training seed
// only if the block has several of this arm.
func (b *Block) Label(a Trained) string {
	if len(b.SeedsOf(a.Arm)) > 1 {
		return fmt.Sprintf("%s seed %d", words.Arm(a.Arm), a.Seed)
	}
	return words.Arm(a.Arm)
}

// success adds the success rates of a block's arms, at each tier and averaged over
// tiers: one number for each training seed and, if an arm has several, their mean.
func (t *Table) success(b *Block) {
	for _, arm := range NamesOf(b.Every()) {
		several := len(b.SeedsOf(arm)) > 1
		for _, a := range b.Every() {
			if a.Arm == arm {
				t.ofTrained(b, a)
			}
		}
		for _, tier := range append(b.TierNames(), Mean) {
			if of := t.BySeed(b, arm, tier); several && len(of) > 0 {
				t.add(overSeeds(of))
			}
		}
	}
}

// ofTrained adds the success rates of one arm and training seed.
func (t *Table) ofTrained(b *Block, a Trained) {
	var tiers []Score
	var from []string
	number := func(what, tier string, value float64, n int) Number {
		return Number{What: what, Place: b.Place.At(tier), Of: a.Arm, Seed: &a.Seed, Value: some(value), N: n, Unit: "episode"}
	}
	for _, tier := range b.TierNames() {
		cells := b.at(a, tier)
		if len(cells) == 0 {
			continue
		}
		s := ScoreOf(cells)
		n := number(Success, tier, s.Mean, s.N)
		n.SD, n.Lo, n.Hi, n.From, n.How = some(s.SD), some(s.Lo), some(s.Hi), ids(cells), &s
		if note := s.Note(); note != "" {
			n.Notes = append(n.Notes, note)
		}
		t.add(n)
		for _, more := range []Number{number("pre_solved", tier, s.PreSolved, s.N), number("success_without_pre_solved", tier, s.Fresh, s.N)} {
			more.From = n.From
			t.add(more)
		}
		if slices.Contains(b.Averaged(), tier) {
			tiers, from = append(tiers, s), append(from, n.From...)
		}
	}
	// T2p is tier T2 as the paper prints it. The difference from T2 as it was run shows
	// how much the ambiguity matters.
	n := number(Success, "T2", 0, 0)
	ran := t.Find(n)
	if n.Tier = "T2p"; ran != nil && t.Find(n) != nil && a.Plans() {
		t.add(Number{What: Printed, Place: b.Place, Of: a.Arm, Seed: &a.Seed, Value: some(*t.Find(n).Value - *ran.Value), From: union(ran.From, t.Find(n).From)})
	}
	// Without a cell at some tier there is no mean: a mean over fewer tiers would look
	// comparable with the means of the other arms, but is not.
	if len(tiers) < len(b.Averaged()) {
		return
	}
	if s := MeanScore(tiers); len(s.BySet) > 0 {
		n := number(Success, Mean, s.Mean, s.N)
		n.SD, n.From, n.How = some(s.SD), union(from), &s
		t.add(n)
	}
}

// overSeeds returns the mean of an arm's success over its training seeds, their standard
// deviation and Student's interval. Its N counts seeds. The rates by set in its Score are those of
// the first seed; the curve of solved episodes is averaged.
func overSeeds(of []*Number) Number {
	var x []float64
	var from [][]string
	sum := Score{Lo: math.NaN(), Hi: math.NaN()}
	for i, n := range of {
		s := n.How.(*Score)
		if i == 0 {
			sum.BySet, sum.Solved = s.BySet, make([]float64, len(s.Solved))
		}
		for k := range min(len(s.Solved), len(sum.Solved)) {
			sum.Solved[k] += s.Solved[k]
		}
		x, from = append(x, Or(n.Value)), append(from, n.From)
	}
	for k := range sum.Solved {
		sum.Solved[k] /= float64(len(of))
	}
	sum.Mean, sum.SD = stats.MeanSD(x)
	return Number{What: Success, Place: of[0].Place, Of: of[0].Of, From: union(from...), How: &sum}.overSeeds(x)
}

// ids returns the ids of cells.
func ids(cells []results.Cell) (out []string) {
	for _, c := range cells {
		out = append(out, c.ID)
	}
	return out
}

// median returns the median of x, or 0 if x is empty.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// ErrBaseline is wrapped by the error for a baseline that the folder lacks.
var ErrBaseline = errors.New("the folder has no arm")

// baselineOf returns the arm of a name, or the paper's baseline, with which the others are
// compared. Where no arm has the latter's method, it is the first that is no floor.
func baselineOf(arms []results.Arm, name string) (results.Arm, error) {
	if name == "" {
		first := slices.IndexFunc(arms, func(a results.Arm) bool { return !a.Floor() })
		if first < 0 || slices.ContainsFunc(arms, func(a results.Arm) bool { return a.Entry().Name == paperBaseline.Method }) {
			return paperBaseline, nil
		}
		return arms[first], nil
	}
	arm, err := results.ParseArm(name)
	if err == nil && !slices.Contains(arms, arm) {
		var names []string
		for _, a := range arms {
			names = append(names, a.String())
		}
		err = fmt.Errorf("%w %s (hint: it has %s)", ErrBaseline, name, words.Listing(names))
	}
	return arm, err
}

// against returns the arms with which x is compared: those that the table of methods names
// if the paper's baseline is compared with, else the baseline. An arm that differs from
// another by one component is compared with that one too. No arm is compared with one of
// Replaced.
func (b *Block) against(x results.Arm) (out []results.Arm) {
	if origin, ok := x.Origin(); ok && slices.Contains(b.Names(), origin) && !slices.Contains(b.usual(x), origin) {
		out = append(out, origin)
	}
	return append(out, b.usual(x)...)
}

// usual is against without the arm that x originates from. A search of the baseline with a
// replaced component is compared with the searches that are compared with the baseline, to
// show whether it reaches them.
func (b *Block) usual(x results.Arm) (out []results.Arm) {
	if x.Wrappers != "" {
		if origin, _ := x.Origin(); origin != b.Baseline {
			return nil
		}
		return slices.DeleteFunc(b.Names(), func(y results.Arm) bool {
			return !y.Plans() || y.Floor() || !slices.Contains(b.usual(y), b.Baseline)
		})
	}
	if b.Baseline != paperBaseline {
		if x != b.Baseline {
			out = append(out, b.Baseline)
		}
		return out
	}
	for _, method := range x.Entry().Against {
		for _, y := range b.Names() {
			if x != y && y.Entry().Name == method {
				out = append(out, y)
			}
		}
	}
	return out
}

// pair compares the arms of a block. Each comparison uses all training seeds of both
// arms.
func (b *Block) pair(o Options) {
	if b.Baseline = o.baseline; !slices.Contains(b.Names(), b.Baseline) {
		b.Baseline, _ = baselineOf(b.Names(), "") // without a name there is no error
	}
	b.sides = map[results.Arm]*Side{}
	for _, a := range NamesOf(b.Every()) {
		b.sides[a] = &Side{Name: a.String()}
	}
	for p, c := range b.cells {
		if slices.Contains(b.Sets, p.set) {
			// Add fails only for a repeated episode, and each slot has one cell.
			b.sides[p.arm].Add(c)
		}
	}
	for _, x := range NamesOf(b.Every()) {
		for _, y := range b.against(x) {
			c := Compare(b.sides[x], b.sides[y], o)
			c.Task, c.Of, c.Minus = b.Task, x, y
			// Compare sorts tiers by name; blocks list the tier with most compute first.
			slices.SortStableFunc(c.ByTier, func(x, y Difference) int { return b.tierIndex(x.Tier) - b.tierIndex(y.Tier) })
			b.Pairs = append(b.Pairs, c)
		}
	}
}

// fresh repeats the headline comparison without the starts that already meet the goal.
// Such episodes succeed whatever the arm does, and pull the difference towards 0.
func (b *Block) fresh(o Options) {
	c := b.Headline()
	if c == nil {
		return
	}
	sides := map[results.Arm]*Side{c.Of: {Name: c.A}, c.Minus: {Name: c.B}}
	solved := false
	for p, x := range b.cells {
		if sides[p.arm] == nil || !slices.Contains(b.Sets, p.set) {
			continue
		}
		// x is a copy of the cell, but shares its rows with it: clone before deleting.
		rows := len(x.Result.Rows)
		x.Result.Rows = slices.DeleteFunc(slices.Clone(x.Result.Rows), func(r results.Row) bool { return r.PreSolved })
		solved = solved || len(x.Result.Rows) < rows
		sides[p.arm].Add(x)
	}
	if solved {
		b.Fresh = Compare(sides[c.Of], sides[c.Minus], o)
	}
}

// Headline returns the block's most important comparison: the first other learned method
// against the baseline or, if there is none, the first pair with a mean over tiers. It
// is nil if no pair of methods has one.
func (b *Block) Headline() *Comparison {
	var first *Comparison
	for _, c := range b.Pairs {
		switch {
		case c.Mean == nil || c.Of.Replaced():
		case c.Of.Method != c.Minus.Method && (c.Minus == b.Baseline || c.Minus.Entry().Name == b.Baseline.Method) && !c.Of.Floor():
			return c
		case first == nil:
			first = c
		}
	}
	return first
}

// tierIndex returns the index of a tier in the block's order.
func (b *Block) tierIndex(name string) int { return slices.Index(b.TierNames(), name) }

// differences adds the paired differences of a block, by tier and averaged. If two arms
// could not be paired, it adds the number without a value and with the reasons as
// notes, so that the report can say why a difference is missing.
func (t *Table) differences(b *Block) {
	for _, c := range b.Pairs {
		all := c.All()
		for i := range all {
			t.add(b.difference(Diff, c, &all[i]))
		}
		mean := b.difference(Diff, c, c.Mean)
		mean.Tier, mean.Notes = Mean, slices.Concat(c.Notes, c.Refused)
		t.add(mean)
	}
	if b.Fresh != nil {
		for i := range b.Fresh.ByTier {
			n := b.difference("difference_without_pre_solved", b.Headline(), &b.Fresh.ByTier[i])
			t.add(n)
			if all := t.Find(Number{What: Diff, Place: n.Place, Of: n.Of, Minus: n.Minus}); all != nil {
				t.add(Number{What: PreSolved, Place: n.Place, Of: n.Of, Minus: n.Minus, Value: some(100 * float64(all.N-n.N) / float64(all.N)), N: all.N, Unit: "episode", From: n.From})
			}
		}
	}
}

// difference returns the number of one row of a comparison. If d is nil, the number has
// no value.
func (b *Block) difference(what string, c *Comparison, d *Difference) Number {
	n := Number{What: what, Place: b.Place, Of: c.Of, Minus: c.Minus, Unit: "episode"}
	if d == nil {
		return n
	}
	n = n.put(Estimate{d.Diff, d.Lo, d.Hi})
	n.Tier, n.P, n.Adjusted, n.N, n.How = d.Tier, some(d.P), some(d.adjusted()), d.N, d
	n.From = union(b.ids(c.Of, d.Tiers), b.ids(c.Minus, d.Tiers))
	return n
}

// ids returns the ids of an arm's cells at the given tiers. Cells without a tier are
// always included.
func (b *Block) ids(arm results.Arm, tiers []string) (out []string) {
	for s, c := range b.cells {
		if s.arm == arm && (s.tier == "" || slices.Contains(tiers, s.tier)) {
			out = append(out, c.ID)
		}
	}
	return out
}
