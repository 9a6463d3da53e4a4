package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// folded reports whether the page folds the details of tasks: there are several blocks.
func (r *Report) folded() bool { return len(r.Blocks) > 1 }

// tasks returns the details of each task: one section for each of its blocks, followed by
// why it comes about, what it costs, the training curves, the analyses of its checkpoints, and an episode to watch.
func (r *Report) tasks() (out []doc.Section) {
	for i, b := range r.Blocks {
		if i == 0 || r.Blocks[i-1].Task != b.Task {
			name := words.Task(b.Task)
			out = append(out, doc.Section{Title: name + " in detail", Anchor: anchorOf(infer.Place{Task: b.Task}), Level: 2, Nav: name})
		}
		out = append(out, r.block(b)...)
		if i == len(r.Blocks)-1 || r.Blocks[i+1].Task != b.Task {
			out = append(out, r.decomposition(b.Task)...)
			out = append(out, r.speed(b.Task)...)
			out = append(out, r.curves(b.Task)...)
			out = append(out, r.checkpoints(b.Task)...)
			out = append(out, r.films(b.Task)...)
		}
	}
	return out
}

// block returns the sections of a block: success by tier, paired differences, the scatter
// over sets or seeds, and steps to success.
func (r *Report) block(b *infer.Block) []doc.Section {
	anchor, key := anchorOf(b.Place), r.legend(infer.ArmsOf(r.Blocks))
	var spread, steps []template.HTML
	for i := range b.Tiers {
		spread, steps = append(spread, r.spreadFigure(b, i)), append(steps, r.stepsFigure(b, i))
	}
	title, dots := "Set by set", "One dot for each evaluation set, in the order of the sets; the bar is their mean."
	var seeds doc.Table
	if b.SeveralSeeds() {
		title, dots = "Seed by seed", "One dot for each training seed, in ascending order, or for each evaluation set of a method with one seed; the bar is their mean."
		seeds = r.seedsTable(b)
	}
	table, figure := doc.Part(r.successTable(b)), doc.Part(r.successFigure(b))
	// The page begins with the table of the only main block. Do not repeat it.
	if len(infer.MainBlocks(r.Blocks)) == 1 && b.Main == nil {
		table, figure = doc.Text{Body: "Success by tier is at the top of the page."}, doc.Text{}
	}
	out := section(doc.Section{Title: b.Title(), Anchor: anchor, Level: 3, Fold: r.folded()}, table, note("On these numbers", r.CostNotes(b)), seeds, figure)
	add := func(title, name string, parts ...doc.Part) {
		out = append(out, section(doc.Section{Title: title, Anchor: anchor + "-" + name, Level: 4}, parts...)...)
	}
	// Notes on pairs: what was left out of them, and why others could not be paired.
	notes := r.foreign(b)
	for _, c := range b.Pairs {
		for _, n := range slices.Concat(c.Notes, c.Refused) {
			notes = append(notes, words.Minus(c.Of, c.Minus)+": "+n)
		}
	}
	if len(b.Pairs) > 0 {
		add("Paired differences", "paired", doc.Figure{Panels: r.forest(b),
			Caption: "Same episodes, same planner noise, different model: each difference is taken episode by episode. In points, with 95 % intervals, over training seeds if there are several."},
			r.pairTable(b), note("On these pairs", notes))
	}
	add(title, "sets", doc.Figure{Caption: dots, Panels: spread})
	add("Steps to success", "steps", doc.Figure{Caption: "Share of the episodes that are solved within k environment steps.", Panels: steps, Legend: key})
	return out
}

// note returns remarks as a list under a title. It is empty if there are none.
func note(title string, remarks []string) doc.Text {
	t := doc.Text{Style: "note"}
	for _, n := range remarks {
		t.Title = title
		t.Items = append(t.Items, doc.Item{Text: n})
	}
	return t
}

// successFigure shows success against compute, with the list of tiers next to it.
func (r *Report) successFigure(b *infer.Block) doc.Figure {
	bands, tiers := "Bands are 95 % Wilson intervals of the pooled episodes.", doc.Text{Style: "plain", Title: "Tiers"}
	if b.SeveralSeeds() {
		bands = "Thin lines are training seeds."
	}
	for _, t := range b.Tiers {
		s := fmt.Sprintf("%s: %d candidates × %d iterations = %s rollouts a plan", t.Name, t.Candidates, t.Iterations, words.Thousands(t.Rollouts()))
		if t.PlanMillis > 0 {
			s += fmt.Sprintf(", %.0f ms", t.PlanMillis)
		}
		tiers.Items = append(tiers.Items, doc.Item{Text: s})
	}
	return doc.Figure{Caption: "Success against the planner's compute. " + bands, Panels: []template.HTML{r.computeFigure(b)}, Legend: r.legend(infer.ArmsOf(r.Blocks)), Aside: []doc.Text{tiers}}
}

// tierColumns returns a column of success for each of a block's tiers, and for their
// mean.
func tierColumns(b *infer.Block) (out []column) {
	for _, t := range b.TierNames() {
		out = append(out, at(t, infer.Success, t, spread))
	}
	return append(out, at("Mean", infer.Success, infer.Mean, spread))
}

// successTable is the paper's table: methods by tiers, mean ± SD over sets, or over
// training seeds if there are several.
func (r *Report) successTable(b *infer.Block) doc.Table {
	// A row with one seed shows the number of that seed, and others the mean over seeds. Both
	// have the key that the columns look for: with and without a seed.
	over := "mean ± SD (ddof 1) over %s of %s"
	if b.SeveralSeeds() {
		over = "mean ± SD (ddof 1) over training seeds, or with one seed over the sets; each seed on %s of %s"
	}
	v := r.view(anchorOf(b.Place), fmt.Sprintf("%s: success rate (%%), "+over+"; the last column averages the tiers. Bold marks the best of a column.", b.Title(), words.Count(len(b.Sets), "evaluation set"), words.Count(b.Tiers[0].Episodes, "episode"))+r.meanNote(b),
		append([]column{text("Method", func(n infer.Number) string {
			if seeds := len(b.SeedsOf(n.Of)); seeds > 1 {
				return fmt.Sprintf("%s, %d seeds", words.Arm(n.Of), seeds)
			}
			return words.Arm(n.Of)
		})}, tierColumns(b)...)...)
	for _, arm := range b.Names() {
		row := infer.Number{Place: b.Place, Of: arm}
		if seeds := b.SeedsOf(arm); len(seeds) == 1 {
			row.Seed = &seeds[0]
		}
		v.row(row)
		fields := v.Rows[len(v.Rows)-1]
		for i, tier := range append(b.TierNames(), infer.Mean) {
			n := r.Success(b, arm, tier)
			fields[1+i].Bold = n != nil && words.Points(*n.Value) == words.Points(r.best(b, tier))
		}
		if arm.Floor() {
			doc.Mute(fields)
		}
	}
	return v.Table
}

// seedsTable has the success of each training seed.
func (r *Report) seedsTable(b *infer.Block) doc.Table {
	v := r.view(anchorOf(b.Place)+"-seeds", fmt.Sprintf("%s, by training seed: success rate (%%), mean ± SD (ddof 1) over %s of %s; the last column averages the tiers.", b.Title(), words.Count(len(b.Sets), "evaluation set"), words.Count(b.Tiers[0].Episodes, "episode")),
		append([]column{text("Method", func(n infer.Number) string { return b.Label(infer.Trained{Arm: n.Of, Seed: *n.Seed}) })}, tierColumns(b)...)...)
	v.Fold = "Each training seed"
	for _, a := range b.Arms {
		v.row(infer.Number{Place: b.Place, Of: a.Arm, Seed: &a.Seed})
		if a.Floor() {
			doc.Mute(v.Rows[len(v.Rows)-1])
		}
	}
	return v.Table
}

// meanNote says which tiers and training seeds are missing in the means of a block's
// tables, and who computed rows of other programs. Without it, a mean over fewer tiers
// could be compared with one over all.
func (r *Report) meanNote(b *infer.Block) (note string) {
	if len(b.Averaged()) < len(b.Tiers) {
		note += " T2p is T2 as the paper prints it, and is not part of any mean."
	}
	var lack, fewer []string
	for _, arm := range b.Names() {
		if r.Success(b, arm, infer.Mean) == nil {
			lack = append(lack, words.Arm(arm))
		}
		for _, t := range b.TierNames() {
			if n, all := len(r.BySeed(b, arm, t)), len(b.SeedsOf(arm)); n > 0 && n < all {
				fewer = append(fewer, fmt.Sprintf("%s at %s (%d of %d)", words.Arm(arm), t, n, all))
			}
		}
	}
	for _, f := range r.foreign(b) {
		note += " " + f + "."
	}
	if len(lack) > 0 {
		note += fmt.Sprintf(" %s: no mean, since a tier is missing.", words.Listing(lack))
	}
	if len(fewer) > 0 {
		note += fmt.Sprintf(" Not every training seed has %s; a mean is over the seeds with all tiers.", words.Listing(fewer))
	}
	return note
}

// foreign says which arms of a block another program computed. Without it a reader would
// take them for results of this one.
func (r *Report) foreign(b *infer.Block) (notes []string) {
	for _, f := range r.Foreign {
		if slices.ContainsFunc(b.Arms, func(a infer.Trained) bool { return a.Foreign && a.Method == f.Name }) {
			notes = append(notes, f.Note())
		}
	}
	return notes
}

// only is a column with a count of episodes. It is empty for differences in which an
// episode does not count 0 or 1 in each arm.
func only(head string, count func(*infer.Difference) int) column {
	return number(head, infer.Diff, func(n *infer.Number) doc.Field {
		if d := n.How.(*infer.Difference); d.Binary() {
			return doc.Whole(count(d))
		}
		return doc.Missing()
	})
}

// pairTable lists the paired differences of a block, with the p-values to use. Means
// are bold, since only they are confirmatory (see infer.Adjust). Counts of discordant
// episodes are shown where an episode counts 0 or 1.
func (r *Report) pairTable(b *infer.Block) doc.Table {
	var before []column
	counts := []column{only("A only", func(d *infer.Difference) int { return d.OnlyA }), only("B only", func(d *infer.Difference) int { return d.OnlyB })}
	if b.SeveralSeeds() { // episodes count fractions
		before, counts = []column{number("Seeds", infer.BlockSeedDiff, count), number("Over seeds", infer.BlockSeedDiff, points), number("95 % interval", infer.BlockSeedDiff, interval)}, nil
	}
	v := r.view(anchorOf(b.Place)+"-paired", b.Title()+": paired differences in points of success. A tier has Newcombe's interval and the exact McNemar test; a mean over tiers the stratified bootstrap of episodes and their sign flips. "+
		"Judge by the adjusted p: for a mean by Holm over all tasks and solvers, for a tier by Benjamini and Hochberg over all tiers.",
		slices.Concat([]column{comparison, tier}, before, []column{number("Episodes", infer.Diff, count)}, counts,
			[]column{number("Difference", infer.Diff, points), number("95 % interval", infer.Diff, interval), number("p", infer.Diff, pvalue), number("p, adjusted", infer.Diff, adjusted)})...)
	if b.SeveralSeeds() {
		v.Caption += " The first columns take the training seed as the unit, with Student's interval. In the others outcomes of several seeds are averaged in each episode, and single tiers are then tested like means: these intervals cover the draw of episodes, not the luck of training."
	}
	for _, n := range r.pairs(b) {
		v.row(row(n))
		if n.Tier == infer.Mean {
			doc.Embolden(v.Rows[len(v.Rows)-1])
		}
	}
	return v.Table
}

// curves returns the section with the training curves of a task.
func (r *Report) curves(task string) []doc.Section {
	var runs []results.Curve
	var arms []results.Arm
	for _, c := range r.Curves {
		if c.Task == task {
			runs, arms = append(runs, c), append(arms, c.Arm)
		}
	}
	slices.SortFunc(runs, func(a, b results.Curve) int { return cmp.Or(results.CompareArms(a.Arm, b.Arm), a.Seed-b.Seed) })
	slices.SortFunc(arms, results.CompareArms)
	return section(doc.Section{Title: "Training", Anchor: task + "-training", Level: 3, Fold: r.folded()}, doc.Figure{Panels: r.trainingFigures(runs), Legend: r.legend(slices.Compact(arms)),
		Caption: "Averages over equal parts of the run, one line for each training run; dotted lines are the validation split. The state objective is each method's own term, and its unit differs between methods."})
}

// films returns the section with films of a task: one episode of every method that has
// one, and episodes as predicted by models. Formats without pictures list their names.
func (r *Report) films(task string) []doc.Section {
	planned := doc.Film{Caption: "The same episode for every method: the world on the left, its goal on the right."}
	predicted := doc.Film{Caption: "What the models predict: a recorded episode on the left; on the right, after every five steps, the stored frame whose latent is nearest to the one predicted from the first frame and the recorded actions."}
	for _, c := range r.Clips {
		if c.Tier == results.PairsTier {
			continue // see pairsFilm
		}
		// A clip without a task in its name is shown for every task.
		film := &planned
		if c.Tier == results.Imagined {
			film = &predicted
		}
		if c.Task == task || c.Task == "" {
			film.Clips = append(film.Clips, doc.Clip{Title: words.Arm(c.Arm), Note: c.Tier, Class: r.class(c.Arm), GIF: c.GIF})
		}
	}
	for _, film := range []*doc.Film{&planned, &predicted} {
		var names []string
		for _, c := range film.Clips {
			names = append(names, fmt.Sprint(c.Title, " ", c.Note))
		}
		film.Cast = "With " + words.Listing(names) + "."
	}
	return section(doc.Section{Title: "One episode to watch", Anchor: task + "-film", Level: 3}, planned, predicted)
}
