package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"scalewm/envs"
	"scalewm/eval/infer"
	"scalewm/eval/stats"
)

// The chapters before and after those of the tasks, and the terminal's summary.

// front is the report's title, what it found, and where it comes from.
func (r *Report) front() []Section {
	parts := []Part{Text{Style: "lead", Body: r.lead()}}
	if t := r.tiles(); len(t) > 0 {
		parts = append(parts, Text{Style: "tiles", Items: t})
	}
	return []Section{{Title: r.title(), Level: 1, Parts: append(parts, Text{Style: "facts", Items: r.facts()})}}
}

func (r *Report) title() string {
	var names []string
	for _, t := range tasksOf(r.Blocks) {
		names = append(names, taskName(t))
	}
	return "Planning with latent world models on " + listing(names)
}

// lead is the report in one sentence or two, and where settings stand apart in as
// many for each of them.
func (r *Report) lead() string {
	if len(r.Groups) > 1 {
		var out []string
		for _, g := range r.Groups {
			out = append(out, "Under "+g.Name+": "+g.lead())
		}
		return strings.Join(out, " ")
	}
	main := mainOf(r.Blocks)
	if len(main) > 1 {
		return r.Groups[0].lead()
	}
	b := main[0]
	c := b.headline()
	if c == nil {
		return fmt.Sprintf("%s was evaluated; no two arms could be paired.", b.title())
	}
	d := c.Mean
	more := "more"
	if d.Diff < 0 {
		more = "less"
	}
	return fmt.Sprintf("On %s, %s succeeds %s points %s often than %s, %s (95 %% interval %s, p %s, %s). %s%s",
		strings.Replace(b.title(), ", ", " with ", 1), armTitle(c.A), points(math.Abs(d.Diff)), more, armTitle(c.B), over(d), interval(d.Lo, d.Hi), equals(d.P),
		count(d.N, "paired episode"), reading(c), r.Groups[0].leadOverSeeds(c))
}

// over says what a difference averages.
func over(d *infer.Difference) string {
	if len(d.Tiers) == 1 {
		return "at " + d.Tiers[0]
	}
	return "averaged over " + listing(d.Tiers)
}

// reading says what the interval allows to conclude.
func reading(c *infer.Comparison) string {
	switch {
	case c.Mean.Lo > 0:
		return armTitle(c.A) + " is ahead by more than the draw of episodes explains."
	case c.Mean.Hi < 0:
		return armTitle(c.B) + " is ahead by more than the draw of episodes explains."
	}
	return "The interval includes zero: this evaluation does not tell the two apart."
}

func (g *Group) lead() string {
	up, down, clear, n := 0, 0, 0, 0
	var pair *infer.Comparison
	for _, b := range mainOf(g.Blocks) {
		c := b.headline()
		if pair == nil {
			pair = c
		}
		if c == nil || c.A != pair.A || c.B != pair.B {
			continue
		}
		n++
		switch {
		case c.Mean.Diff > 0:
			up++
		case c.Mean.Diff < 0:
			down++
		}
		if adjusted(*c.Mean) < 0.05 {
			clear++
		}
	}
	if n == 0 {
		return "No two arms could be paired."
	}
	return fmt.Sprintf("%s is above %s on %d of %d task and solver averages and below on %d; %d of the differences remain significant at 5 %% after Holm's correction.%s",
		armTitle(pair.A), armTitle(pair.B), up, n, down, clear, g.leadOverSeeds(pair))
}

// leadOverSeeds says what training seeds as the unit leave of a difference, where there are several: tests and
// intervals over episodes speak of these checkpoints alone.
func (g *Group) leadOverSeeds(pair *infer.Comparison) string {
	var of []string
	for _, l := range g.Seeds {
		if l.A == pair.A && l.B == pair.B && len(l.Seeds) > 1 {
			e := infer.MeanOf(l.Points)
			of = append(of, fmt.Sprintf("%s %s (95 %% interval %s, %s)", taskName(l.Task), signed(e.Value), interval(e.Lo, e.Hi), count(len(l.Seeds), "seed")))
		}
	}
	if len(of) == 0 {
		return ""
	}
	return " That is of these checkpoints. Training seeds as the unit: " + strings.Join(of, ", ") + "."
}

func (r *Report) groupNames() (out []string) {
	for _, g := range r.Groups {
		out = append(out, g.Name)
	}
	return out
}

// tiles are the numbers a reader takes away from a single block.
func (r *Report) tiles() (out []Item) {
	main := mainOf(r.Blocks)
	if len(main) > 1 {
		return nil
	}
	b := main[0]
	if c := b.headline(); c != nil {
		out = append(out, Item{Name: minus(c.A, c.B) + ", points", Value: signed(c.Mean.Diff), Text: "95 % interval " + interval(c.Mean.Lo, c.Mean.Hi), Class: class(c.A)})
	}
	for _, l := range b.series() {
		m, top := infer.MethodOf(l.name), l.at(0)
		if top == nil || m.Floor && m.Plans() {
			continue
		}
		note := "at " + b.Tiers[0].Name
		if all := l.at(len(b.Tiers)); all != nil {
			note += ", " + points(all.Mean) + " over all tiers"
		}
		if m.Floor {
			note = "the floor: uniform random actions"
		}
		out = append(out, Item{Name: armTitle(l.name) + ", % solved", Value: points(top.Mean), Text: note, Class: class(l.name)})
	}
	return out
}

// facts says what was evaluated, when, and on what.
func (r *Report) facts() []Item {
	b, o := r.Blocks[0], r.Origin
	sets := fmt.Sprintf("%s of %s", count(len(b.Sets), "set"), count(b.Tiers[0].Episodes, "episode"))
	if len(r.Groups) > 1 {
		sets = fmt.Sprintf("%d different settings", len(r.Groups))
	}
	out := []Item{
		{Name: "Protocol", Text: r.Protocol},
		{Name: "Evaluation", Text: fmt.Sprintf("%s, %s cells, %s episodes", sets, thousands(o.Cells), thousands(o.Episodes))},
		{Name: "Goal", Text: fmt.Sprintf("%d env steps ahead, %d steps allowed, horizon %s", b.Tiers[0].GoalOffset, b.Tiers[0].Budget, count(b.Tiers[0].Horizon, "block"))},
		{Name: "Device", Text: listing(o.Devices)},
	}
	if o.First != "" {
		out = append(out, Item{Name: "Evaluated", Text: when(o.First, o.Last)})
	}
	if o.Seconds > 0 {
		out = append(out, Item{Name: "Evaluation time", Text: duration(o.Seconds)})
	}
	if len(o.Versions) > 0 {
		out = append(out, Item{Name: "Program", Text: listing(o.Versions)})
	}
	for _, name := range tasksOf(r.Blocks) {
		if t, err := envs.Lookup(name); err == nil {
			out = append(out, Item{Name: "Success on " + t.Spec.Title, Text: t.Spec.Success})
		}
	}
	return out
}

// overview has one row a main block, where there are several.
func (r *Report) overview() []Section {
	if len(mainOf(r.Blocks)) < 2 {
		return nil
	}
	s := Section{Title: "Overview", Anchor: "overview", Level: 2, Nav: "Overview", Parts: []Part{r.overviewTable()}}
	if f := r.overviewForest(); f != "" {
		s.Parts = append(s.Parts, Figure{Caption: "Paired differences of every task and solver, in points, with 95 % intervals.", Panels: panels(f)})
	}
	return []Section{s}
}

// overviewTable has the arms' means over tiers and the difference that each
// block leads with.
func (r *Report) overviewTable() Table {
	t := Table{Anchor: "overview", Head: []string{"Task, solver"}}
	blocks := mainOf(r.Blocks)
	names := names(blocks)
	for _, n := range names {
		t.Head = append(t.Head, armTitle(n))
	}
	t.Head = append(t.Head, "Difference", "95 % interval", "p, adjusted")
	compared := map[string]bool{} // the names of the differences, which are said in each row where they differ
	for _, b := range blocks {
		if c := b.headline(); c != nil {
			compared[minus(c.A, c.B)] = true
		}
	}
	t.Caption = "Success (%) averaged over tiers, mean ± SD over training seeds where there are several and else over sets, and a paired difference in points, its p adjusted by Holm over all rows of the same two methods."
	for name := range compared {
		if len(compared) == 1 {
			t.Caption += " The difference is " + name + "."
		}
	}
	if slices.ContainsFunc(r.Groups[0].Seeds, func(l BySeed) bool { return len(l.Seeds) > 1 }) {
		t.Caption += " Interval and p are of these checkpoints, over episodes; those over training seeds stand under \"Training seeds as the unit\"."
	}
	for _, b := range blocks {
		row := []Field{words(b.title())}
		best := b.best()
		for _, m := range names {
			f := none()
			if s := b.seriesOf(m).at(len(b.Tiers)); s != nil {
				f = number(pm(*s), s.Mean)
				f.bold = points(s.Mean) == points(best[len(b.Tiers)])
			}
			row = append(row, f)
		}
		c := b.headline()
		if c == nil {
			t.Rows = append(t.Rows, append(row, none(), none(), none()))
			continue
		}
		text := signed(c.Mean.Diff)
		if len(compared) > 1 {
			text = minus(c.A, c.B) + " " + text
		}
		t.Rows = append(t.Rows, append(row, number(text, c.Mean.Diff), number(interval(c.Mean.Lo, c.Mean.Hi), c.Mean.Lo), number(pvalue(adjusted(*c.Mean)), adjusted(*c.Mean))))
	}
	return t
}

// checkList has the checks and the warnings.
func (r *Report) checkList() []Section {
	checks := Text{Style: "checks", Body: r.verdicts() + "."}
	for _, c := range r.Checks {
		checks.Items = append(checks.Items, Item{Name: c.Name, Value: string(c.Verdict), Text: c.Text, Class: string(c.Verdict)})
	}
	out := []Section{{Title: "Checks and warnings", Anchor: "checks", Level: 2, Nav: "Checks and warnings", Parts: []Part{checks}}}
	if len(r.Warnings) > 0 {
		list := Text{Style: "warnings"}
		for _, w := range r.Warnings {
			list.Items = append(list.Items, Item{Text: w})
		}
		out = append(out, Section{Title: "Warnings", Anchor: "warnings", Level: 3, Parts: []Part{list}})
	}
	return out
}

// verdicts counts those of the checks.
func (r *Report) verdicts() string {
	n := map[Verdict]int{}
	for _, c := range r.Checks {
		n[c.Verdict]++
	}
	s := fmt.Sprintf("%d of %d checks passed", n[Passed], len(r.Checks))
	for _, v := range []Verdict{Warned, Skipped} {
		if n[v] > 0 {
			s += fmt.Sprintf(", %d %s", n[v], v)
		}
	}
	return s + "; " + count(len(r.Warnings), "warning")
}

// howComputed explains the numbers and lists the fingerprints.
func (r *Report) howComputed() []Section {
	list := Text{Style: "how", Items: []Item{
		{Name: "Success ± SD", Text: "Mean over evaluation sets and their standard deviation (ddof 1), as in the paper. It shows how much the draw of episodes matters, not how much training does."},
		{Name: "Difference at a tier", Text: "Pooled paired episodes; Newcombe's hybrid score interval; exact McNemar test, two-sided, and its mid-p."},
		{Name: "Difference averaged over tiers", Text: "The unit is the episode, whose outcomes at the tiers are averaged; interval from a bootstrap of episodes within sets, p from sign flips of episodes within sets. Several training seeds are averaged in the same way."},
		{Name: "p, adjusted", Text: "Of a mean over tiers Holm's, over all task and solver averages of the same two methods; of a single tier Benjamini and Hochberg's, over all tiers of the same two methods."},
		{Name: "p over sets", Text: "Exact sign flip of the sets' sums. With six sets it cannot go below 0.031."},
		{Name: "Step-down", Text: "Westfall and Young's maximum of |t| over the averages of one comparison: 100,000 draws flip the labels of whole episodes, in all solvers of a task at once, so that what the averages share is not paid for twice."},
		{Name: fmt.Sprintf("Within %d points", stats.Margin), Text: fmt.Sprintf("Two one-sided tests at 5 %%: equivalent where the 90 %% interval lies inside ±%d points, noninferior where only its lower end does.", stats.Margin)},
		{Name: "Pairing is refused", Text: "where episodes, data set, protocol, planner settings or planner seeds differ. Different kinds of device are noted beside the differences."},
	}}
	t := Table{Anchor: "fingerprints", Head: []string{"Of", "Fingerprint"}, Caption: "SHA-256 of what was evaluated.", Fold: "Fingerprints"}
	add := func(name, hash string) { t.Rows = append(t.Rows, []Field{words(name), words(hash)}) }
	for _, d := range r.Origin.Data {
		add("data set", d)
	}
	for _, h := range r.Origin.SetHashes {
		add(h.Task+" "+h.Set, h.Hash)
	}
	weights := map[string]bool{}
	for _, b := range r.Blocks {
		for _, a := range b.Arms {
			if name := fmt.Sprintf("%s %s seed %d", b.Task, a.Name, a.Seed); a.Weights != "" && !weights[name+a.Weights] {
				weights[name+a.Weights] = true
				add(name, a.Weights)
			}
		}
	}
	return []Section{{Title: "How it is computed", Anchor: "methods", Level: 2, Nav: "How it is computed", Parts: []Part{list, t}}}
}

// Summary is the report for a terminal, about ten lines.
func (r *Report) Summary() string {
	var w strings.Builder
	main := mainOf(r.Blocks)
	b := main[0]
	if len(main) == 1 {
		fmt.Fprintf(&w, "%s, success in %% over %s of %d, protocol %s\n", b.title(), count(len(b.Sets), "set"), b.Tiers[0].Episodes, r.Protocol)
		plainTable(&w, b.successTable())
		if c := b.headline(); c != nil {
			d := c.Mean
			fmt.Fprintf(&w, "%s: %s points %s [%s], p %s, %s\n", minus(c.A, c.B), signed(d.Diff), over(d), interval(d.Lo, d.Hi), equals(d.P), count(d.N, "paired episode"))
		}
	} else {
		plainTable(&w, r.overviewTable())
	}
	fmt.Fprintln(&w, r.verdicts())
	return w.String()
}

// plainTable aligns columns with spaces.
func plainTable(w *strings.Builder, t Table) {
	rows := [][]string{t.Head}
	for _, row := range t.Rows {
		var texts []string
		for _, f := range row {
			texts = append(texts, f.Text)
		}
		rows = append(rows, texts)
	}
	width := make([]int, len(t.Head))
	for _, row := range rows {
		for i, s := range row {
			width[i] = max(width[i], utf8.RuneCountInString(s))
		}
	}
	for _, row := range rows {
		line := ""
		for i, s := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(s))
			if i == 0 {
				line = s + pad
			} else {
				line += "   " + pad + s
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// SetHash is the fingerprint of an evaluation set of a task.
type SetHash struct{ Task, Set, Hash string }

// Origin says where the numbers come from.
type Origin struct {
	Devices, Data, Versions []string
	First, Last             string  // start times of the first and last evaluation
	Seconds                 float64 // evaluation time summed over cells
	Cells, Episodes         int
	SetHashes               []SetHash
}

// originOf collects it.
func originOf(d *Data) Origin {
	var o Origin
	devices, data, versions := map[string]bool{}, map[string]bool{}, map[string]bool{}
	hashes := map[SetHash]bool{}
	for _, c := range d.Cells {
		devices[c.Result.Device], data[c.Spec.Data] = true, true
		hashes[SetHash{c.Spec.Task, c.Spec.Set, c.Spec.SetHash}] = true
		o.Cells++
		o.Episodes += len(c.Result.Rows)
		run, ok := d.Runs[c.ID]
		if !ok {
			continue
		}
		versions[run.Version] = true
		o.Seconds += run.Seconds
		if run.Started != "" && (o.First == "" || run.Started < o.First) {
			o.First = run.Started
		}
		o.Last = max(o.Last, run.Started)
	}
	names := func(set map[string]bool) []string {
		delete(set, "")
		return slices.Sorted(maps.Keys(set))
	}
	o.Devices, o.Data, o.Versions = names(devices), names(data), names(versions)
	o.SetHashes = slices.SortedFunc(maps.Keys(hashes), func(a, b SetHash) int {
		return cmp.Or(compareTasks(a.Task, b.Task), strings.Compare(a.Set, b.Set), strings.Compare(a.Hash, b.Hash))
	})
	return o
}
