package report

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Title names the report by its tasks.
func (r *Report) Title() string {
	var names []string
	for _, b := range r.Blocks {
		if n := taskName(b.Task); len(names) == 0 || names[len(names)-1] != n {
			names = append(names, n)
		}
	}
	return "Planning with latent world models on " + listing(names)
}

// main is the comparison the report leads with: SCALE against LeWM, or the
// first that was paired.
func (b *Block) main() (Pair, Difference, bool) {
	var best Pair
	var row Difference
	found := false
	for _, p := range b.Pairs {
		d, ok := p.headline()
		if ok && (!found || p.A == scale && p.B == lewm) {
			best, row, found = p, d, true
		}
	}
	return best, row, found
}

// Lead is the report in one sentence or two.
func (r *Report) Lead() string {
	if len(r.Blocks) > 1 {
		return r.leadMany()
	}
	b := &r.Blocks[0]
	p, d, ok := b.main()
	if !ok {
		return fmt.Sprintf("%s was evaluated; no two arms could be paired.", b.title())
	}
	more := "more"
	if d.Diff < 0 {
		more = "less"
	}
	return fmt.Sprintf("On %s, %s succeeds %s points %s often than %s, %s (95 %% interval %s, p %s, %s). %s",
		b.place(), methodName(p.A), points(math.Abs(d.Diff)), more, methodName(p.B), over(d, b), interval(d.Lo, d.Hi), equals(d.P), count(d.N, "paired episode"), reading(p, d))
}

// place is a block in a sentence: "Two-Room with CEM".
func (b *Block) place() string { return strings.Replace(b.title(), ", ", " with ", 1) }

// over says what a difference averages.
func over(d Difference, b *Block) string {
	if d.Tier != MeanTier {
		return "at " + d.Tier
	}
	var names []string
	for _, t := range b.Tiers {
		names = append(names, t.Name)
	}
	return "averaged over " + listing(names)
}

// listing joins words with commas and a final "and".
func listing(w []string) string {
	if len(w) < 2 {
		return strings.Join(w, "")
	}
	return strings.Join(w[:len(w)-1], ", ") + " and " + w[len(w)-1]
}

// reading says what the interval allows to conclude.
func reading(p Pair, d Difference) string {
	switch {
	case d.Lo > 0:
		return methodName(p.A) + " is ahead by more than the draw of episodes explains."
	case d.Hi < 0:
		return methodName(p.B) + " is ahead by more than the draw of episodes explains."
	}
	return "The interval includes zero: this evaluation does not tell the two apart."
}

func (r *Report) leadMany() string {
	up, down, clear, n := 0, 0, 0, 0
	var pair Pair
	for i := range r.Blocks {
		p, d, ok := r.Blocks[i].main()
		if !ok {
			continue
		}
		pair = p
		n++
		switch {
		case d.Diff > 0:
			up++
		case d.Diff < 0:
			down++
		}
		if d.Holm < 0.05 {
			clear++
		}
	}
	if n == 0 {
		return "No two arms could be paired."
	}
	return fmt.Sprintf("%s is above %s on %d of %d task and solver averages and below on %d; %d of the differences remain significant at 5 %% after Holm's correction.",
		methodName(pair.A), methodName(pair.B), up, n, down, clear)
}

// fact is one line about the report's origin.
type fact struct{ Name, Text string }

// facts says what was evaluated, when, and on what.
func (r *Report) facts() []fact {
	b, o := r.Blocks[0], r.Origin
	out := []fact{
		{"Protocol", r.Protocol},
		{"Evaluation", fmt.Sprintf("%s of %s, %s cells, %s episodes", count(len(b.Sets), "set"), count(b.Tiers[0].Episodes, "episode"), thousands(o.Cells), thousands(o.Episodes))},
		{"Goal", fmt.Sprintf("%d env steps ahead, %d steps allowed, horizon %s", b.Tiers[0].GoalOffset, b.Tiers[0].Budget, count(b.Tiers[0].Horizon, "block"))},
		{"Device", listing(o.Devices)},
	}
	if o.First != "" {
		out = append(out, fact{"Evaluated", when(o.First, o.Last)})
	}
	if o.Seconds > 0 {
		out = append(out, fact{"Evaluation time", duration(o.Seconds)})
	}
	if len(o.Versions) > 0 {
		out = append(out, fact{"Program", listing(o.Versions)})
	}
	for _, t := range r.tasks() {
		if rule := r.Success[t]; rule != "" {
			out = append(out, fact{"Success on " + taskName(t), rule})
		}
	}
	return out
}

// when shows a stretch of time to the minute. Times that are not RFC 3339 are
// shown as they are.
func when(first, last string) string {
	a, errA := time.Parse(time.RFC3339, first)
	b, errB := time.Parse(time.RFC3339, last)
	if errA != nil || errB != nil {
		return first + " to " + last
	}
	a, b = a.UTC(), b.UTC()
	switch day := "2006-01-02 15:04"; {
	case a.Format(day) == b.Format(day):
		return a.Format(day) + " UTC"
	case a.Format(time.DateOnly) == b.Format(time.DateOnly):
		return a.Format(day) + " to " + b.Format("15:04") + " UTC"
	default:
		return a.Format(day) + " to " + b.Format(day) + " UTC"
	}
}

// tasks lists the tasks of the report once each.
func (r *Report) tasks() (out []string) {
	for _, b := range r.Blocks {
		if len(out) == 0 || out[len(out)-1] != b.Task {
			out = append(out, b.Task)
		}
	}
	return out
}

// Tally counts the verdicts of the checks.
func (r *Report) Tally() string {
	n := map[Verdict]int{}
	for _, c := range r.Checks {
		n[c.Verdict]++
	}
	s := fmt.Sprintf("%d of %d checks passed", n[Passed], len(r.Checks))
	if n[Warned] > 0 {
		s += fmt.Sprintf(", %d warned", n[Warned])
	}
	if n[Skipped] > 0 {
		s += fmt.Sprintf(", %d skipped", n[Skipped])
	}
	return s + "; " + count(len(r.Warnings), "warning")
}

// Summary is the report for a terminal, about ten lines.
func (r *Report) Summary() string {
	var w strings.Builder
	b := &r.Blocks[0]
	if len(r.Blocks) == 1 {
		fmt.Fprintf(&w, "%s, success in %% over %s of %d, protocol %s\n", b.title(), count(len(b.Sets), "set"), b.Tiers[0].Episodes, r.Protocol)
		plainTable(&w, b.successTable())
	} else {
		plainTable(&w, r.overviewTable())
	}
	if p, d, ok := b.main(); ok && len(r.Blocks) == 1 {
		fmt.Fprintf(&w, "%s: %s points %s [%s], p %s, %s\n", p.name(), signed(d.Diff), over(d, b), interval(d.Lo, d.Hi), equals(d.P), count(d.N, "paired episode"))
	}
	fmt.Fprintln(&w, r.Tally())
	return w.String()
}

// overviewTable has one row a block: the arms' means over tiers and the main
// difference.
func (r *Report) overviewTable() table {
	t := table{head: []string{"Task, solver"}, caption: "Success (%) averaged over tiers, mean ± SD over sets, and a paired difference in points: SCALE − LeWM where nothing else is said."}
	var methods []string
	for _, m := range methodOrder {
		for i := range r.Blocks {
			if _, ok := r.Blocks[i].first(m); ok {
				methods = append(methods, m)
				t.head = append(t.head, methodName(m))
				break
			}
		}
	}
	t.head = append(t.head, "Difference", "95 % interval", "p, Holm")
	for i := range r.Blocks {
		b := &r.Blocks[i]
		row := []entry{words(b.title())}
		for _, m := range methods {
			a, _ := b.first(m)
			e := number(pm(a.Mean), a.Mean.Mean)
			e.bold = a.Mean.Sets > 0 && points(a.Mean.Mean) == points(b.best(MeanTier))
			row = append(row, e)
		}
		p, d, ok := b.main()
		if !ok {
			t.rows = append(t.rows, append(row, none(), none(), none()))
			continue
		}
		t.rows = append(t.rows, append(row, number(p.differs()+signed(d.Diff), d.Diff), number(interval(d.Lo, d.Hi), d.Lo), number(pvalue(d.Holm), d.Holm)))
	}
	return t
}

// differs names a pair unless it is SCALE − LeWM.
func (p Pair) differs() string {
	if p.A == scale && p.B == lewm {
		return ""
	}
	return p.name() + " "
}

// first is the first arm of a method.
func (b *Block) first(method string) (Arm, bool) {
	for _, a := range b.Arms {
		if a.Method == method {
			return a, true
		}
	}
	return Arm{}, false
}

// plainTable aligns columns with spaces.
func plainTable(w *strings.Builder, t table) {
	width := make([]int, len(t.head))
	for i, h := range t.head {
		width[i] = utf8.RuneCountInString(h)
		for _, row := range t.rows {
			width[i] = max(width[i], utf8.RuneCountInString(row[i].text))
		}
	}
	line := func(texts func(i int) string) {
		var s strings.Builder
		for i := range t.head {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(texts(i)))
			if i == 0 {
				s.WriteString(texts(i) + pad)
			} else {
				s.WriteString("   " + pad + texts(i))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(s.String(), " "))
	}
	line(func(i int) string { return t.head[i] })
	for _, row := range t.rows {
		line(func(i int) string { return row[i].text })
	}
}
