package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// A view is a table in the making. A row is a partial description of numbers (source, place, arms, seed); a
// column completes the description, looks the number up and formats it.
type view struct {
	doc.Table
	table   *infer.Table
	columns []column
}

type column struct {
	head string
	show func(t *infer.Table, row infer.Number) doc.Field
}

func (r *Report) view(anchor, caption string, columns ...column) *view {
	v := &view{Table: doc.Table{Anchor: anchor, Caption: caption}, table: r.Table, columns: columns}
	for _, c := range columns {
		v.Head = append(v.Head, c.head)
	}
	return v
}

// fields returns the fields of a row.
func (v *view) fields(row infer.Number) (out []doc.Field) {
	for _, c := range v.columns {
		out = append(out, c.show(v.table, row))
	}
	return out
}

// row adds a row.
func (v *view) row(row infer.Number) { v.Rows = append(v.Rows, v.fields(row)) }

// published adds rows of the paper and of its authors below a row of ours, if they have a number.
func (v *view) published(row infer.Number) {
	for _, row.Source = range []string{infer.Paper, infer.Authors} {
		if f := v.fields(row); slices.ContainsFunc(f, func(f doc.Field) bool { return !f.Left() && f.Text != words.None }) {
			v.Rows = append(v.Rows, doc.Mute(f))
		}
	}
}

// both adds a row of ours and the published rows, which have no training seed and no settings.
func (v *view) both(row infer.Number) {
	v.row(row)
	row.Settings, row.Seed = "", nil
	v.published(row)
}

// format formats a number that exists.
type format func(n *infer.Number) doc.Field

// number returns a column with the numbers of a kind.
func number(head, what string, f format) column { return at(head, what, "", f) }

// at returns a column with the numbers of a kind at a tier.
func at(head, what, tier string, f format) column {
	return column{head, func(t *infer.Table, row infer.Number) doc.Field {
		if row.What = what; tier != "" {
			row.Tier = tier
		}
		if n := t.Find(row); n != nil {
			return f(n)
		}
		return doc.Missing()
	}}
}

// text returns a column of words.
func text(head string, say func(row infer.Number) string) column {
	return column{head, func(_ *infer.Table, row infer.Number) doc.Field { return doc.Words(say(row)) }}
}

var (
	task       = text("Task", func(n infer.Number) string { return words.Task(n.Task) })
	solver     = text("Solver", func(n infer.Number) string { return words.Solver(n.Solver) })
	tier       = text("Tier", func(n infer.Number) string { return n.Tier })
	method     = text("Method", func(n infer.Number) string { return words.Arm(n.Of) })
	comparison = text("Comparison", func(n infer.Number) string { return words.Minus(n.Of, n.Minus) })
	source     = text("Source", func(n infer.Number) string {
		if n.Source == "" {
			return infer.Ours
		}
		return n.Source
	})
)

// value formats the value of a number.
func value(form func(float64) string) format {
	return of(func(n *infer.Number) *float64 { return n.Value }, form)
}

// of formats a part of a number.
func of(part func(*infer.Number) *float64, form func(float64) string) format {
	return func(n *infer.Number) doc.Field {
		x := part(n)
		if x == nil {
			return doc.Missing()
		}
		return doc.Number(form(*x), *x)
	}
}

var (
	rate      = value(words.Points)
	points    = value(words.Signed)
	integerOf = value(func(x float64) string { return strconv.Itoa(int(x)) })
	percent   = value(func(x float64) string { return words.Signed(x) + " %" })
	pvalue    = of(func(n *infer.Number) *float64 { return n.P }, words.P)
	adjusted  = of(func(n *infer.Number) *float64 { return n.Adjusted }, words.P)
	sd        = of(func(n *infer.Number) *float64 { return n.SD }, words.Points)
)

// decimals formats the value with n decimals.
func decimals(n int) format { return value(func(x float64) string { return words.Decimal(x, n) }) }

// plain formats the value with four decimals and an ASCII minus, as results of rollouts are written.
var plain = value(func(x float64) string { return fmt.Sprintf("%.4f", x) })

// count shows how many units the number is computed over.
func count(n *infer.Number) doc.Field { return doc.Int(n.N) }

// interval shows the 95 % interval.
func interval(n *infer.Number) doc.Field { return between(n, words.Signed) }

func between(n *infer.Number, form func(float64) string) doc.Field {
	if n.Lo == nil || n.Hi == nil {
		return doc.Missing()
	}
	return doc.Number(form(*n.Lo)+" to "+form(*n.Hi), *n.Lo)
}

func intervalOf(digits int) format {
	return func(n *infer.Number) doc.Field {
		return between(n, func(x float64) string { return words.Decimal(x, digits) })
	}
}

// spread shows the value with its standard deviation.
func spread(n *infer.Number) doc.Field {
	if n == nil || n.Value == nil {
		return doc.Missing()
	}
	return doc.Number(words.Spread(*n.Value, infer.Or(n.SD)), *n.Value)
}

// digits formats the value with three digits, and groups the digits of large numbers. It is Missing if
// nothing was measured.
var digits = func(n *infer.Number) doc.Field {
	x := infer.Or(n.Value)
	switch {
	case !(x > 0):
		return doc.Missing()
	case x >= 1000:
		return doc.Number(words.Thousands(int(math.Round(x))), x)
	}
	return doc.Number(fmt.Sprintf("%.3g", x), x)
}

// grouped formats an integer with grouped digits. It is Missing for 0.
func grouped(n *infer.Number) doc.Field {
	if x := infer.Or(n.Value); x > 0 {
		return doc.Number(words.Thousands(int(x)), x)
	}
	return doc.Missing()
}

// listed formats several differences, separated by commas.
func listed(x []float64) doc.Field {
	var s []string
	for _, v := range x {
		s = append(s, words.Signed(v))
	}
	if s == nil {
		return doc.Words(words.None)
	}
	return doc.Words(strings.Join(s, ", "))
}

// rows returns the descriptions of our numbers of a kind with some settings, in the order of the table.
func (r *Report) rows(what, settings string) (out []infer.Number) {
	for _, n := range r.Where(what, func(n *infer.Number) bool { return n.Source == infer.Ours && n.Seed == nil && n.Settings == settings }) {
		out = append(out, row(n))
	}
	return out
}

// row returns the identifying fields of a number.
func row(n *infer.Number) infer.Number {
	return infer.Number{Source: n.Source, Place: n.Place, Of: n.Of, Minus: n.Minus, Seed: n.Seed}
}

// methods returns the arms of blocks without their variants, each once.
func methods(blocks []*infer.Block) (out []results.Arm) {
	for _, a := range infer.Names(blocks) {
		if m := (results.Arm{Method: a.Method}); !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// section returns a section of the parts that are not empty, or nothing if all are.
func section(s doc.Section, parts ...doc.Part) []doc.Section {
	if s.Parts = doc.Filled(parts...); len(s.Parts) == 0 {
		return nil
	}
	return []doc.Section{s}
}

// publishedAs adds the published rows under a checkpoint's row, with its title.
func (v *view) publishedAs(row infer.Number) {
	title := v.Rows[len(v.Rows)-1][0]
	before := len(v.Rows)
	v.published(infer.Number{Place: infer.Place{Task: row.Task}, Of: row.Of})
	for _, fields := range v.Rows[before:] {
		fields[0] = doc.Mute([]doc.Field{title})[0]
	}
}
