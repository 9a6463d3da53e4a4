package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"scalewm/eval/infer"
	"scalewm/eval/stats"
	"scalewm/model"
)

// The chapters of the tasks: one a solver, then how their models were trained
// and what an episode looks like.

func (r *Report) tasks() (out []Section) {
	legend := legendOf(methodsOf(r.Blocks))
	last := ""
	for i := range r.Blocks {
		b := r.Blocks[i]
		nav := ""
		if b.Task != last {
			nav, last = taskName(b.Task), b.Task
		}
		out = append(out, b.sections(nav, legend)...)
		if i == len(r.Blocks)-1 || r.Blocks[i+1].Task != b.Task {
			out = append(out, r.training(b.Task)...)
			out = append(out, r.analyses(b.Task)...)
			out = append(out, r.films(b.Task)...)
		}
	}
	return out
}

// methodsOf lists the methods of blocks once each, in the order of tables; the
// variants of a method have its colour.
func methodsOf(blocks []*Block) (out []string) {
	for _, b := range blocks {
		for _, a := range b.Arms {
			out = append(out, a.Method)
		}
	}
	slices.SortFunc(out, model.CompareMethods)
	return slices.Compact(out)
}

// legendOf explains the methods' colours.
func legendOf(methods []string) (out []Item) {
	for _, m := range methods {
		out = append(out, Item{Name: armTitle(m), Class: class(m)})
	}
	return out
}

func (b *Block) sections(nav string, legend []Item) []Section {
	anchor := b.anchor()
	tiers := Text{Style: "plain", Title: "Tiers"}
	var spread, steps []template.HTML
	for i, t := range b.Tiers {
		tiers.Items = append(tiers.Items, Item{Text: t.describe()})
		spread, steps = append(spread, spreadFigure(b, i)), append(steps, stepsFigure(b, i))
	}
	bands, title, dots := "Bands are 95 % Wilson intervals of the pooled episodes.", "Set by set", "One dot an evaluation set, in the order of the sets; the bar is their mean."
	first := Section{Title: b.title(), Anchor: anchor, Level: 2, Nav: nav, Parts: []Part{b.successTable()}}
	if len(b.costNotes()) > 0 {
		first.Parts = append(first.Parts, Text{Style: "note", Title: "On these numbers", Items: b.costNotes()})
	}
	if b.several() {
		bands, title, dots = "Thin lines are training seeds.", "Seed by seed", "One dot a training seed, in their order, or an evaluation set of a method with one seed; the bar is their mean."
		first.Parts = append(first.Parts, b.seedsTable())
	}
	first.Parts = append(first.Parts, Figure{Caption: "Success against the planner's compute. " + bands, Panels: panels(computeFigure(b)), Legend: legend, Beside: []Text{tiers}})
	out := []Section{first}
	add := func(title, name string, parts ...Part) {
		out = append(out, Section{Title: title, Anchor: anchor + "-" + name, Level: 3, Parts: parts})
	}
	if len(b.Pairs) > 0 {
		var parts []Part
		if f := b.forest(); f != "" {
			parts = append(parts, Figure{Caption: "Same episodes, same planner noise, different model: each difference is taken episode by episode. In points, with 95 % intervals.", Panels: panels(f)})
		}
		notes := Text{Style: "note", Title: "On these pairs"}
		for _, c := range b.Pairs {
			for _, n := range slices.Concat(c.Notes, c.Refused) {
				notes.Items = append(notes.Items, Item{Text: minus(c.A, c.B) + ": " + n})
			}
		}
		if parts = append(parts, b.pairTable()); len(notes.Items) > 0 {
			parts = append(parts, notes)
		}
		add("Paired differences", "paired", append(parts, b.testTable())...)
	}
	if f := b.discordFigures(); len(f) > 0 {
		add("Where the methods disagree", "disagree", Figure{Caption: "Episodes that only one of the two methods solves. A paired test lives on these alone.", Panels: f})
	}
	add(title, "sets", Figure{Caption: dots, Panels: spread})
	add("Steps to success", "steps", Figure{Caption: "Share of the episodes that are solved within k environment steps.", Panels: steps, Legend: legend})
	return out
}

// costNotes say which scores of the block are of plans whose costs were not all finite.
func (b *Block) costNotes() (notes []Item) {
	for _, a := range b.Arms {
		for _, t := range b.Tiers {
			if note := a.Scores[t.Name].Note(); note != "" {
				notes = append(notes, Item{Text: fmt.Sprintf("%s, %s: %s", b.label(a), t.Name, note)})
			}
		}
	}
	return notes
}

func panels(f template.HTML) []template.HTML { return []template.HTML{f} }

// describe says what a tier spends.
func (t Tier) describe() string {
	s := fmt.Sprintf("%s: %d candidates × %d iterations = %s rollouts a plan", t.Name, t.Candidates, t.Iterations, thousands(t.Rollouts()))
	if t.PlanMillis > 0 {
		s += fmt.Sprintf(", %.0f ms", t.PlanMillis)
	}
	return s
}

// successTable is the paper's table: methods by tiers, mean ± SD over sets, or over training seeds
// where there are several.
func (b *Block) successTable() Table {
	over := "%s: success rate (%%), mean ± SD (ddof 1) over %s of %s; "
	if b.several() {
		over = "%s: success rate (%%), mean ± SD (ddof 1) over training seeds, or with one seed over the sets; each seed on %s of %s; "
	}
	t := b.tableOfSuccess("", over+"the last column averages the tiers. Bold marks the best of a column.")
	t.Caption += b.meanNote()
	best := b.best()
	for _, l := range b.series() {
		row := b.successRow(l.label(), l.name, l.scores)
		for i := range row[1:] {
			row[1+i].bold = l.at(i) != nil && points(l.scores[i].Mean) == points(best[i])
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// seedsTable has each training seed's success, where a method has several.
func (b *Block) seedsTable() Table {
	t := b.tableOfSuccess("-seeds", "%s, by training seed: success rate (%%), mean ± SD (ddof 1) over %s of %s; the last column averages the tiers.")
	t.Fold = "Each training seed"
	for _, a := range b.Arms {
		t.Rows = append(t.Rows, b.successRow(b.label(a), a.Name, b.scores(a)))
	}
	return t
}

// tableOfSuccess is a table of them without rows.
func (b *Block) tableOfSuccess(anchor, caption string) Table {
	t := Table{Anchor: b.anchor() + anchor, Head: []string{"Method"}, Caption: fmt.Sprintf(caption, b.title(), count(len(b.Sets), "evaluation set"), count(b.Tiers[0].Episodes, "episode"))}
	for _, tier := range b.Tiers {
		t.Head = append(t.Head, tier.Name)
	}
	t.Head = append(t.Head, "Mean")
	return t
}

func (b *Block) successRow(label, name string, scores []Score) []Field {
	floor := infer.MethodOf(name).Floor
	head := words(label)
	head.muted = floor
	row := []Field{head}
	for _, s := range scores {
		f := number(pm(s), s.Mean)
		f.muted = floor || len(s.BySet) == 0
		row = append(row, f)
	}
	return row
}

// pairTable lists the paired differences of a block with the numbers to use.
func (b *Block) pairTable() Table {
	t := Table{Anchor: b.anchor() + "-paired", Head: []string{"Comparison", "Tier", "Episodes", "A only", "B only", "Difference", "95 % interval", "p", "p, adjusted"},
		Caption: b.title() + ": paired differences in points of success. A tier has Newcombe's interval and the exact McNemar test; a mean over tiers the stratified bootstrap of episodes and their sign flips. " +
			"The adjusted p is the one to judge by: of a mean Holm's over all tasks and solvers, of a tier Benjamini and Hochberg's over all tiers."}
	if b.several() {
		t.Caption += " Outcomes of several training seeds are averaged in each episode, and their tiers are judged as means are: these intervals cover the draw of episodes, not the luck of training."
	}
	for _, c := range b.Pairs {
		for _, d := range c.All() {
			onlyA, onlyB := none(), none()
			if d.Binary() {
				onlyA, onlyB = whole(d.OnlyA), whole(d.OnlyB)
			}
			row := []Field{words(minus(c.A, c.B)), words(d.Tier), whole(d.N), onlyA, onlyB,
				number(signed(d.Diff), d.Diff), number(interval(d.Lo, d.Hi), d.Lo), number(pvalue(d.P), d.P), number(pvalue(adjusted(d)), adjusted(d))}
			t.Rows = append(t.Rows, strong(row, d))
		}
	}
	return t
}

// strong sets the row of a mean over tiers in bold.
func strong(row []Field, d infer.Difference) []Field {
	for i := range row {
		row[i].bold = d.Tier == infer.Mean
	}
	return row
}

// testTable has the other tests of the same differences.
func (b *Block) testTable() Table {
	t := Table{Anchor: b.anchor() + "-tests", Fold: "Other tests of the same differences",
		Head: []string{"Comparison", "Tier", "p, mid", "p over sets", "p, Holm", "p, step-down", "p, BH", fmt.Sprintf("Within %d points", stats.Margin)},
		Caption: b.title() + ": other tests of the same differences. Mid-p is McNemar's; \"p over sets\" is the exact sign flip of set sums; Holm adjusts the means over tiers of all tasks and solvers, step-down (Westfall and Young) too, with the dependence between them; " +
			"BH (Benjamini and Hochberg) bounds the share of false findings among the tiers; the last column places the 90 % interval against the margin."}
	for _, c := range b.Pairs {
		for _, d := range c.All() {
			row := []Field{words(minus(c.A, c.B)), words(d.Tier)}
			for _, p := range otherTests(d) {
				row = append(row, number(pvalue(p), p))
			}
			t.Rows = append(t.Rows, strong(append(row, words(string(d.Verdict))), d))
		}
	}
	return t
}

// otherTests are mid-p, p over sets, Holm, step-down and BH, NaN where a row
// does not have them. (Holm over the tiers of one comparison is another family.)
func otherTests(d infer.Difference) []float64 {
	holm := orNaN(d.HolmP)
	if !math.IsNaN(d.BH) {
		holm = math.NaN()
	}
	return []float64{orNaN(d.MidP), d.SetP, holm, d.StepDown, d.BH}
}

// training has the curves of a task's trainings.
func (r *Report) training(task string) []Section {
	var runs []Training
	var names []string
	for _, t := range r.Training {
		if t.Task == task {
			runs, names = append(runs, t), append(names, t.Method)
		}
	}
	slices.SortFunc(runs, func(a, b Training) int { return cmp.Or(compareArms(a.Method, b.Method), a.Seed-b.Seed) })
	slices.SortFunc(names, compareArms)
	f := trainingFigures(runs)
	if len(f) == 0 {
		return nil
	}
	return []Section{{Title: "Training", Anchor: task + "-training", Level: 3, Parts: []Part{Figure{Panels: f, Legend: legendOf(slices.Compact(names)),
		Caption: "Averages over equal stretches of the run, one line a training run; dots are the validation's. The state objective is each method's own term; those of two methods have different units."}}}}
}

// imagined is what the pipeline's films of predictions are called, in place of a tier.
const imagined = "imagined"

// films has an episode of a task to watch, of every method that has one, and one that
// models imagine.
func (r *Report) films(task string) []Section {
	var planned, predicted []Clip
	for _, c := range r.Clips {
		switch {
		case c.Task != task && c.Task != "":
		case c.Tier == imagined:
			predicted = append(predicted, c)
		default:
			planned = append(planned, c)
		}
	}
	var parts []Part
	for _, f := range []Film{
		{Caption: "The same episode for every method: the world on the left, its goal on the right.", Clips: planned},
		{Caption: "What models imagine: a recorded episode on the left; on the right, after every five steps, the stored frame whose latent is nearest to the one predicted from the first frame and the recorded actions.", Clips: predicted},
	} {
		if len(f.Clips) > 0 {
			parts = append(parts, f)
		}
	}
	if parts == nil {
		return nil
	}
	return []Section{{Title: "One episode to watch", Anchor: task + "-film", Level: 3, Parts: parts}}
}
