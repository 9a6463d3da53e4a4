package infer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"scalewm/dataset/rng"
	"scalewm/eval/results"
	"scalewm/eval/stats"
	"scalewm/eval/words"
	"scalewm/model"
)

// Effects of replacing components of a method's search, in points of success at a tier of a
// block (docs/sources.md#decomposition). The simulator replaces the model's dynamics, and the
// state that a linear probe reads from latents replaces the distance of latents as cost.
const (
	DynamicsEffect    = "dynamics_effect"     // of the simulator, averaged over both costs
	CostEffect        = "cost_effect"         // of the probed state, averaged over both dynamics
	Interaction       = "interaction"         // effect of the cost in the simulator minus that with the model
	DynamicsMinusCost = "dynamics_minus_cost" // DynamicsEffect minus CostEffect
	PlanningGap       = "planning_gap"        // of the simulator, with the method's own cost
	EncodingEffect    = "encoding_effect"     // of the task state instead of the probed one, in the simulator
	SearchEffect      = "search_effect"       // 100 minus the success with simulator and task state; of that arm
)

// Decomposition are these kinds of numbers, in the order of tables.
var Decomposition = []string{DynamicsEffect, CostEffect, Interaction, DynamicsMinusCost, PlanningGap, EncodingEffect, SearchEffect}

// The searches that are compared.
var (
	own          = model.Replacement{}
	probed       = model.Replacement{Metric: model.ProbedState}
	oracleLatent = model.Replacement{Simulator: true}
	oracleProbe  = model.Replacement{Simulator: true, Metric: model.ProbedState}
	oracleState  = model.Replacement{Simulator: true, Metric: model.StateDistance}
)

// contrast is a sum of the success of searches, with weights that add up to 0. The first
// search has a model.
type contrast struct {
	what  string
	terms []term
}

type term struct {
	model.Replacement
	weight float64
}

var contrasts = []contrast{
	{DynamicsEffect, []term{{own, -0.5}, {oracleLatent, 0.5}, {probed, -0.5}, {oracleProbe, 0.5}}},
	{CostEffect, []term{{own, -0.5}, {oracleLatent, -0.5}, {probed, 0.5}, {oracleProbe, 0.5}}},
	{Interaction, []term{{own, 1}, {oracleLatent, -1}, {probed, -1}, {oracleProbe, 1}}},
	{DynamicsMinusCost, []term{{oracleLatent, 1}, {probed, -1}}},
	{PlanningGap, []term{{own, -1}, {oracleLatent, 1}}},
	{EncodingEffect, []term{{oracleProbe, -1}, {oracleState, 1}}},
}

// ReplacedIn returns the arm that searches like an arm with components replaced.
func ReplacedIn(arm results.Arm, r model.Replacement) results.Arm {
	if r == oracleState {
		return results.Arm{Method: model.OracleState}
	}
	arm.Wrappers = r.String()
	return arm
}

// Decomposed returns the arms of whose searches the block has replacements, in the order of
// tables.
func (b *Block) Decomposed() (out []results.Arm) {
	for _, a := range b.Replaced {
		if arm, wrapped := a.Origin(); wrapped && !slices.Contains(out, arm) {
			out = append(out, arm)
		}
	}
	slices.SortFunc(out, results.CompareArms)
	return out
}

// Contrast is the inference behind an effect: a weighted sum of the success of several arms,
// paired by episode.
type Contrast struct {
	Weights  map[string]float64 `json:"weights"`  // of the arms, by name
	Seeds    []int              `json:"seeds"`    // training seeds
	Points   []float64          `json:"points"`   // Points[i] is the effect with Seeds[i]
	Sets     []string           `json:"sets"`     // sets with episodes that all arms have
	Episodes int                `json:"episodes"` // with one seed, the fewest of several
	Interval string             `json:"interval,omitempty"`
}

// decompose adds these effects for all methods of a block and tiers at which the searches
// that an effect needs exist.
func (t *Table) decompose(b *Block, o Options) {
	for _, tier := range b.TierNames() {
		for _, arm := range b.Decomposed() {
			for _, c := range contrasts {
				if n, ok := c.of(b, arm, tier, o); ok {
					t.add(n)
				}
			}
		}
		arm := ReplacedIn(results.Arm{}, oracleState)
		if s := t.Success(b, arm, tier); s != nil {
			n := s.put(Estimate{100 - Or(s.Value), 100 - Or(s.Hi), 100 - Or(s.Lo)})
			n.What, n.Seed, n.SD = SearchEffect, nil, nil
			t.add(n)
		}
	}
}

// of returns the contrast of an arm's searches at a tier. It returns false if one of them does
// not exist there. The number has no value, and the reasons as notes, if they cannot be paired.
func (c contrast) of(b *Block, arm results.Arm, tier string, o Options) (n Number, ok bool) {
	n = Number{What: c.what, Place: b.Place.At(tier), Of: arm, Unit: "episode"}
	p := pairing{Block: b, arm: arm, tier: tier, Options: o, kinds: map[string]bool{}}
	how := &Contrast{Weights: map[string]float64{}}
	for _, x := range c.terms {
		how.Weights[ReplacedIn(arm, x.Replacement).String()] = x.weight
	}
	first := b.sides[ReplacedIn(arm, c.terms[0].Replacement)]
	if first == nil {
		return n, false
	}
	var bySet [][]float64 // of the last seed
	var last *table
	var without []string
	for _, seed := range first.seeds() {
		points, t := p.pair(c, seed)
		if t == nil {
			without = append(without, fmt.Sprint(seed))
			continue
		}
		var sets []string
		if sets, bySet = inSets(points); len(points) == 0 {
			continue // refused
		}
		last, how.Sets = t, union(how.Sets, sets)
		if how.Seeds, how.Points = append(how.Seeds, seed), append(how.Points, 100*mean(slices.Concat(bySet...))); how.Episodes == 0 || len(points) < how.Episodes {
			how.Episodes = len(points)
		}
	}
	n.Notes = slices.Concat(slices.Sorted(maps.Keys(p.kinds)), p.comparison.Refused)
	if len(how.Seeds) == 0 {
		return n, len(p.comparison.Refused) > 0
	}
	if len(without) > 0 {
		n.Notes = append(n.Notes, "without training seed "+strings.Join(without, ", ")+", which not all arms have")
	}
	n.Notes = append(n.Notes, p.fewer(how)...)
	n.From = p.from(how)
	if n.How = how; len(how.Seeds) > 1 {
		n = n.overSeeds(how.Points)
		how.Interval = "student"
		return n, true
	}
	n.N, n.Value = how.Episodes, some(how.Points[0])
	c.estimate(&n, how, bySet, last)
	return n, true
}

// contrastDraws resamples the episodes of all contrasts of more than two searches.
var contrastDraws = stats.NewResampler(func() *rand.Rand { return rng.Stream("report decomposition") })

// estimate sets the interval over the episodes of one training seed: that of the difference
// of two arms, or of a bootstrap of episodes. A bootstrap of few differing episodes would be
// too narrow, so then there is none.
func (c contrast) estimate(n *Number, how *Contrast, bySet [][]float64, last *table) {
	iv := stats.Interval{}
	if len(c.terms) == 2 {
		d := last.row(n.Tier, []string{n.Tier}, 1)
		iv, how.Interval, n.P = stats.Interval{Lo: d.Lo, Hi: d.Hi}, d.Interval, some(d.P)
		if c.terms[0].weight < 0 {
			iv = stats.Interval{Lo: -d.Hi, Hi: -d.Lo}
		}
	} else {
		var halves []int // weights are halves
		for _, x := range slices.Concat(bySet...) {
			halves = append(halves, int(2*x))
		}
		if differing(halves) < fewPairs {
			n.Notes = append(n.Notes, fmt.Sprintf("no interval, since fewer than %d episodes change, or all alike", fewPairs))
			return
		}
		iv, how.Interval = contrastDraws.Bootstrap(bySet).Interval(0.95), Bootstrap
		iv.Lo, iv.Hi = 100*iv.Lo, 100*iv.Hi
	}
	n.Lo, n.Hi = some(iv.Lo), some(iv.Hi)
}

// pairing pairs the searches of a contrast.
type pairing struct {
	*Block
	arm  results.Arm
	tier string
	Options
	comparison Comparison
	kinds      map[string]bool // notes on kinds of device
}

// pair returns the contrast in each episode that all searches have with a training seed, and
// the pairs of the first search and the last. The table is nil if a search does not have the
// seed.
func (p *pairing) pair(c contrast, seed int) (points map[episode]float64, last *table) {
	sides := make([]*Side, len(c.terms))
	seeds := make([]int, len(c.terms))
	for i, x := range c.terms {
		arm := ReplacedIn(p.arm, x.Replacement)
		if sides[i], seeds[i] = p.sides[arm], seed; sides[i] == nil {
			return nil, nil
		}
		if sides[i].untrained {
			seeds[i] = sides[i].seeds()[0]
		}
		if len(sides[i].at(seeds[i], p.tier)) == 0 {
			return nil, nil
		}
	}
	points, in := map[episode]float64{}, map[episode]int{}
	p.comparison.A = sides[0].Name
	for i := 1; i < len(c.terms); i++ {
		p.comparison.B = sides[i].Name
		last = p.comparison.pair(sides[0], sides[i], p.tier, [][2]int{{seeds[0], seeds[i]}}, p.Options, p.kinds)
		// Since the weights add up to 0, the sum is one of differences from the first search.
		for e, f := range last.pairs {
			points[e] -= c.terms[i].weight * float64(f.diff())
			in[e]++
		}
	}
	maps.DeleteFunc(points, func(e episode, _ float64) bool { return in[e] < len(c.terms)-1 })
	return points, last
}

// inSets arranges values by set, in the order of sets and episodes.
func inSets(points map[episode]float64) (sets []string, bySet [][]float64) {
	for _, e := range slices.SortedFunc(maps.Keys(points), compareEpisodes) {
		if len(sets) == 0 || sets[len(sets)-1] != e.set {
			sets, bySet = append(sets, e.set), append(bySet, nil)
		}
		bySet[len(bySet)-1] = append(bySet[len(bySet)-1], points[e])
	}
	return sets, bySet
}

// fewer returns a note if the arm itself was evaluated on more episodes than the contrast.
func (p *pairing) fewer(how *Contrast) []string {
	side := p.sides[p.arm]
	if side == nil {
		return nil
	}
	all := 0
	for _, rows := range side.at(how.Seeds[0], p.tier) {
		all += len(rows)
	}
	if all <= how.Episodes {
		return nil
	}
	return []string{fmt.Sprintf("on %d of the %s of %s: %s", how.Episodes, words.Count(all, "episode"), words.Arm(p.arm), strings.Join(how.Sets, ", "))}
}

// from returns the ids of the cells behind a contrast.
func (p *pairing) from(how *Contrast) (out []string) {
	manifests := map[string]bool{"": true}
	for s, c := range p.cells {
		manifests[c.Spec.Manifest] = manifests[c.Spec.Manifest] || slices.Contains(how.Sets, s.set)
	}
	for s, c := range p.cells {
		if _, is := how.Weights[s.arm.String()]; is && s.tier == p.tier && (slices.Contains(how.Seeds, s.seed) || p.sides[s.arm].untrained) &&
			(slices.Contains(how.Sets, s.set) || c.Spec.Manifest != "" && manifests[c.Spec.Manifest]) {
			out = append(out, c.ID)
		}
	}
	return union(out)
}
