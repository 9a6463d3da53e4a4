package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/stats"
	"scalewm/eval/words"
	"scalewm/model"
)

// This file shows searches of which a component is replaced (see infer's decompose.go).

// effectNames are the names of the effects for readers.
var effectNames = map[string]string{infer.DynamicsEffect: "dynamics", infer.CostEffect: "cost", infer.Interaction: "interaction", infer.DynamicsMinusCost: "dynamics − cost",
	infer.PlanningGap: "planning gap", infer.EncodingEffect: "encoding", infer.SearchEffect: "search"}

// decomposition returns the section on why planning on a task succeeds or fails: what the
// intervals say, the effects as a figure, and tables of success and of effects.
func (r *Report) decomposition(task string) []doc.Section {
	said := doc.Text{Style: "plain"}
	var rows []doc.ForestRow
	var tables []doc.Part
	for _, b := range r.Blocks {
		if b.Task != task || len(b.Replaced) == 0 {
			continue
		}
		for _, tier := range b.TierNames() {
			for _, arm := range b.Decomposed() {
				said.Items = append(said.Items, r.largerEffect(b, arm, tier)...)
			}
			said.Items = append(said.Items, r.reached(b, tier)...)
		}
		effects := r.effects(b)
		for _, n := range effects {
			rows = append(rows, r.effectRow(b, n))
		}
		tables = append(tables, r.crossedTable(b), effectTable(b, effects))
	}
	figure := doc.Figure{Caption: "Effects of replacing components of a search, in points of success, with 95 % intervals over training seeds or, with one, over episodes.",
		Panels: forestFigure(words.Task(task)+": effects of replacing components of a search with 95 % intervals", rows, 1)}
	return section(doc.Section{Title: "Why planning succeeds or fails", Anchor: task + "-decomposition", Level: 3}, slices.Concat([]doc.Part{said, figure}, tables)...)
}

// effects returns the effects in a block, by method, tier and kind.
func (r *Report) effects(b *infer.Block) (out []*infer.Number) {
	for _, arm := range append(b.Decomposed(), results.Arm{Method: model.OracleState}) {
		for _, tier := range b.TierNames() {
			for _, what := range infer.Decomposition {
				if n := r.Find(infer.Number{What: what, Place: b.Place.At(tier), Of: arm}); n != nil {
					out = append(out, n)
				}
			}
		}
	}
	return out
}

// effectRow returns the line of an effect in the figure.
func (r *Report) effectRow(b *infer.Block, n *infer.Number) doc.ForestRow {
	row := r.forestRow(n, effectNames[n.What]+" at "+n.Tier)
	row.Group, row.Columns = words.Arm(n.Of)+", "+planner(b), row.Columns[:2] // no p
	return row
}

// planner names the solver of a block, and its settings.
func planner(b *infer.Block) string {
	return strings.TrimPrefix(b.Title(), words.Task(b.Task)+", ")
}

// crossedTable has the success of the searches: dynamics by costs.
func (r *Report) crossedTable(b *infer.Block) doc.Table {
	t := doc.Table{Anchor: anchorOf(b.Place) + "-decomposition", Head: []string{"Method", "Tier", "Dynamics"},
		Caption: b.Title() + ": success (%) of searches with replaced dynamics or cost, with 95 % intervals within 0 to 100, each on all of its episodes. The simulator executes every candidate; the cost is the squared distance from the goal in latents, in the state that a linear probe reads from latents, or in another metric."}
	costs := costsOf(b)
	for _, c := range costs {
		t.Head = append(t.Head, costName(c))
	}
	for _, arm := range b.Decomposed() {
		for _, tier := range b.TierNames() {
			for _, simulator := range []bool{false, true} {
				row := []doc.Field{doc.Words(words.Arm(arm)), doc.Words(tier), doc.Words(map[bool]string{false: "model", true: "simulator"}[simulator])}
				for _, c := range costs {
					c.Simulator = simulator
					row = append(row, shown(r.successWith(b, arm, c, tier), func(n *infer.Number) doc.Field {
						f := rate(n)
						if n.Lo != nil {
							f.Text += " (" + rateInterval(n).Text + ")"
						}
						return f
					}))
				}
				if slices.ContainsFunc(row[3:], func(f doc.Field) bool { return !f.Muted }) {
					t.Rows = append(t.Rows, row)
				}
			}
		}
	}
	return t
}

// costsOf returns the costs of a block's searches, each once.
func costsOf(b *infer.Block) (costs []model.Replacement) {
	order := []model.Metric{model.LatentDistance, model.ProbedState, model.StateDistance, model.WhitenedLatents, model.LeadingComponents}
	for _, c := range append([]results.Arm{{}}, infer.NamesOf(b.Replaced)...) {
		cost := c.Replacement()
		if cost.Simulator = false; !slices.Contains(costs, cost) {
			costs = append(costs, cost)
		}
	}
	slices.SortFunc(costs, func(x, y model.Replacement) int {
		return cmp.Or(slices.Index(order, x.Metric)-slices.Index(order, y.Metric), x.K-y.K)
	})
	return costs
}

// costName names a cost for readers.
func costName(r model.Replacement) string {
	switch r.Metric {
	case model.LatentDistance:
		return "Latent distance"
	case model.ProbedState:
		return "Probed state"
	case model.StateDistance:
		return "Task state"
	case model.WhitenedLatents:
		return "Whitened latents"
	}
	return fmt.Sprintf("%d leading components", r.K)
}

// successWith returns the success of an arm's search with components replaced, or nil.
func (r *Report) successWith(b *infer.Block, arm results.Arm, of model.Replacement, tier string) *infer.Number {
	for _, a := range append([]results.Arm{arm}, infer.NamesOf(b.Replaced)...) {
		if a == infer.ReplacedIn(arm, of) && a.Replacement() == of {
			return r.Success(b, a, tier)
		}
	}
	return nil
}

// effectTable has the effects in a block.
func effectTable(b *infer.Block, effects []*infer.Number) doc.Table {
	t := doc.Table{Anchor: anchorOf(b.Place) + "-effects", Head: []string{"Method", "Tier", "Effect", "Points", "95 % interval", "Over", "Notes"},
		Caption: b.Title() + ": effects in points of success, paired by episode. Dynamics: the simulator in place of the predictor, averaged over both costs. Cost: the probed state in place of the latent distance, averaged over both dynamics. Interaction: the effect of the cost in the simulator minus that with the model. " +
			"Planning gap: the simulator with the method's own cost minus the method, the Counterfactual Planning Gap of wmel. Encoding: the task state in place of the probed one, in the simulator. " +
			"Search: 100 minus the success with simulator and task state, a reference and not an upper bound, since the distance in the state can be a bad cost near walls. Negative effects are shown as they are."}
	for _, n := range effects {
		t.Rows = append(t.Rows, []doc.Field{doc.Words(words.Arm(n.Of)), doc.Words(n.Tier), doc.Words(effectNames[n.What]), points(n), interval(n), doc.Words(words.Count(n.N, n.Unit)), doc.Words(strings.Join(n.Notes, "; "))})
	}
	return t
}

// largerEffect says in one sentence what the intervals show about the dynamics and the cost
// of a method at a tier. Which helps more is decided by the interval of their difference.
func (r *Report) largerEffect(b *infer.Block, arm results.Arm, tier string) []doc.Item {
	find := func(what string) *infer.Number {
		return r.Find(infer.Number{What: what, Place: b.Place.At(tier), Of: arm})
	}
	dynamics, cost, larger := find(infer.DynamicsEffect), find(infer.CostEffect), find(infer.DynamicsMinusCost)
	if dynamics == nil {
		dynamics = find(infer.PlanningGap)
	}
	var parts []string
	for _, x := range []struct {
		*infer.Number
		say string
	}{{dynamics, "the simulator in place of the predictor"}, {cost, "the probed state in place of the latent distance"}} {
		if x.Number != nil && x.Value != nil {
			parts = append(parts, "with "+x.say+" "+changeOf(x.Number))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	s := fmt.Sprintf("%s, %s at %s: %s.", words.Arm(arm), planner(b), tier, strings.Join(parts, "; "))
	if cost != nil && larger != nil && (sign(dynamics) != 0 || sign(cost) != 0) {
		s += map[int]string{1: " Replacing the dynamics helps more than replacing the cost", 0: " The data do not show which of the two helps more", -1: " Replacing the cost helps more than replacing the dynamics"}[sign(larger)] +
			fmt.Sprintf(" (difference %s, %s).", words.Signed(infer.Or(larger.Value)), bounds(larger))
	}
	return []doc.Item{{Text: s}}
}

// sign returns the sign of an effect whose interval excludes 0, and otherwise 0.
func sign(n *infer.Number) int {
	switch {
	case infer.Or(n.Lo) > 0:
		return 1
	case infer.Or(n.Hi) < 0:
		return -1
	}
	return 0
}

// changeOf says how success changes.
func changeOf(n *infer.Number) string {
	if sign(n) == 0 {
		return fmt.Sprintf("the data do not show that success changes (%s, %s)", words.Signed(*n.Value), bounds(n))
	}
	return fmt.Sprintf("success %s by %s points (%s)", map[int]string{1: "rises", -1: "falls"}[sign(n)], words.Points(math.Abs(*n.Value)), bounds(n))
}

// reached says whether the baseline with the probed state as cost reaches the block's first
// other method at a tier. If it does not, the same search in the simulator tells whether the
// dynamics are the reason.
func (r *Report) reached(b *infer.Block, tier string) []doc.Item {
	c := b.Headline()
	if c == nil || c.Minus != b.Baseline {
		return nil
	}
	against := func(of model.Replacement) (n *infer.Number, name string) {
		arm := infer.ReplacedIn(b.Baseline, of)
		n = r.Find(infer.Number{What: infer.Diff, Place: b.Place.At(tier), Of: arm, Minus: c.Of})
		return r.overSeeds(n), words.Arm(arm)
	}
	n, probe := against(model.Replacement{Metric: model.ProbedState})
	if n == nil || n.Value == nil {
		return nil
	}
	target, says := words.Arm(c.Of), func(n *infer.Number) string {
		return fmt.Sprintf("(%s, %s)", words.Signed(*n.Value), bounds(n))
	}
	text := fmt.Sprintf("%s at %s: %s", planner(b), tier, probe)
	switch reaches(n) {
	case stats.Undecided:
		return []doc.Item{{Text: text + fmt.Sprintf(" may or may not reach %s %s.", target, says(n))}}
	case stats.Equivalent, stats.NonInferior:
		return []doc.Item{{Text: text + fmt.Sprintf(" reaches %s within %d points %s, so a better cost suffices.", target, stats.Margin, says(n))}}
	}
	text += fmt.Sprintf(" falls short of %s %s", target, says(n))
	oracle, name := against(model.Replacement{Simulator: true, Metric: model.ProbedState})
	switch {
	case oracle == nil || oracle.Value == nil:
		text += "."
	case reaches(oracle) == stats.Undecided:
		text += fmt.Sprintf("; whether %s reaches it is undecided %s.", name, says(oracle))
	case reaches(oracle) == stats.Inferior:
		text += fmt.Sprintf(" and so does %s %s, so the latents or their probe are a limit.", name, says(oracle))
	default:
		text += fmt.Sprintf(" and %s reaches it %s, so the dynamics are the limit.", name, says(oracle))
	}
	return []doc.Item{{Text: text}}
}

// reaches compares the interval of a difference with the margin of equivalence.
func reaches(n *infer.Number) stats.Verdict {
	return stats.Interval{Lo: infer.Or(n.Lo), Hi: infer.Or(n.Hi)}.Within(stats.Margin)
}
