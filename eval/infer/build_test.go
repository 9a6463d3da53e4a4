package infer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	_ "scalewm/envs/cube" // for their titles
	_ "scalewm/envs/pointmaze"
	_ "scalewm/envs/pusht"
	_ "scalewm/envs/reacher"
	_ "scalewm/envs/tworoom"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
	"scalewm/eval/words"
)

// Methods of the test folder (package resultstest), and their arms.
const (
	lewm      = resultstest.LeWM
	scale     = resultstest.Scale
	aux       = resultstest.Aux
	untrained = resultstest.Untrained
	random    = resultstest.Random
)

type plan = resultstest.Plan

var p = resultstest.P

func arm(name string) results.Arm {
	a, err := results.ParseArm(name)
	if err != nil {
		panic(err)
	}
	return a
}

// ofCells returns the table of cells.
func ofCells(t *testing.T, cells []results.Cell) *Table {
	t.Helper()
	table, err := Infer(&results.Contents{Cells: cells, Gates: []results.Gate{resultstest.Gate}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// ofPlans returns the table of the cells of plans.
func ofPlans(t *testing.T, plans []plan, edit func(*results.Cell)) *Table {
	t.Helper()
	return ofCells(t, resultstest.Cells(t, plans, edit))
}

// find returns a number of a table, which must exist.
func find(t *testing.T, table *Table, n Number) *Number {
	t.Helper()
	found := table.Find(n)
	if found == nil {
		t.Fatalf("there is no number %+v", n)
	}
	return found
}

// scoreAt returns the success of a method in a block, over its training seeds.
func scoreAt(t *testing.T, table *Table, b *Block, method, tier string) (*Number, *Score) {
	t.Helper()
	n := table.Success(b, arm(method), tier)
	if n == nil {
		t.Fatalf("no success of %s at %s", method, tier)
	}
	return n, n.How.(*Score)
}

func ofSeed(seed int) func(*results.Cell) {
	return func(c *results.Cell) {
		c.Spec.TrainSeed = seed
		c.Spec.Weights += strconv.Itoa(seed)
	}
}

// The expected sums are computed by hand from resultstest.HandPlan.
func TestScores(t *testing.T) {
	table := ofPlans(t, resultstest.HandPlan, nil)
	if len(table.Blocks) != 1 || !slices.Equal(table.Origin.Protocols, []string{"paper"}) {
		t.Fatalf("%d blocks, protocols %q; want one and paper", len(table.Blocks), table.Origin.Protocols)
	}
	b := table.Blocks[0]
	if got := strings.Join(b.TierNames(), " "); got != "T1 T3 T5" {
		t.Errorf("tiers %s, want most compute first: T1 T3 T5", got)
	}
	if n := b.Tiers[0].Rollouts(); n != 9000 {
		t.Errorf("T1 rolls out %d, want 300 x 30", n)
	}
	for _, c := range []struct {
		method, tier   string
		n, hits        int
		mean, sd, at10 float64 // at10: percent solved within 10 steps, episodes 0 and 1 of each set
	}{
		{lewm, "T1", 30, 24, 80, 10, 20},                                        // 80, 70, 90
		{scale, "T1", 30, 29, 290.0 / 3, 10 / math.Sqrt(3), 20},                 // 100, 90, 100
		{aux, "T1", 30, 24, 80, 0, 20},                                          // 80, 80, 80
		{scale, "T5", 30, 19, 190.0 / 3, 10 / math.Sqrt(3), 20},                 // 60, 60, 70
		{random, "T3", 30, 6, 20, 10, 100 * 5.0 / 30},                           // 20, 10, 30
		{untrained, "T5", 30, 7, 70.0 / 3, 10 / math.Sqrt(3), 20},               // 20, 30, 20
		{lewm, Mean, 30, 0, 610.0 / 9, math.Sqrt(11400.0 / 81 / 2), math.NaN()}, // 200/3, 60, 230/3: deviations -10/9, -70/9, 80/9
	} {
		n, s := scoreAt(t, table, b, c.method, c.tier)
		if c.tier != Mean {
			near(t, c.method+" "+c.tier+" solved within 10 steps", s.Solved[10], c.at10, 1e-9)
			near(t, c.method+" "+c.tier+" solved at the end", s.Solved[50], s.Mean, 1e-9)
		}
		if n.N != c.n || s.N != c.n || s.Hits != c.hits || len(s.BySet) != 3 {
			t.Errorf("%s %s: %d of %d on %d sets, want %d of %d on 3", c.method, c.tier, s.Hits, n.N, len(s.BySet), c.hits, c.n)
		}
		near(t, c.method+" "+c.tier+" mean", *n.Value, c.mean, 1e-9)
		near(t, c.method+" "+c.tier+" SD", *n.SD, c.sd, 1e-9)
	}
}

func TestDifferences(t *testing.T) {
	table := ofPlans(t, resultstest.HandPlan, nil)
	b := table.Blocks[0]
	var names []string
	for _, p := range b.Pairs {
		names = append(names, p.A+"-"+p.B)
		if len(p.Refused) > 0 {
			t.Errorf("%s: refused %v", words.Minus(p.Of, p.Minus), p.Refused)
		}
	}
	if got := strings.Join(names, " "); got != "scale-lewm scale-aux aux-lewm untrained-lewm" {
		t.Fatalf("pairs %s", got)
	}
	at := func(a, b, tier string) (*Number, *Difference) {
		n := find(t, table, Number{What: Diff, Place: table.Blocks[0].Place.At(tier), Of: arm(a), Minus: arm(b)})
		return n, n.How.(*Difference)
	}
	// At T1 SCALE solves all episodes that LeWM solves and the next 2, 2, 1 of the sets.
	// So b = 5, c = 0, and McNemar's p is 2/2^5, its mid-p half of it. The set sums are
	// 2, 2, 1: 2 of 2^3 sign vectors are as extreme.
	n, d := at(scale, lewm, "T1")
	if d.Tier != "T1" || n.N != 30 || d.Sets != 3 || d.Both != 24 || d.OnlyA != 5 || d.OnlyB != 0 || d.Neither != 1 {
		t.Errorf("T1: %+v, want 24 both, 5 SCALE only, 0 LeWM only, 1 neither", d)
	}
	near(t, "difference", *n.Value, 100*5.0/30, 1e-9)
	near(t, "McNemar", *n.P, 2.0/32, 1e-12)
	near(t, "mid-p", *d.MidP, 1.0/32, 1e-12)
	near(t, "p over sets", d.SetP, 2.0/8, 1e-12)
	// Newcombe's formula of docs/sources.md#newcombe, evaluated independently in Python.
	near(t, "lower", *n.Lo, 0.8859207509, 1e-6)
	near(t, "upper", *n.Hi, 33.8069269734, 1e-6)

	// Over the tiers SCALE gains 14 of 90 outcomes, on 11 episodes, and loses none:
	// the sign flips of 11 equal signs have p = 2/2^11.
	n, d = at(scale, lewm, Mean)
	if d.Tier != Mean || d.Binary() || n.N != 30 {
		t.Errorf("mean: %+v, want 30 episodes, not binary", d)
	}
	near(t, "mean difference", *n.Value, 100*14.0/90, 1e-9)
	near(t, "sign flip", *n.P, 2.0/2048, 4e-4)
	near(t, "set sums 5, 5, 4", d.SetP, 2.0/8, 1e-12)
	if !(*n.Lo > 0 && *n.Lo < *n.Value && *n.Value < *n.Hi) || d.MidP != nil {
		t.Errorf("mean: interval %v to %v, mid-p %v", *n.Lo, *n.Hi, d.MidP)
	}

	// Aux and LeWM at T1 differ by one episode each way: no difference, p = 1.
	if n, d := at(aux, lewm, "T1"); d.OnlyA != 1 || d.OnlyB != 1 || *n.Value != 0 || *n.P != 1 {
		t.Errorf("Aux - LeWM at T1: %+v", d)
	}

	// Benjamini and Hochberg over the three tiers of SCALE - LeWM: p = 1/16 (5 to 0),
	// 1/16 (5 to 0) and 1/8 (4 to 0) become 3/32 (the second's 1/16 * 3/2, which the first
	// may not exceed), 3/32 and 1/8. Holm is for their mean, a family of one.
	for tier, want := range map[string]struct{ p, bh float64 }{"T1": {1. / 16, 3. / 32}, "T3": {1. / 16, 3. / 32}, "T5": {1. / 8, 1. / 8}} {
		n, d := at(scale, lewm, tier)
		near(t, tier+" p", *n.P, want.p, 1e-12)
		near(t, tier+" BH", d.BH, want.bh, 1e-12)
		near(t, tier+" adjusted", *n.Adjusted, want.bh, 1e-12)
		if p := d.Holm(); !math.IsNaN(p) {
			t.Errorf("%s: Holm %v, want none", tier, p)
		}
	}
	n, d = at(scale, lewm, Mean)
	near(t, "a family of one", *n.Adjusted, *n.P, 0)
	if !math.IsNaN(d.BH) {
		t.Errorf("the mean has BH %v", d.BH)
	}
}

func TestPairingIsRefused(t *testing.T) {
	of := func(method, tier string, c *results.Cell) bool {
		return c.Spec.Method == method && c.Spec.Tier == tier
	}
	for _, c := range []struct {
		name string
		edit func(*results.Cell)
		want string
	}{
		{"seeds", func(c *results.Cell) { c.Result.Rows[3].PlannerSeed += uint32(len(c.Spec.Method)) }, "tier T3, set s101, episode 3: planner seed is "},
		{"starts", func(c *results.Cell) { c.Result.Rows[4].Start += len(c.Spec.Method) }, "tier T3, set s101, episode 4: start is "},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := ofPlans(t, resultstest.HandPlan, func(cell *results.Cell) {
				if of(scale, "T3", cell) || of(lewm, "T3", cell) {
					c.edit(cell)
				}
			})
			b := table.Blocks[0]
			if p := b.Pairs[0]; len(p.ByTier) != 2 || p.ByTier[0].Tier != "T1" || p.ByTier[1].Tier != "T5" {
				t.Errorf("rows %+v, want T1 and T5 without a mean", p.ByTier)
			}
			mean := find(t, table, Number{What: Diff, Place: b.Place.At(Mean), Of: arm(scale), Minus: arm(lewm)})
			if mean.Value != nil || !strings.Contains(strings.Join(mean.Notes, "\n"), c.want) {
				t.Errorf("the mean is %v, notes %q", Or(mean.Value), mean.Notes)
			}
			text := strings.Join(table.Warnings, "\n")
			if !strings.Contains(text, "SCALE against LeWM: "+c.want) || !strings.Contains(text, "no mean over the tiers") {
				t.Errorf("warnings do not say %q:\n%s", c.want, text)
			}
		})
	}
}

// A damaged cell is left out completely, since its rates would be wrong too.
func TestDoubleEpisodesAreLeftOut(t *testing.T) {
	table := ofPlans(t, resultstest.HandPlan, func(c *results.Cell) {
		if c.Spec.Method == scale && c.Spec.Tier == "T3" && c.Spec.Set == "s101" {
			c.Result.Rows[4].Episode = 5
		}
	})
	if _, s := scoreAt(t, table, table.Blocks[0], scale, "T3"); len(s.BySet) != 2 {
		t.Errorf("%d sets at T3, want the 2 undamaged ones", len(s.BySet))
	}
	if text := strings.Join(table.Warnings, "\n"); !strings.Contains(text, "left out: it has episode 5 twice") {
		t.Errorf("warnings do not say so:\n%s", text)
	}
}

// Plans of two kinds of device are paired, with a note. With Options.SameDevice they
// are refused.
func TestKindsOfDevice(t *testing.T) {
	cells := resultstest.Cells(t, resultstest.HandPlan, func(c *results.Cell) {
		if c.Spec.Method == scale {
			c.Result.Device = "cuda"
		}
	})
	if c := ofCells(t, cells).Blocks[0].Pairs[0]; len(c.All()) != 4 || !slices.Equal(c.Notes, []string{"scale planned on cuda, lewm on cpu avx2 fp32"}) {
		t.Errorf("%d rows, notes %q", len(c.All()), c.Notes)
	}
	table, err := Infer(&results.Contents{Cells: cells}, Options{SameDevice: true})
	if err != nil {
		t.Fatal(err)
	}
	if c := table.Blocks[0].Pairs[0]; len(c.All()) != 0 || !strings.Contains(strings.Join(c.Refused, "\n"), "device is cuda in one arm and cpu avx2 fp32 in the other") {
		t.Errorf("--same-device: %d rows, %v", len(c.All()), c.Refused)
	}
}

// Sets and episodes that only one arm has are left out, with a note.
func TestPairingIntersects(t *testing.T) {
	cells := resultstest.Cells(t, resultstest.HandPlan, func(c *results.Cell) {
		if c.Spec.Method == lewm && c.Spec.Tier == "T1" && c.Spec.Set == "s102" {
			c.Result.Rows = c.Result.Rows[:9]
		}
	})
	table := ofCells(t, slices.DeleteFunc(cells, func(c results.Cell) bool {
		return c.Spec.Method == scale && c.Spec.Tier == "T1" && c.Spec.Set == "s103"
	}))
	if d := table.Blocks[0].Pairs[0].ByTier[0]; d.N != 19 || d.Sets != 2 {
		t.Errorf("paired %d episodes of %d sets, want 10 + 9 of 2", d.N, d.Sets)
	}
	if text := strings.Join(table.Warnings, "\n"); !strings.Contains(text, "tier T1: 19 episodes in both arms, of 20 and 29") {
		t.Errorf("warnings do not say so:\n%s", text)
	}
}

// Arms with two common training seeds are paired for each seed and averaged. At T1 LeWM
// solves 24 of 30 with one seed, and one more with the other.
func TestSeedsAreAveraged(t *testing.T) {
	plans := resultstest.HandPlan[:6] // LeWM and SCALE
	more := resultstest.Cells(t, plans, func(c *results.Cell) { c.Spec.TrainSeed = 1 })
	c := &more[slices.IndexFunc(more, func(c results.Cell) bool { return c.Spec.Method == lewm && c.Spec.Tier == "T1" })]
	miss := slices.IndexFunc(c.Result.Rows, func(r results.Row) bool { return !r.Success })
	c.Result.Rows[miss].Success = true
	table := ofCells(t, append(resultstest.Cells(t, plans, nil), more...))
	b := table.Blocks[0]
	if len(b.Arms) != 4 || b.Label(b.Arms[1]) != "LeWM seed 1" {
		t.Fatalf("arms %d, second %q; want LeWM and SCALE with two seeds each", len(b.Arms), b.Label(b.Arms[1]))
	}
	d := b.Pairs[0].ByTier[0]
	if d.Seeds != 2 || d.N != 30 || d.Binary() {
		t.Errorf("T1: %+v, want 30 episodes averaged over two seeds", d)
	}
	near(t, "difference", d.Diff, 100*4.5/30, 1e-9) // 5 with one seed, 4 with the other
	by := table.BySeed(b, arm(lewm), "T1")
	if len(by) != 2 {
		t.Fatalf("%d seeds of LeWM, want 2", len(by))
	}
	one, other := *by[0].Value, *by[1].Value
	near(t, "one seed", one, 80, 1e-9)
	near(t, "second seed", other-one, 100.0/30, 1e-9)
	n, s := scoreAt(t, table, b, lewm, "T1")
	near(t, "mean over seeds", *n.Value, (one+other)/2, 1e-9)
	near(t, "SD over seeds", *n.SD, (other-one)/math.Sqrt2, 1e-9)
	near(t, "solved at the end", s.Solved[len(s.Solved)-1], *n.Value, 1e-9)
	if n.Seed != nil || n.N != 2 || n.Unit != "training seed" {
		t.Errorf("over seeds: %+v", n)
	}
}

// Seed 2 was evaluated at T1 only, and LeWM at T2p too. SCALE - LeWM is +20 points at
// T1 with seed 1 and +40 with seed 2, and +10 at T2 with seed 1.
func TestSeedsWithoutATier(t *testing.T) {
	cells := append(resultstest.Cells(t, []plan{p(lewm, "T1", 5, 5), p(scale, "T1", 7, 7), p(lewm, "T2", 4, 4), p(scale, "T2", 5, 5), p(lewm, "T2p", 0, 0)}, ofSeed(1)),
		resultstest.Cells(t, []plan{p(lewm, "T1", 4, 4), p(scale, "T1", 8, 8)}, ofSeed(2))...)
	table := ofCells(t, cells)
	b := table.Blocks[0]
	c := b.Headline()
	if c == nil || c.A != scale || c.B != lewm {
		t.Fatalf("it leads with %+v", c)
	}
	near(t, "mean", c.Mean.Diff, 30, 1e-9)
	near(t, "T1", c.ByTier[0].Diff, 30, 1e-9)
	near(t, "T2", c.ByTier[1].Diff, 10, 1e-9)
	if c.Mean.Seeds != 2 || c.ByTier[1].Seeds != 1 || !slices.Equal(c.Mean.Tiers, []string{"T1"}) || len(c.Refused) > 0 {
		t.Errorf("mean over %v of %d seeds, T2 of %d; refused %q", c.Mean.Tiers, c.Mean.Seeds, c.ByTier[1].Seeds, c.Refused)
	}
	if want := []string{"tier T2p is only in lewm", "tier T2 without training seed 2 of scale, not evaluated there", "the mean is over T1"}; !slices.Equal(c.Notes, want) {
		t.Errorf("notes %q, want %q", c.Notes, want)
	}
	// The mean is that of seed 1: (50 + 40) / 2, without T2p.
	n, _ := scoreAt(t, table, b, lewm, Mean)
	near(t, "mean of LeWM", *n.Value, 45, 1e-9)
	if s := find(t, table, Number{What: SeedDiff, Place: Place{Task: "tworoom"}, Of: arm(scale), Minus: arm(lewm)}).How.(*Seeds); !slices.Equal(s.Seeds, []int{1, 2}) || !slices.Equal(s.Points, []float64{20, 40}) {
		t.Errorf("by seed: %v, %v", s.Seeds, s.Points)
	}
}

// The interval next to the test over sets is over the same cells. Only seed 1 has T3,
// and T2p does not replace T2.
func TestPooledOverTheSameCells(t *testing.T) {
	cells := append(resultstest.Cells(t, []plan{p(lewm, "T1", 5, 5), p(scale, "T1", 7, 7), p(lewm, "T3", 4, 4), p(scale, "T3", 5, 5), p(lewm, "T2p", 0, 0), p(scale, "T2p", 9, 9)}, ofSeed(1)),
		resultstest.Cells(t, []plan{p(lewm, "T1", 4, 4), p(scale, "T1", 8, 8), p(lewm, "T2p", 0, 0), p(scale, "T2p", 9, 9)}, ofSeed(2))...)
	n := find(t, ofCells(t, cells), Number{What: SetDiff, Place: Place{Task: "tworoom"}, Of: arm(scale), Minus: arm(lewm)})
	if s := n.How.(*SetTest); s.Cells != 2 || s.Pooled != nil || n.Lo != nil {
		t.Errorf("%d cells, the pooled difference is of %v", s.Cells, s.Pooled.Tiers)
	}
}

// A method that lacks a tier has no mean: it would be compared with means over other
// tiers.
func TestMeanNeedsAllTiers(t *testing.T) {
	table := ofPlans(t, []plan{p(lewm, "T1", 9, 9), p(scale, "T1", 8, 8), p(scale, "T2", 6, 6)}, nil)
	b := table.Blocks[0]
	if n := table.Success(b, arm(lewm), Mean); n != nil {
		t.Errorf("LeWM has a mean of T1 alone: %v", Or(n.Value))
	}
	n, _ := scoreAt(t, table, b, scale, Mean)
	near(t, "mean of SCALE", *n.Value, 70, 1e-9)
}

// Two trainings of one method and seed are two arms, in any order of evaluation.
func TestTwoTrainingsAreTwoArms(t *testing.T) {
	other := resultstest.Cells(t, resultstest.HandPlan[:1], func(c *results.Cell) { c.Spec.Weights = "0123456789abcdef"; c.Result.Rows[0].Success = false })
	cells := append(other, resultstest.Cells(t, resultstest.HandPlan, nil)...)
	runs := map[string]results.Run{}
	for i, c := range cells {
		runs[c.ID] = results.Run{Started: map[bool]string{true: "2030-01-01T00:00:00Z", false: "2026-01-02T00:00:00Z"}[i < len(other)]}
	}
	table, err := Infer(&results.Contents{Cells: cells, Runs: runs}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := table.Blocks[0]
	one, _ := scoreAt(t, table, b, "lewm@01234567", "T1")
	two, _ := scoreAt(t, table, b, "lewm@weights-", "T1")
	if len(b.Arms) != 6 || b.Label(b.Arms[0]) != "LeWM@01234567" || *one.Value != 70 || b.Label(b.Arms[1]) != "LeWM@weights-" || *two.Value != 80 {
		t.Fatalf("%d arms, the first %+v and %+v", len(b.Arms), b.Arms[0], b.Arms[1])
	}
	if c := b.Pairs; c[0].A != scale || c[0].B != "lewm@01234567" || c[1].B != "lewm@weights-" || c[0].ByTier[0].Diff == c[1].ByTier[0].Diff || words.Minus(c[0].Of, c[0].Minus) != "SCALE − LeWM@01234567" {
		t.Errorf("SCALE is compared with %q and %q", c[0].B, c[1].B)
	}
	if c := checkNamed(t, table, "One model per arm"); !strings.Contains(c.Text, "tworoom LeWM seed 0 has 2") {
		t.Errorf("the check says %q", c.Text)
	}
}

// The task state and the weight of the method's own loss term are variants of a method,
// unless they are its defaults.
func TestVariants(t *testing.T) {
	b := ofCells(t, append(resultstest.Cells(t, resultstest.HandPlan[:6], func(c *results.Cell) {
		if c.Spec.Method == scale {
			c.Spec.Q, c.Spec.LossWeight = "full", .1
		}
	}), resultstest.Cells(t, resultstest.HandPlan[3:4], func(c *results.Cell) { c.Spec.Q, c.Spec.LossWeight, c.Spec.Weights = "half", .3, "w" })...)).Blocks[0]
	if want := []results.Arm{arm(lewm), arm(scale), arm("scale@half@w=0.3")}; !slices.Equal(b.Names(), want) || b.Label(b.Arms[2]) != "SCALE@half@w=0.3" || len(b.Pairs) != 2 {
		t.Errorf("arms %v, %d pairs", b.Names(), len(b.Pairs))
	}
}

// Cells that were evaluated under other settings get separate blocks and separate
// numbers over blocks. They are never paired with others.
func TestSettingsAreApart(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	on := func(yes bool, s *string, v string) {
		if yes {
			*s = v
		}
	}
	for want, edit := range map[string]func(s *results.Spec){
		"protocol strict":                    func(s *results.Spec) { s.Protocol = "strict" },
		"data other":                         func(s *results.Spec) { s.Data = "other" },
		"recipe 0a":                          func(s *results.Spec) { s.Recipe = "0a" },
		"3 episodes a set":                   func(s *results.Spec) { s.Episodes, s.SetHash = 3, "3"+s.Set },
		"pool full":                          func(s *results.Spec) { s.Pool, s.SetHash = "full", "full"+s.Set },
		"40 steps allowed":                   func(s *results.Spec) { s.Budget = 40 },
		"goals 20 rows ahead":                func(s *results.Spec) { s.GoalOffset = 20 },
		"horizon 4":                          func(s *results.Spec) { s.Horizon = 4 },
		"actions scaled as the checkpoint's": func(s *results.Spec) { s.Actions = "checkpoint" },
		"s102 starts other":                  func(s *results.Spec) { on(s.Set == "s102", &s.SetHash, "other") },
		"T3 60 candidates":                   func(s *results.Spec) { s.Candidates += map[string]int{"T3": 10}[s.Tier] },
	} {
		t.Run(want, func(t *testing.T) {
			base := func(c *results.Cell) { c.Spec.Recipe, c.Spec.Clip = "ff", "raw" }
			cells := append(resultstest.Cells(t, resultstest.HandPlan, base), resultstest.Cells(t, resultstest.HandPlan[:6], func(c *results.Cell) { base(c); edit(&c.Spec) })...)
			slices.SortFunc(cells, func(a, b results.Cell) int { return strings.Compare(a.ID, b.ID) })
			table := ofCells(t, slices.CompactFunc(cells, func(a, b results.Cell) bool { return a.ID == b.ID }))
			if !slices.ContainsFunc(table.Blocks, func(b *Block) bool { return strings.Contains(b.Title(), want) }) || len(table.Groups) < 2 || !strings.Contains(strings.Join(table.Warnings, "\n"), "they are shown separately and never paired") {
				t.Errorf("%d blocks, %d groups; want one titled %q", len(table.Blocks), len(table.Groups), want)
			}
			for _, n := range table.Where(Success, func(n *Number) bool { return n.Source == Ours }) {
				if n.N > 30 {
					t.Errorf("%+v has %d episodes at a tier", n, n.N)
				}
			}
			for _, n := range table.Where("averages_led", func(n *Number) bool { return n.Source == Ours }) {
				if n.N > 2 {
					t.Errorf("%+v is of several settings", n)
				}
			}
		})
	}
}

// factorCells returns LeWM and SCALE with three seeds on three sets: CEM at T1 and T3,
// iCEM and MPPI at T3. Two seeds at T3 are varied: other planner noise, no clip, the
// stock temperature. There SCALE succeeds in 9 of 10. Otherwise it succeeds in 7, with
// seed 2 in 6.
func factorCells(t *testing.T) (cells []results.Cell) {
	t.Helper()
	add := func(solver string, tiers []string, seeds int, hits func(seed int) int, edit func(*results.Spec)) {
		for seed := 1; seed <= seeds; seed++ {
			var plans []plan
			for _, tier := range tiers {
				n := hits(seed)
				plans = append(plans, p(lewm, tier, 5, 5, 5), p(scale, tier, n, n, n))
			}
			cells = append(cells, resultstest.Cells(t, plans, func(c *results.Cell) {
				ofSeed(seed)(c)
				switch c.Spec.Recipe, c.Spec.Solver = "r", solver; solver {
				case results.ICEM:
					c.Spec.Clip = "raw"
				case results.MPPI:
					c.Spec.Temperature = 64
				}
				edit(&c.Spec)
			})...)
		}
	}
	main := func(seed int) int { return 7 - (seed+1)%2 }
	same := func(*results.Spec) {}
	add("cem", []string{"T1", "T3"}, 3, main, same)
	add("icem", []string{"T3"}, 3, main, same)
	add("mppi", []string{"T3"}, 3, main, same)
	other := func(int) int { return 9 }
	add("cem", []string{"T3"}, 2, other, func(s *results.Spec) { s.PlannerNoise = 1 })
	add("icem", []string{"T3"}, 2, other, func(s *results.Spec) { s.Clip = "none" })
	add("mppi", []string{"T3"}, 2, other, func(s *results.Spec) { s.Temperature = 0.5 })
	return cells
}

// Cells that vary the planner's noise, iCEM's clip or MPPI's temperature do not change
// the main blocks or any other number. The numbers of factors are over the two seeds
// and T3: in the main setting SCALE leads by 10 (7 + 6) / 2 - 50 = 15 points, and in
// the varied one by 40.
func TestFactors(t *testing.T) {
	all := factorCells(t)
	table := ofCells(t, all)
	plain := ofCells(t, slices.DeleteFunc(slices.Clone(all), func(c results.Cell) bool {
		return c.Spec.PlannerNoise == 1 || c.Spec.Clip == "none" || c.Spec.Temperature == 0.5
	}))
	for _, n := range plain.Numbers {
		if d := cmp.Diff(n, table.Find(*n), cmpopts.IgnoreFields(Number{}, "How")); d != "" {
			t.Errorf("%s (-without factors +with):\n%s", n.Selector(), d)
		}
	}
	main := MainBlocks(table.Blocks)
	if len(table.Groups) != 1 || table.Groups[0].Name != "" || len(main) != 3 {
		t.Fatalf("%d groups, %d main blocks", len(table.Groups), len(main))
	}
	for i, b := range main {
		if b.Place != plain.Blocks[i].Place {
			t.Errorf("block %+v, without factors %+v", b.Place, plain.Blocks[i].Place)
		}
	}
	for solver, varied := range map[string]string{"cem": "planner noise 1", "icem": "clip none", "mppi": "stock temperature"} {
		for what, want := range map[string]struct {
			name              string
			scale, difference float64
		}{FactorMain: {"the main setting", 65, 15}, Factor: {varied, 90, 40}} {
			at := Place{Task: "tworoom", Solver: solver, Tier: "T3", Settings: varied}
			near(t, what+" LeWM", *find(t, table, Number{What: what + "_success", Place: at, Of: arm(lewm)}).Value, 50, 1e-9)
			near(t, what+" SCALE", *find(t, table, Number{What: what + "_success", Place: at, Of: arm(scale)}).Value, want.scale, 1e-9)
			near(t, what+" difference", *find(t, table, Number{What: what + "_difference", Place: at}).Value, want.difference, 1e-9)
			if n := find(t, table, Number{What: what + "_seeds", Place: at}); *n.Value != 2 || !slices.Equal(n.Notes, []string{want.name}) {
				t.Errorf("%s, %s: %v seeds, named %q", solver, what, *n.Value, n.Notes)
			}
		}
	}
	s := find(t, table, Number{What: SeedDiff, Place: Place{Task: "tworoom"}, Of: arm(scale), Minus: arm(lewm)}).How.(*Seeds)
	if !slices.Equal(s.Solvers, PaperSolvers) || !slices.Equal(s.Seeds, []int{1, 2, 3}) || fmt.Sprintf("%.6f", s.Points) != "[20.000000 10.000000 20.000000]" {
		t.Errorf("by seed: %+v", s)
	}
	if n := find(t, table, Number{What: Shares[0], Place: main[0].Place.At("T3"), Of: arm(scale), Minus: arm(lewm)}); n.N != 2 {
		t.Errorf("shares of %d seeds", n.N)
	}
	for _, w := range table.Warnings {
		if strings.Contains(w, "planner noise 1") {
			t.Errorf("warning %q", w)
		}
	}
}

func TestNothingToInfer(t *testing.T) {
	for _, c := range []struct {
		name string
		c    results.Contents
		want string
	}{
		{"empty", results.Contents{}, "holds no evaluation cells (hint:"},
		{"only torn", results.Contents{Torn: []string{"reading cell x.json: torn"}}, "unusable: reading cell x.json: torn"},
		{"only random", results.Contents{Cells: resultstest.Cells(t, resultstest.HandPlan[len(resultstest.HandPlan)-1:], nil)}, "random actions and policies only (hint:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Infer(&c.c, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestSingleSetAndMissingArm(t *testing.T) {
	var plans []plan
	for _, x := range resultstest.HandPlan {
		if x.Method != aux {
			plans = append(plans, p(x.Method, x.Tier, x.Hits[0]))
		}
	}
	table := ofPlans(t, plans, nil)
	if n, s := scoreAt(t, table, table.Blocks[0], lewm, "T1"); !math.IsNaN(s.SD) || n.SD != nil || *n.Value != 80 {
		t.Errorf("one set: %v with SD %v, want 80 and none", *n.Value, s.SD)
	}
	text := strings.Join(table.Warnings, "\n")
	for _, want := range []string{"one evaluation set", "no cells of Aux", "10 episodes a set", "one training seed", "no training metrics", "no clips"} {
		if !strings.Contains(text, want) {
			t.Errorf("warnings do not say %q:\n%s", want, text)
		}
	}
}

// Three equal averages, each with p, have 3 p by Holm. The floor of random actions is
// in the blocks of all solvers, although it was evaluated once.
func TestSeveralBlocks(t *testing.T) {
	cells := resultstest.Cells(t, resultstest.HandPlan, nil)
	for _, solver := range []string{"icem", "mppi"} {
		for _, c := range resultstest.Cells(t, resultstest.HandPlan[:9], nil) {
			c.ID, c.Spec.Solver = c.ID+solver, solver
			cells = append(cells, c)
		}
	}
	table := ofCells(t, cells)
	if len(table.Blocks) != 3 {
		t.Fatalf("%d blocks, want one a solver", len(table.Blocks))
	}
	for _, b := range table.Blocks {
		if !slices.Contains(b.Names(), arm(random)) {
			t.Errorf("%s has no random actions", b.Title())
		}
		d := b.Headline().Mean
		near(t, "Holm over three blocks", *d.HolmP, 3*d.P, 1e-12)
	}
}

// TestPrecisions compares each arm that was planned in both precisions with itself, over the
// tiers that it has in both. The cells in bf16 are the main ones, and the folder is one group.
func TestPrecisions(t *testing.T) {
	planned := func(plans []resultstest.Plan, precision string) []results.Cell {
		return resultstest.Cells(t, plans, func(c *results.Cell) {
			if c.Spec.Solver != "" {
				c.Spec.Precision = precision
			}
		})
	}
	cells := append(planned(resultstest.HandPlan, bf16), planned([]resultstest.Plan{resultstest.P(lewm, "T3", 6, 7, 8)}, fp32)...)
	table := ofCells(t, cells)
	of := table.Where(PrecisionDiff, func(*Number) bool { return true })
	// LeWM at T3 solves 7, 7 and 8 of ten in bf16, 6, 7 and 8 in fp32: one episode of 30 differs.
	if len(table.Groups) != 1 || len(of) != 1 || of[0].Of != arm(lewm) || of[0].Tier != "T3" || of[0].N != 30 {
		t.Fatalf("%d groups, %+v", len(table.Groups), of)
	}
	near(t, "difference", *of[0].Value, 100./30, 1e-9)
	if b := table.Blocks[0]; b.Main != nil || b.Settings != "" || len(b.Arms) < 3 {
		t.Errorf("the main block is %+v", b.Place)
	}
}
