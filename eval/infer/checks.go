package infer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"scalewm/eval/results"
	"scalewm/eval/stats"
	"scalewm/eval/words"
	"scalewm/model"
)

// Limits of the checks (docs/sources.md#result-checks, docs/sources.md#set-spread), in
// percentage points unless stated otherwise. The first two are those of the authors' code.
const (
	maxRise     = 6   // limit for the rise of success towards a tier with less compute
	maxSpread   = 8   // limit for the distance of a set of the baseline from the sets' median
	maxRatio    = 1.5 // limit for the ratio of the variance between sets to the binomial variance
	minEpisodes = 100 // episodes in each set of the paper's comparisons
	highFloor   = 35  // percent; a random floor above this gets a warning
)

// Check is a gate on the evaluation and its outcome: whether the data behind the
// numbers can be trusted. A check never suppresses a number.
type Check struct {
	Name    string
	Verdict Verdict
	Text    string
}

// Verdicts of a check. Skipped means that the data cannot decide it.
const (
	Passed  Verdict = "passed"
	Warned  Verdict = "warned"
	Skipped Verdict = "skipped"
)

// check runs the gates over the cells of all blocks, and adds the warnings.
func (t *Table) check() {
	blocks := t.Blocks
	t.Checks = []Check{
		checkRender(t.Gates),
		unique(blocks, "Same episodes", "every arm and tier saw the same episodes of each set", func(_ *Block, s results.Spec) (string, string) {
			return fmt.Sprintf("%s %s of %s, protocol %s", s.Task, s.Set, words.Count(s.Episodes, "episode"), s.Protocol+starts(s)), s.SetHash
		}),
		unique(blocks, "Same data", "every cell of a task was evaluated on the same data", func(_ *Block, s results.Spec) (string, string) { return s.Task, s.Data }),
		unique(blocks, "One model per arm", "every arm kept one weights file over tiers, sets and solvers", func(b *Block, s results.Spec) (string, string) {
			return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s seed %d", s.Task, b.Settings, words.Arm(s.Arm()), s.TrainSeed)), " "), strings.TrimSpace(s.Weights + " " + s.Code)
		}),
		oneDevice(blocks),
		sameSeeds(blocks),
		t.checkComplete(),
		t.checkMonotone(),
		t.checkHomogeneous(),
		t.checkVariance(),
		t.checkPreSolved(),
		noNaN(blocks),
	}
	t.warn()
}

// starts describes, for readers, the settings on which the episodes of a set depend, if
// neither the name of the protocol implies them nor the paper has them.
func starts(s results.Spec) (text string) {
	for _, x := range results.Settings {
		if v := x.Value(s.Rules); (strings.HasPrefix(x.Key, "starts.") || x.Key == "goal.offset") && v != x.Value(results.Published()) && v != x.Implied(s.Protocol) {
			text += ", " + fmt.Sprintf(x.Say, v)
		}
	}
	return text
}

// unique checks that cells with the same key have the same value. The function of
// returns both for a cell; title and good are the name of the check and the text of a
// pass.
func unique(blocks []*Block, title, good string, of func(*Block, results.Spec) (key, value string)) Check {
	values := map[string]map[string]bool{}
	for _, b := range blocks {
		b.each(func(c results.Cell) {
			k, v := of(b, c.Spec)
			if values[k] == nil {
				values[k] = map[string]bool{}
			}
			values[k][v] = true
		})
	}
	var bad []string
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if n := len(values[k]); n > 1 {
			bad = append(bad, fmt.Sprintf("%s has %d", k, n))
		}
	}
	return verdict(title, good, bad)
}

// verdict returns a check that passes if there are no complaints in bad, and otherwise
// a warning with the first four.
func verdict(title, good string, bad []string) Check {
	if len(bad) == 0 {
		return Check{title, Passed, good}
	}
	const show = 4
	text := strings.Join(bad[:min(len(bad), show)], "; ")
	if len(bad) > show {
		text += fmt.Sprintf("; and %d more", len(bad)-show)
	}
	return Check{title, Warned, text}
}

// oneDevice checks that all cells with a planner were computed on one kind of device.
// Results on different kinds differ in the last bits of costs.
func oneDevice(blocks []*Block) Check {
	kinds := map[string]bool{}
	for _, b := range blocks {
		b.each(func(c results.Cell) {
			if c.Spec.Solver != "" {
				kinds[c.Result.Device] = true
			}
		})
	}
	names := slices.Sorted(maps.Keys(kinds))
	var bad []string
	if len(names) > 1 {
		bad = []string{"arms were planned on " + strings.Join(names, " and ") + "; pairs across device kinds are computed, with a note"}
	}
	return verdict("One device kind", "all plans were made on "+strings.Join(names, ""), bad)
}

// sameSeeds checks that all arms got the same planner noise: one planner seed for each
// tier, set and episode. Paired comparisons rely on it.
func sameSeeds(blocks []*Block) Check {
	type place struct {
		tier, set string
		episode   int
	}
	bad := map[string]bool{}
	for _, b := range blocks {
		seeds := map[place]uint32{}
		b.each(func(c results.Cell) {
			if c.Spec.Solver == "" {
				return
			}
			for _, row := range c.Result.Rows {
				p := place{c.Spec.Tier, c.Spec.Set, row.Episode}
				if old, ok := seeds[p]; ok && old != row.PlannerSeed {
					bad[fmt.Sprintf("%s %s %s", b.Task, p.tier, p.set)] = true
				}
				seeds[p] = row.PlannerSeed
			}
		})
	}
	return verdict("Equal planner noise", "every arm planned each episode with the same seed", slices.Sorted(maps.Keys(bad)))
}

// checkComplete looks for missing cells in the grid of arms, tiers and sets.
func (t *Table) checkComplete() Check {
	var bad []string
	cells := 0
	for _, b := range t.Blocks {
		for _, a := range b.Own() {
			for _, tier := range b.TierNames() {
				n := len(b.at(a, tier))
				cells += n
				if n < len(b.Sets) {
					bad = append(bad, fmt.Sprintf("%s, %s at %s has %d of %s", b.Title(), b.Label(a), tier, n, words.Count(len(b.Sets), "set")))
				}
			}
		}
	}
	return verdict("Complete grid", fmt.Sprintf("all %d cells of arms x tiers x sets exist", cells), bad)
}

// checkMonotone warns if an arm has clearly more success with less compute. That
// usually means a mistake in a tier's settings.
func (t *Table) checkMonotone() Check {
	var bad []string
	for _, b := range t.Blocks {
		for _, a := range b.Arms {
			for k := 1; k < len(b.Tiers); k++ {
				high, low := t.score(b, a, b.Tiers[k-1].Name), t.score(b, a, b.Tiers[k].Name)
				if high != nil && low != nil && low.Mean-high.Mean > maxRise {
					bad = append(bad, fmt.Sprintf("%s, %s rises by %s points from %s to %s", b.Title(), b.Label(a), words.Points(low.Mean-high.Mean), b.Tiers[k-1].Name, b.Tiers[k].Name))
				}
			}
		}
	}
	return verdict("More compute does not hurt", fmt.Sprintf("no arm gains more than %d points with less compute", maxRise), bad)
}

// checkHomogeneous compares the sets of the baseline with their median. It does not
// judge sets so small that sampling alone would often exceed the limit (half of it is
// one standard deviation).
func (t *Table) checkHomogeneous() Check {
	const title = "Sets agree"
	var bad []string
	tested, chance := 0, 0.0
	for _, b := range t.Blocks {
		for _, a := range b.Arms {
			if a.Method != t.Baseline.Method {
				continue
			}
			for _, tier := range b.TierNames() {
				s := t.score(b, a, tier)
				if s == nil || len(s.BySet) < 2 {
					continue
				}
				if sd := chanceSD(s); sd > maxSpread/2 {
					chance = max(chance, sd)
					continue
				}
				tested++
				if far, set := farthest(s); far > maxSpread {
					bad = append(bad, fmt.Sprintf("%s at %s: set %s lies %s points from the median", b.Title(), tier, set, words.Points(far)))
				}
			}
		}
	}
	if tested == 0 {
		text := "no baseline with two or more sets"
		if chance > 0 {
			text = fmt.Sprintf("undecidable: sets this small scatter by %s points (one SD) by chance alone; the limit is %d", words.Points(chance), maxSpread)
		}
		return Check{title, Skipped, text}
	}
	return verdict(title, fmt.Sprintf("every set of the baseline lies within %d points of the sets' median", maxSpread), bad)
}

// chanceSD returns the binomial standard deviation of the success rate on one set, in
// points. It assumes sets of equal size.
func chanceSD(s *Score) float64 {
	p := s.Mean / 100
	return 100 * math.Sqrt(p*(1-p)*float64(len(s.BySet))/float64(s.N))
}

// farthest returns the set whose rate is farthest from the sets' median, and the
// distance in points.
func farthest(s *Score) (far float64, set string) {
	var rates []float64
	for _, b := range s.BySet {
		rates = append(rates, b.Rate)
	}
	mid := median(rates)
	for _, b := range s.BySet {
		if d := math.Abs(b.Rate - mid); d > far {
			far, set = d, b.Set
		}
	}
	return far, set
}

// checkVariance compares the variance between sets with the binomial one, over the
// cells whose success is neither 0 nor 100 %. A ratio near 1 means that sets are
// samples of one population of episodes, which justifies the episode as the unit of
// tests.
func (t *Table) checkVariance() Check {
	const title = "Sets scatter by chance only"
	var hits, trials [][]int
	for _, b := range t.Blocks {
		for _, a := range b.Arms {
			for _, tier := range b.TierNames() {
				var k, n []int
				s := t.score(b, a, tier)
				if s == nil {
					continue
				}
				for _, set := range s.BySet {
					k, n = append(k, int(math.Round(set.Rate*float64(set.N)/100))), append(n, set.N)
				}
				hits, trials = append(hits, k), append(trials, n)
			}
		}
	}
	h := stats.Homogeneous(hits, trials)
	if h.Cells == 0 {
		return Check{title, Skipped, "needs two sets and success between 0 and 100 %"}
	}
	text := fmt.Sprintf("the variance between sets is %.2f times the binomial one (%s, %d of them above %.1f)", h.Ratio, words.Count(h.Cells, "cell"), h.Above, maxRatio)
	if h.Ratio > maxRatio {
		return Check{title, Warned, text + "; prefer the tests over sets"}
	}
	return Check{title, Passed, text}
}

// checkPreSolved reports the share of starts that meet the goal before the first step,
// and the success at the first tier without them.
func (t *Table) checkPreSolved() Check {
	var bad []string
	for _, b := range t.Blocks {
		share := 0.0
		var rest []string
		for _, a := range b.Arms {
			if s := t.score(b, a, b.Tiers[0].Name); s != nil {
				share = max(share, s.PreSolved)
				rest = append(rest, b.Label(a)+" "+words.Points(s.Fresh))
			}
		}
		if share > 0 {
			bad = append(bad, fmt.Sprintf("%s: %s %% of the starts; without them success at %s is %s %%", b.Title(), words.Points(share), b.Tiers[0].Name, strings.Join(rest, ", ")))
		}
	}
	return verdict("No start is solved already", "no episode begins at its goal", bad)
}

// noNaN checks that no cost of a planner was NaN or infinite.
func noNaN(blocks []*Block) Check {
	costs, cells := 0, 0
	for _, b := range blocks {
		b.each(func(c results.Cell) {
			n := 0
			for _, row := range c.Result.Rows {
				n += row.NaNCosts
			}
			if costs += n; n > 0 {
				cells++
			}
		})
	}
	var bad []string
	if costs > 0 {
		bad = []string{fmt.Sprintf("%d costs were NaN or infinite and counted as the worst, in %s", costs, words.Count(cells, "cell"))}
	}
	return verdict("Finite costs", "every cost was a number", bad)
}

// checkRender checks that frames drawn on this machine equal the recorded ones
// (docs/sources.md#render-gate).
func checkRender(gates []results.Gate) Check {
	const title = "Frames drawn as recorded"
	if len(gates) == 0 {
		return Check{title, Skipped, "the folder does not say"}
	}
	var bad []string
	worst := gates[0]
	for _, g := range gates {
		if !g.Passed() {
			bad = append(bad, fmt.Sprintf("%s differs by %.2f levels, more than %g", words.Task(g.Task), g.Error, g.Limit))
		}
		if g.Error > worst.Error {
			worst = g
		}
	}
	return verdict(title, fmt.Sprintf("rendered and stored frames differ by %.2f levels at most (%s), the limit is %g", worst.Error, words.Task(worst.Task), worst.Limit), bad)
}

// score returns the success of a trained arm at a tier, or nil if it was not run.
func (t *Table) score(b *Block, a Trained, tier string) *Score {
	if n := t.Find(Number{What: Success, Place: b.Place.At(tier), Of: a.Arm, Seed: &a.Seed}); n != nil {
		return n.How.(*Score)
	}
	return nil
}

// CostNotes returns a note for each score of the block that rests on plans with NaN or
// infinite costs.
func (t *Table) CostNotes(b *Block) (notes []string) {
	for _, a := range b.Every() {
		for _, tier := range b.TierNames() {
			if s := t.score(b, a, tier); s != nil && s.Note() != "" {
				notes = append(notes, fmt.Sprintf("%s, %s: %s", b.Label(a), tier, s.Note()))
			}
		}
	}
	return notes
}

// warn adds the warnings, which a reader needs in order to judge the numbers.
func (t *Table) warn() {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, b := range t.Blocks {
		seeds := map[int]bool{}
		methods := map[string]bool{}
		for _, a := range b.Own() {
			methods[a.Method] = true
			m := a.Entry()
			if !m.Floor {
				seeds[a.Seed] = true
			}
			if s := t.score(b, a, Mean); m.Floor && !m.HasModel() && s != nil && s.Mean > highFloor {
				add("%s: random actions solve %s %% of the episodes; compare every rate with that floor", words.Task(b.Task), words.Points(s.Mean))
			}
		}
		for _, c := range b.Pairs {
			notes := c.Notes
			if c.Of.Replaced() {
				notes = nil // it has fewer tiers and sets on purpose
			}
			for _, why := range slices.Concat(notes, c.Refused) {
				add("%s, %s against %s: %s", b.Title(), words.Arm(c.Of), words.Arm(c.Minus), why)
			}
		}
		for _, n := range t.CostNotes(b) {
			add("%s, %s", b.Title(), n)
		}
		if b.Main != nil {
			continue // a variation has fewer arms and seeds on purpose
		}
		if n := b.Tiers[0].Episodes; n < minEpisodes {
			add("%s: %d episodes a set; the paper's comparisons use %d, so intervals here are wide", b.Title(), n, minEpisodes)
		}
		if len(b.Sets) == 1 {
			add("%s: one evaluation set, so the spread over sets is unknown", b.Title())
		}
		if len(seeds) == 1 {
			add("%s: one training seed; the intervals cover the choice of episodes, not the luck of training", b.Title())
		}
		for _, m := range model.MethodNames(nil) {
			if needed(m, methods) && !methods[m] {
				add("%s: no cells of %s", b.Title(), words.Arm(results.Arm{Method: m}))
			}
		}
	}
	if len(t.Groups) > 1 {
		var names []string
		for _, g := range t.Groups {
			names = append(names, g.Name)
		}
		add("the folder holds results under %d different settings (%s); they are shown separately and never paired", len(names), strings.Join(names, "; "))
	}
	if len(t.Curves) == 0 {
		add("no training metrics were found, so there are no training curves")
	}
	if len(t.Clips) == 0 {
		add("no clips were found to watch")
	}
	t.Warnings = append(t.Warnings, out...)
}

// needed reports whether a method is needed to judge the methods in there: one of them
// is compared with it, or it is the floor of random actions.
func needed(method string, there map[string]bool) bool {
	for m := range there {
		if slices.Contains(model.MethodOf(m).Against, method) {
			return true
		}
	}
	return method == model.Random
}

// distinct removes repeated lines, and keeps the first of each.
func distinct(lines []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(lines, func(s string) bool {
		old := seen[s]
		seen[s] = true
		return old
	})
}
