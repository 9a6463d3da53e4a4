package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"scalewm/envs"
	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/words"
)

// front returns the first section: title, main result, what was trained, and the origin
// of the numbers.
func (r *Report) front() []doc.Section {
	return section(doc.Section{Title: r.title(), Level: 1}, doc.Text{Style: "lead", Body: r.lead()}, r.trainings(),
		doc.Text{Style: "tiles", Items: r.tiles()}, doc.Text{Style: "facts", Items: r.facts()})
}

func (r *Report) title() string {
	var names []string
	for _, t := range infer.Tasks(r.Blocks) {
		names = append(names, words.Task(t))
	}
	return "Planning with latent world models on " + words.Listing(names)
}

// lead returns the main result in a sentence or two, for each group of settings if
// there are several. With one main block it states the difference, its interval, p and
// the number of episodes, so that nobody quotes a difference without its uncertainty.
// With several blocks it counts them.
func (r *Report) lead() string {
	if len(r.Groups) > 1 {
		var out []string
		for _, g := range r.Groups {
			out = append(out, "Under "+g.Name+": "+r.leadOf(g))
		}
		return strings.Join(out, " ")
	}
	main := infer.MainBlocks(r.Blocks)
	if len(main) > 1 {
		return r.leadOf(r.Groups[0])
	}
	b := main[0]
	n := r.headline(b)
	if n == nil {
		return fmt.Sprintf("%s was evaluated; no two arms could be paired.", b.Title())
	}
	more := "more"
	if *n.Value < 0 {
		more = "less"
	}
	return fmt.Sprintf("%sOn %s, %s succeeds %s points %s often than %s, %s (%s, p %s, %s). %s",
		r.leadOverSeeds(r.Groups[0], n), strings.Replace(b.Title(), ", ", " with ", 1), words.Arm(n.Of), words.Points(math.Abs(*n.Value)), more, words.Arm(n.Minus), tiersOf(n), bounds(n), words.Equals(infer.Or(n.P)),
		words.Count(n.N, "paired episode"), reading(n))
}

// headline returns the headline difference of a block, averaged over tiers, or nil if
// it has none.
func (r *Report) headline(b *infer.Block) *infer.Number {
	if c := b.Headline(); c != nil {
		return r.Find(infer.Number{What: infer.Diff, Place: b.Place.At(infer.Mean), Of: c.Of, Minus: c.Minus})
	}
	return nil
}

// overSeeds returns the same difference with the training seed as the unit, or n itself if
// there are not several seeds. n may be nil.
func (r *Report) overSeeds(n *infer.Number) *infer.Number {
	if n == nil {
		return nil
	}
	if s := r.Find(infer.Number{What: infer.BlockSeedDiff, Place: n.Place, Of: n.Of, Minus: n.Minus}); s != nil {
		return s
	}
	return n
}

// bounds describes the interval of a difference.
func bounds(n *infer.Number) string {
	if n.Lo == nil || n.Hi == nil {
		return "no interval"
	}
	return "95 % interval " + words.Interval(*n.Lo, *n.Hi)
}

// tiersOf describes the tiers that a difference averages.
func tiersOf(n *infer.Number) string {
	d := n.How.(*infer.Difference)
	if len(d.Tiers) == 1 {
		return "at " + d.Tiers[0]
	}
	return "averaged over " + words.Listing(d.Tiers)
}

// reading returns the conclusion that the interval allows. It attributes the difference
// to more than the draw of episodes, and not to the method, which a single training
// cannot show.
func reading(n *infer.Number) string {
	switch {
	case n.Lo == nil:
		return ""
	case *n.Lo > 0:
		return words.Arm(n.Of) + " is ahead by more than the draw of episodes explains."
	case *n.Hi < 0:
		return words.Arm(n.Minus) + " is ahead by more than the draw of episodes explains."
	}
	return "The interval includes zero: this evaluation does not distinguish the two."
}

// leadOf returns the main result of a group of settings: the counts of differences of the
// pair that leads its first block.
func (r *Report) leadOf(g infer.Group) string {
	// Count only blocks whose headline compares the same arms as the first; a sum over other
	// comparisons would have no meaning.
	up, down, clear, n := 0, 0, 0, 0
	var first *infer.Number
	for _, b := range g.Main() {
		d := r.headline(b)
		if first == nil {
			first = d
		}
		if d == nil || d.Of != first.Of || d.Minus != first.Minus {
			continue
		}
		n++
		switch {
		case *d.Value > 0:
			up++
		case *d.Value < 0:
			down++
		}
		if infer.Or(d.Adjusted) < 0.05 {
			clear++
		}
	}
	if n == 0 {
		return "No two arms could be paired."
	}
	return fmt.Sprintf("%s%s is above %s on %d of %d task and solver averages and below on %d; %d of the differences remain significant at 5 %% after Holm's correction.",
		r.leadOverSeeds(g, first), words.Arm(first.Of), words.Arm(first.Minus), up, n, down, clear)
}

// leadOverSeeds returns the difference of a pair with the training seed as the unit, and
// the beginning of the sentence about episodes, if there are several seeds. The tests and
// intervals over episodes are about these checkpoints only, and a reader of the first lines
// must not take them for a statement about methods.
func (r *Report) leadOverSeeds(g infer.Group, pair *infer.Number) string {
	var of []string
	for _, n := range r.Where(infer.SeedDiff, func(n *infer.Number) bool {
		return n.Source == infer.Ours && n.Seed == nil && n.Settings == g.Name && n.Of == pair.Of && n.Minus == pair.Minus && n.N > 1
	}) {
		of = append(of, fmt.Sprintf("%s %s (%s, %s)", words.Task(n.Task), words.Signed(*n.Value), bounds(n), words.Count(n.N, "seed")))
	}
	if len(of) == 0 {
		return ""
	}
	return words.Minus(pair.Of, pair.Minus) + ", with training seeds as the unit: " + strings.Join(of, ", ") + ". These checkpoints only, with episodes as the unit: "
}

// tiles returns the main numbers of a report with a single main block, for the top of
// the page.
func (r *Report) tiles() (out []doc.Item) {
	main := infer.MainBlocks(r.Blocks)
	if len(main) > 1 {
		return nil
	}
	b := main[0]
	if n := r.overSeeds(r.headline(b)); n != nil {
		out = append(out, doc.Item{Name: words.Minus(n.Of, n.Minus) + ", points", Value: words.Signed(*n.Value), Text: bounds(n) + " over " + n.Unit + "s", Class: r.class(n.Of)})
	}
	for _, arm := range b.Names() {
		top := r.Success(b, arm, b.Tiers[0].Name)
		// Of the floors only random actions get a tile: they show what needs no model at all.
		if top == nil || arm.Floor() && arm.Plans() {
			continue
		}
		note := "at " + b.Tiers[0].Name
		if all := r.Success(b, arm, infer.Mean); all != nil {
			note += ", " + words.Points(*all.Value) + " over all tiers"
		}
		if arm.Floor() {
			note = "the floor: uniform random actions"
		}
		out = append(out, doc.Item{Name: words.Arm(arm) + ", % solved", Value: words.Points(*top.Value), Text: note, Class: r.class(arm)})
	}
	return out
}

// facts lists what was evaluated, when, and on which device.
func (r *Report) facts() []doc.Item {
	// The facts about sets are those of the first block, unless settings differ.
	b, o := r.Blocks[0], r.Origin
	sets := fmt.Sprintf("%s of %s", words.Count(len(b.Sets), "set"), words.Count(b.Tiers[0].Episodes, "episode"))
	if len(r.Groups) > 1 {
		sets = fmt.Sprintf("%d different settings", len(r.Groups))
	}
	var goals []string
	for _, b := range infer.MainBlocks(r.Blocks) {
		goal := fmt.Sprintf("%d env steps ahead, %d steps allowed, horizon %s", b.Tiers[0].GoalOffset, b.Tiers[0].Budget, words.Count(b.Tiers[0].Horizon, "block"))
		if !slices.Contains(goals, goal) {
			goals = append(goals, goal)
		}
	}
	out := []doc.Item{
		{Name: "Protocol", Text: words.Listing(o.Protocols)},
		{Name: "Evaluation", Text: fmt.Sprintf("%s, %s cells, %s episodes", sets, words.Thousands(o.Cells), words.Thousands(o.Episodes))},
		{Name: "Goal", Text: strings.Join(goals, "; ")},
		{Name: "Device", Text: words.Listing(o.Devices)},
	}
	for _, f := range r.Foreign {
		out = append(out, doc.Item{Name: "Other program", Text: f.Note()})
	}
	if seen := r.seen(); seen != "" {
		out = append(out, doc.Item{Name: "Evaluated episodes", Text: seen})
	}
	if o.First != "" {
		out = append(out, doc.Item{Name: "Evaluated", Text: words.When(o.First, o.Last)})
	}
	if o.Seconds > 0 {
		out = append(out, doc.Item{Name: "Evaluation time", Text: words.Duration(o.Seconds)})
	}
	if len(o.Versions) > 0 {
		out = append(out, doc.Item{Name: "Program", Text: words.Listing(o.Versions)})
	}
	for _, name := range infer.Tasks(r.Blocks) {
		if t, err := envs.Lookup(name); err == nil {
			out = append(out, doc.Item{Name: "Success on " + t.Spec.Title, Text: t.Spec.Success})
		}
	}
	worlds := r.Outside()
	for _, name := range slices.Sorted(maps.Keys(worlds)) {
		c := worlds[name]
		text := c.Spec.World
		for _, p := range slices.Sorted(maps.Keys(r.Runs[c.ID].Packages)) {
			text += fmt.Sprintf(", %s %s", p, r.Runs[c.ID].Packages[p])
		}
		if c.Spec.Nondeterministic {
			text += "; it may answer the same actions differently"
		}
		out = append(out, doc.Item{Name: "World of " + words.Task(name), Text: text})
		if g := c.Result.Replayed; g != nil {
			out = append(out, doc.Item{Name: "Success on " + words.Task(name), Text: g.Success})
			if g.Rows > 0 {
				out = append(out, doc.Item{Name: "Replay of " + words.Task(name), Text: g.String()})
			}
		}
	}
	return out
}

// scores returns the section on success. With one main block it has the table and
// figure of this block, otherwise one row for each main block. The details of all
// blocks follow in tasks.
func (r *Report) scores() []doc.Section {
	main := infer.MainBlocks(r.Blocks)
	s := doc.Section{Title: "Success", Anchor: "overview", Level: 2, Nav: "Success"}
	if len(main) == 1 {
		return section(s, r.successTable(main[0]), r.successFigure(main[0]))
	}
	return section(s, r.overviewTable(), doc.Figure{Caption: "Paired differences of every task and solver, in points, with 95 % intervals.", Panels: r.overviewForest()})
}

// overviewTable has the arms' means over tiers, and the headline difference of each
// main block. The highest mean of a row is bold. Values are compared as printed, so
// that all of several equal ones are bold.
func (r *Report) overviewTable() doc.Table {
	t := doc.Table{Anchor: "overview", Head: []string{"Task, solver"},
		Caption: "Success (%) averaged over tiers, mean ± SD over training seeds if there are several, otherwise over sets, and a paired difference in points, its p adjusted by Holm over all rows of the same two methods."}
	blocks := infer.MainBlocks(r.Blocks)
	names := infer.ArmsOf(blocks)
	for _, n := range names {
		t.Head = append(t.Head, words.Arm(n))
	}
	several := slices.ContainsFunc(blocks, func(b *infer.Block) bool {
		n := r.overSeeds(r.headline(b))
		return n != nil && n.What == infer.BlockSeedDiff
	})
	last := "p, adjusted"
	if several {
		last = "Seeds"
		t.Caption = "Success (%) averaged over tiers, mean ± SD over training seeds if there are several, otherwise over sets, and a paired difference in points. The interval is Student's over training seeds, or with one seed that over its episodes."
	}
	t.Head = append(t.Head, "Difference", "95 % interval", last)
	// If all rows compare the same arms, the caption names them, otherwise each row does.
	var compared []string
	for _, b := range blocks {
		if n := r.headline(b); n != nil && !slices.Contains(compared, words.Minus(n.Of, n.Minus)) {
			compared = append(compared, words.Minus(n.Of, n.Minus))
		}
	}
	if len(compared) == 1 {
		t.Caption += " The difference is " + compared[0] + "."
	}
	for _, b := range blocks {
		fields := []doc.Field{doc.Words(b.Title())}
		best := r.best(b, infer.Mean)
		for _, m := range names {
			f := doc.Missing()
			if s := r.Success(b, m, infer.Mean); s != nil {
				f = spread(s)
				f.Bold = words.Points(*s.Value) == words.Points(best)
			}
			fields = append(fields, f)
		}
		n := r.overSeeds(r.headline(b))
		if n == nil {
			t.Rows = append(t.Rows, append(fields, doc.Missing(), doc.Missing(), doc.Missing()))
			continue
		}
		d := points(n)
		if len(compared) > 1 {
			d.Text = words.Minus(n.Of, n.Minus) + " " + d.Text
		}
		p := adjusted(n)
		if several {
			p = doc.Whole(1)
			if n.What == infer.BlockSeedDiff {
				p = count(n)
			}
		}
		t.Rows = append(t.Rows, append(fields, d, interval(n), p))
	}
	return t
}

// best returns the highest success in a block at a tier.
func (r *Report) best(b *infer.Block, tier string) float64 {
	top := math.Inf(-1)
	for _, arm := range b.Names() {
		if n := r.Success(b, arm, tier); n != nil {
			top = max(top, *n.Value)
		}
	}
	return top
}

// Summary returns the report in about a dozen lines of plain text, for a terminal: the table of
// success, the headline difference, what was trained, and the counts of checks and warnings.
func (r *Report) Summary() string {
	var w strings.Builder
	main := infer.MainBlocks(r.Blocks)
	b := main[0]
	if len(main) == 1 {
		fmt.Fprintf(&w, "%s, success in %% over %s of %d, protocol %s\n", b.Title(), words.Count(len(b.Sets), "set"), b.Tiers[0].Episodes, words.Listing(r.Origin.Protocols))
		w.WriteString(doc.Plain(r.successTable(b)))
		if n := r.headline(b); n != nil {
			over := r.overSeeds(n)
			p := ""
			if over.P != nil {
				p = ", p " + words.Equals(*over.P)
			}
			fmt.Fprintf(&w, "%s: %s points %s, %s%s, %s\n", words.Minus(n.Of, n.Minus), words.Signed(*over.Value), tiersOf(n), bounds(over), p, words.Count(over.N, "paired "+over.Unit))
		}
	} else {
		w.WriteString(doc.Plain(r.overviewTable()))
	}
	for _, i := range r.trainings().Items {
		fmt.Fprintf(&w, "%s: %s\n", i.Name, i.Text)
	}
	for _, f := range r.Foreign {
		fmt.Fprintln(&w, f.Note())
	}
	fmt.Fprintln(&w, r.verdicts())
	return w.String()
}
