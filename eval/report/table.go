package report

import (
	"fmt"
	"math"
	"strings"

	"scalewm/eval/stats"
)

// table is what Markdown, LaTeX, HTML and the terminal draw alike.
type table struct {
	caption string
	head    []string
	rows    [][]entry
}

// entry is one field of a table.
type entry struct {
	text  string
	key   float64 // sorts the column; NaN where text does
	bold  bool
	muted bool
	left  bool // words, not numbers
}

func words(s string) entry { return entry{text: s, key: math.NaN(), left: true} }

// none stands where there is no number.
func none() entry { return entry{text: "–", key: math.NaN(), muted: true} }

func number(text string, key float64) entry { return entry{text: text, key: key} }

// successTable is the paper's table: methods by tiers, mean ± SD over sets.
func (b *Block) successTable() table {
	t := table{head: []string{"Method"}, caption: fmt.Sprintf(
		"%s: success rate (%%), mean ± SD (ddof 1) over %s of %s; the last column averages the tiers. Bold marks the best of a column.",
		b.title(), count(len(b.Sets), "evaluation set"), count(b.Tiers[0].Episodes, "episode"))}
	for _, tier := range b.Tiers {
		t.head = append(t.head, tier.Name)
	}
	t.head = append(t.head, "Mean")
	for _, a := range b.Arms {
		row := []entry{words(b.label(a))}
		for _, s := range b.scores(a) {
			e := number(pm(s), s.Mean)
			e.bold = s.Sets > 0 && points(s.Mean) == points(b.best(s.Tier))
			e.muted = floor(a.Method) || s.Sets == 0
			row = append(row, e)
		}
		row[0].muted = floor(a.Method)
		t.rows = append(t.rows, row)
	}
	return t
}

// scores lists an arm's scores at the block's tiers and their mean.
func (b *Block) scores(a Arm) []Score {
	var out []Score
	for _, t := range b.Tiers {
		s := a.Scores[t.Name]
		s.Tier = t.Name
		out = append(out, s)
	}
	return append(out, a.Mean)
}

// best is the highest mean at a tier.
func (b *Block) best(tier string) float64 {
	top := math.Inf(-1)
	for _, a := range b.Arms {
		for _, s := range b.scores(a) {
			if s.Tier == tier && s.Sets > 0 {
				top = max(top, s.Mean)
			}
		}
	}
	return top
}

// pairTable lists the paired differences of a block.
func (b *Block) pairTable() table {
	t := table{head: []string{"Comparison", "Tier", "Episodes", "A only", "B only", "Difference", "95 % interval", "p", "p, mid", "p over sets", "p, Holm", "p, step-down", "p, BH", fmt.Sprintf("Within %d points", stats.Margin)},
		caption: b.title() + ": paired differences in points of success. A tier has Newcombe's interval and the exact McNemar test; a mean over tiers the stratified bootstrap of episodes and their sign flips. \"p over sets\" is the exact sign flip of set sums; Holm adjusts the means over tiers of all tasks and solvers, step-down (Westfall and Young) too, with the dependence between them; BH (Benjamini and Hochberg) bounds the share of false findings among the tiers; the last column places the 90 % interval against the margin."}
	for _, p := range b.Pairs {
		for _, d := range p.Rows {
			a, c := "–", "–"
			if d.Binary {
				a, c = itoa(d.AOnly), itoa(d.BOnly)
			}
			row := []entry{words(p.name()), words(d.Tier), number(itoa(d.N), float64(d.N)), number(a, float64(d.AOnly)), number(c, float64(d.BOnly)),
				number(signed(d.Diff), d.Diff), number(interval(d.Lo, d.Hi), d.Lo), number(pvalue(d.P), d.P), number(pvalue(d.MidP), d.MidP),
				number(pvalue(d.SetP), d.SetP), number(pvalue(d.Holm), d.Holm), number(pvalue(d.StepDown), d.StepDown), number(pvalue(d.BH), d.BH), words(string(d.Verdict))}
			for i := range row {
				row[i].bold = d.Tier == MeanTier && i < 6
			}
			t.rows = append(t.rows, row)
		}
	}
	return t
}

// name reads "SCALE − LeWM".
func (p Pair) name() string { return methodName(p.A) + " − " + methodName(p.B) }

// headline is the row that speaks for a pair: its last, the mean over tiers
// where there is one.
func (p Pair) headline() (Difference, bool) {
	if len(p.Rows) == 0 {
		return Difference{}, false
	}
	return p.Rows[len(p.Rows)-1], true
}

// paperTable puts the published numbers under ours; ok is false where the paper
// has none for the block.
func (b *Block) paperTable() (t table, ok bool) {
	paper := Published()
	t.head = []string{"Method", "Source"}
	for _, tier := range b.Tiers {
		t.head = append(t.head, tier.Name)
	}
	t.head = append(t.head, "Mean of these", "Mean T1–T5")
	var labels []string
	for _, a := range b.Arms {
		pub, label, found := paper.row(b.Task, b.Solver, a.Method)
		if !found {
			continue
		}
		ok = true
		if len(labels) == 0 {
			labels = append(labels, label)
		}
		t.rows = append(t.rows, b.ourRow(a), b.paperRow(a, paper, pub))
	}
	t.caption = fmt.Sprintf("%s: the paper's numbers (%s, %s of 100 episodes, mean ± SD) under ours.",
		b.title(), strings.Join(labels, ", "), count(paper.Sets[b.Solver], "set"))
	return t, ok
}

func (b *Block) ourRow(a Arm) []entry {
	row := []entry{words(b.label(a)), words("ours")}
	for _, s := range b.scores(a) {
		row = append(row, number(pm(s), s.Mean))
	}
	all := none()
	if len(b.Tiers) == 5 && len(a.Scores) == 5 {
		all = number(points(a.Mean.Mean), a.Mean.Mean)
	}
	return append(row, all)
}

func (b *Block) paperRow(a Arm, paper Paper, pub PaperRow) []entry {
	row := []entry{words(b.label(a)), words("paper")}
	sum, n := 0.0, 0
	for _, t := range b.Tiers {
		mean, sd, ok := paper.at(pub, t.Name)
		if !ok {
			row = append(row, none())
			continue
		}
		sum += mean
		n++
		row = append(row, number(points(mean)+" ± "+points(sd), mean))
	}
	these := none()
	if n == len(b.Tiers) {
		these = number(points(sum/float64(n)), sum/float64(n))
	}
	row = append(row, these, number(points(pub.Average), pub.Average))
	for i := range row {
		row[i].muted = true
	}
	return row
}
