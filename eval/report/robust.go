package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/stats"
	"scalewm/eval/words"
)

// robust returns the sections on what the paper does not say: how much its comparison
// depends on the training seed, on the rules of the evaluation and on starts that already
// meet the goal, and how many seeds and episodes an effect needs.
func (r *Report) robust() []doc.Section {
	g := r.Groups[0]
	out := section(doc.Section{Title: "What the paper does not say", Anchor: "robust", Level: 2, Nav: "Robustness"},
		doc.Text{Body: "How much the comparison depends on the training seed, on the rules of the evaluation and on starts that need no plan, and how many seeds and episodes an effect needs."})
	add := func(title, name string, parts ...doc.Part) {
		out = append(out, section(doc.Section{Title: title, Anchor: "robust-" + name, Level: 3, Fold: r.folded() && name != "seeds"}, parts...)...)
	}
	add("Training seeds as the unit", "seeds", r.seedTable(g), r.seedCounts(g), r.seedGap(g))
	add("How many seeds and episodes an effect needs", "power", r.powerTable(g))
	out = append(out, r.temperature()...)
	add("Where the variance comes from", "sources", r.sourceTable(g))
	add("One factor at a time", "factors", r.factorTable(), r.precisionTable(), r.tierReadings(), r.factorGaps())
	add("Without starts that are solved already", "presolved", r.freshTable())
	return out
}

// seedTable has the difference of each training seed. It is the answer to whether a
// method is better than another; a difference of two checkpoints may be due to the luck
// of a seed.
func (r *Report) seedTable(g infer.Group) doc.Table {
	// list is a column of words about the seeds behind a number.
	list := func(head string, say func(*infer.Seeds) string) column {
		return number(head, infer.SeedDiff, func(n *infer.Number) doc.Field { return doc.Words(say(n.How.(*infer.Seeds))) })
	}
	v := r.view("seeds", "Differences in points by training seed, averaged over the solvers and tiers that all seeds have; mean, standard deviation and Student's interval over seeds, which covers the luck of training. Split and order of batches depend on the seed, and here the initial weights do too. The authors' seeds 3073 and 3074 are in their repository, not in the paper.",
		comparison, task, source, number("Mean", infer.SeedDiff, points), number("95 % interval", infer.SeedDiff, interval), number("SD", infer.SeedDiff, sd), list("Solvers", func(s *infer.Seeds) string { return words.Solvers(s.Solvers) }),
		list("Seeds", func(s *infer.Seeds) string {
			return strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Seeds), " ", ", "), "[]")
		}),
		list("Difference by seed", func(s *infer.Seeds) string { return listed(s.Points).Text }))
	for _, row := range r.rows(infer.SeedDiff, g.Name) {
		v.both(row)
	}
	return v.Table
}

// seedCounts counts, for each training seed, the averages of a task and solver in which
// a learned method is above the baseline.
func (r *Report) seedCounts(g infer.Group) doc.Table {
	v := r.view("seed-counts", "Averages of a task and a solver that the first method leads, by training seed. The paper's count is that of seed 3072; the others are counted in its authors' files.",
		comparison, source, text("Seed", func(n infer.Number) string { return strconv.Itoa(*n.Seed) }), number("Averages led", "averages_led", whole), number("of", "averages_led", count))
	v.Fold = "Averages led, by training seed"
	for _, c := range infer.ArmPairs(g.Blocks) {
		if c[0].Floor() || c[1].Method != r.Baseline.Method {
			continue
		}
		// The published counts have the source Paper for one seed and Authors for the
		// others, so "not ours" selects them.
		of := func(source string) []*infer.Number {
			return r.Where("averages_led", func(n *infer.Number) bool {
				return n.Of == c[0] && n.Minus == c[1] && n.Seed != nil && (n.Source == infer.Ours) == (source == infer.Ours) && (n.Source != infer.Ours || n.Settings == g.Name)
			})
		}
		ours := of(infer.Ours)
		for _, n := range ours {
			v.row(row(n))
		}
		for _, n := range of(infer.Authors) {
			if len(ours) > 0 {
				v.Rows = append(v.Rows, doc.Mute(v.fields(row(n))))
			}
		}
	}
	return v.Table
}

// seedGap returns a note if the folder has only one training seed.
func (r *Report) seedGap(g infer.Group) doc.Text {
	first := -1
	for _, row := range r.rows(infer.SeedDiff, g.Name) {
		row.What = infer.SeedDiff
		n := r.Find(row)
		if n.N > 1 {
			return doc.Text{}
		}
		first = n.How.(*infer.Seeds).Seeds[0]
	}
	if first < 0 || len(r.Outside()) > 0 {
		return doc.Text{}
	}
	return doc.Text{Style: doc.Commands, Body: "The folder has one training seed, so there is no interval over seeds. This command adds two.",
		Items: []doc.Item{{Text: r.reproduce(r.own(), fmt.Sprintf("--seeds %d,%d,%d", first, first+1, first+2))}}}
}

// powerTable has the numbers of episodes and seeds that an effect needs, by which a
// study can be planned before it is run.
func (r *Report) powerTable(g infer.Group) doc.Table {
	columns := []column{comparison, task, source, number("SD of seeds", "sd_of_seeds", rate), number("of sets", "sd_of_sets", rate), number("of episodes", "sd_of_episodes", rate), number("rest", "sd_of_the_rest", rate)}
	// The first of several columns names the unit, and the others only the effect.
	head := func(i int, of string) string {
		if s := fmt.Sprintf("for %d", infer.Effects[i]); i > 0 {
			return s
		}
		return fmt.Sprintf("%s for %d", of, infer.Effects[i])
	}
	for i, effect := range infer.Effects {
		columns = append(columns, number(head(i, "Episodes"), infer.EpisodesFor(effect), grouped))
	}
	for i, effect := range infer.Effects {
		columns = append(columns, number(head(i, "Seeds"), infer.SeedsFor(effect), func(n *infer.Number) doc.Field {
			if infer.Or(n.Value) >= infer.MostSeeds {
				return doc.Number(fmt.Sprintf("≥ %d", infer.MostSeeds), infer.MostSeeds)
			}
			return whole(n)
		}))
	}
	v := r.view("power", fmt.Sprintf("What it takes to find a difference of 8, 4 and 2 points with a power of %.0f %% at 5 %%. The standard deviations, in points, are those of the difference between training seeds, between evaluation sets, between episodes, and the rest within one episode and seed (with one seed it is part of that between episodes). "+
		"Episodes: to compare one pair of checkpoints, which says nothing about other seeds. Seeds: each with as many episodes as here, compared by Student's test.", 100*stats.Goal), columns...)
	for _, row := range r.rows(infer.SeedDiff, g.Name) {
		v.both(row)
	}
	return v.Table
}

// sourceTable has the shares of the variance of a difference by source.
func (r *Report) sourceTable(g infer.Group) doc.Table {
	columns := []column{comparison, task, solver, tier, number("Seeds", infer.Shares[0], count), number("Episodes", "sd_in_an_episode", count), number("SD, points", "sd_in_an_episode", rate)}
	for i, head := range []string{"training seed, %", "set, %", "episode, %", "seed by episode, %", "planner, %"} {
		columns = append(columns, number(head, infer.Shares[i], rate))
	}
	v := r.view("sources", "Where the difference of two methods in one episode comes from: its standard deviation and the shares of its variance. It needs checkpoints that planned the same episodes with two draws of the planner's noise.", columns...)
	for _, n := range r.Where("sd_in_an_episode", func(n *infer.Number) bool {
		return slices.ContainsFunc(g.Blocks, func(b *infer.Block) bool { return b.Place == n.Place.At("") })
	}) {
		v.row(row(n))
	}
	return v.Table
}

// factorTable compares the settings of each task and solver. Main blocks that differ in
// more than factors come first, then each main block with its variations.
func (r *Report) factorTable() doc.Table {
	arms := slices.DeleteFunc(infer.ArmsOf(r.Blocks), results.Arm.Floor)
	// Rows of the three kinds of numbers have the same columns, and are merged in one table.
	table := func(what string) *view {
		columns := []column{task, solver, number("Evaluated with", what+"_seeds", func(n *infer.Number) doc.Field { return doc.Words(n.Notes[0]) }), text("Tiers", func(n infer.Number) string { return n.Tier }), number("Seeds", what+"_seeds", whole)}
		for _, a := range arms {
			columns = append(columns, column{words.Arm(a), func(t *infer.Table, row infer.Number) doc.Field {
				row.What, row.Of = what+"_success", a
				return shown(t.Find(row), rate)
			}})
		}
		return r.view("factors", "The same task and solver under settings that differ as named; the main setting has the default planner noise, clips and temperature. Success (%) averaged over tiers and training seeds, and the most important paired difference of each block. "+
			"A main setting and one that varies it have a pair of rows, over the tiers, seeds and sets that both were evaluated on. Rows are not paired with each other: their episodes or rules differ.",
			append(columns, number("Difference", what+"_difference", points), number("95 % interval", what+"_difference", interval))...)
	}
	all, main, varied := table(infer.FactorAll), table(infer.FactorMain), table(infer.Factor)
	for _, n := range r.Where(infer.FactorAll+"_difference", func(*infer.Number) bool { return true }) {
		all.row(factorRow(n))
	}
	// Several variations of one main block often have the same row of the main block. Show
	// it once, before all of them.
	var last []doc.Field
	for _, n := range r.Where(infer.Factor+"_difference", func(*infer.Number) bool { return true }) {
		fields := main.fields(factorRow(n))
		if !slices.EqualFunc(fields, last, func(x, y doc.Field) bool { return x.Text == y.Text }) {
			all.Rows, last = append(all.Rows, fields), fields
		}
		all.Rows = append(all.Rows, varied.fields(factorRow(n)))
	}
	return all.Table
}

// factorRow describes the numbers of one side of a comparison of factors.
func factorRow(n *infer.Number) infer.Number { return infer.Number{Source: n.Source, Place: n.Place} }

// precisionTable compares each arm that was planned in bf16 and in fp32 with itself.
func (r *Report) precisionTable() doc.Table {
	v := r.view("precisions", "Plans in bf16 compared with plans in fp32: success in bf16 minus that of the same model on the same episodes in fp32, in points.",
		task, solver, tier, method, number("Episodes", infer.PrecisionDiff, count), number("Difference", infer.PrecisionDiff, points), number("95 % interval", infer.PrecisionDiff, interval), number("p", infer.PrecisionDiff, pvalue))
	for _, n := range r.Where(infer.PrecisionDiff, func(*infer.Number) bool { return true }) {
		v.row(row(n))
	}
	return v.Table
}

// tierReadings compares T2 as the authors ran it (150 candidates, 15 iterations) with
// T2 as the paper prints it (100 and 20).
func (r *Report) tierReadings() doc.Table {
	var of *infer.Block
	v := r.view("tier-readings", "Tier T2 as the authors ran it (150 candidates, 15 iterations) and as the paper prints it (100 and 20, here T2p): success (%).",
		text("Task, solver", func(infer.Number) string { return of.Title() }), text("Method", func(n infer.Number) string { return of.Label(infer.Trained{Arm: n.Of, Seed: *n.Seed}) }),
		at("T2", infer.Success, "T2", spread), at("T2p", infer.Success, "T2p", spread), number("Difference", infer.Printed, points))
	for _, of = range r.Blocks { // of is the variable that the columns above read
		for _, a := range of.Arms {
			n := infer.Number{What: infer.Printed, Place: of.Place, Of: a.Arm, Seed: &a.Seed}
			if r.Find(n) != nil {
				v.row(n)
			}
		}
	}
	return v.Table
}

// freshTable repeats the headline difference of each main block without the starts that
// already meet the goal.
func (r *Report) freshTable() doc.Table {
	const without = "difference_without_pre_solved"
	v := r.view("presolved", "A start that meets the goal before the first step counts as a success of every method. Differences in points with all starts, and without those.",
		text("Task, solver", func(n infer.Number) string { return (&infer.Block{Place: n.Place.At("")}).Title() }), comparison, tier, number("Solved already, %", infer.PreSolved, rate), number("Episodes", infer.Diff, count), number("Difference", infer.Diff, points),
		number("Without: episodes", without, count), number("Difference", without, points), number("95 % interval", without, interval))
	for _, b := range infer.MainBlocks(r.Blocks) {
		for _, n := range r.Where(without, func(n *infer.Number) bool { return n.Place.At("") == b.Place }) {
			v.row(row(n))
		}
	}
	return v.Table
}
