package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/words"
)

// A view is a table of the report under construction. A row is the description of
// numbers: a Number with a source, place, arms and seed, but without What and values.
// Each column adds its kind of number (What), looks it up with Find, and formats it.
// The same row therefore shows success, difference and p-value, and a published row
// below it differs in the source only. For example:
//
//	v := r.view("icem", "What iCEM gains over CEM ...",
//		task, method, source,                            // words of the row
//		number("Difference", infer.Gain, points),        // the value of a number
//		number("95 % interval", infer.Gain, interval))   // its interval
//	for _, row := range r.rows(infer.Gain, g.Name) {     // all numbers of this kind
//		v.both(row)                                      // ours, then the paper's
//	}
//	return v.Table
type view struct {
	doc.Table
	table   *infer.Table
	columns []column
}

// column is a column of a view: its head, and the field that it shows in a row.
type column struct {
	head string
	show func(t *infer.Table, row infer.Number) doc.Field
}

// view returns a view without rows.
func (r *Report) view(anchor, caption string, columns ...column) *view {
	v := &view{Table: doc.Table{Anchor: anchor, Caption: caption}, table: r.Table, columns: columns}
	for _, c := range columns {
		v.Head = append(v.Head, c.head)
	}
	return v
}

// fields returns the fields of a row, without adding it.
func (v *view) fields(row infer.Number) (out []doc.Field) {
	for _, c := range v.columns {
		out = append(out, c.show(v.table, row))
	}
	return out
}

// row adds a row.
func (v *view) row(row infer.Number) { v.Rows = append(v.Rows, v.fields(row)) }

// published adds, muted, the rows of the paper and of its authors that correspond to a
// row of ours. A row without any number is left out. The row must not have a seed or
// settings, which published numbers do not have.
func (v *view) published(row infer.Number) {
	for _, row.Source = range []string{infer.Paper, infer.Authors} {
		if f := v.fields(row); slices.ContainsFunc(f, func(f doc.Field) bool { return !f.Left() && f.Text != words.None }) {
			v.Rows = append(v.Rows, doc.Mute(f))
		}
	}
}

// both adds a row of ours and the published rows, which have no training seed and no
// settings. Without cells under the paper's settings there are no published rows.
func (v *view) both(row infer.Number) {
	v.row(row)
	if i := slices.IndexFunc(v.table.Groups, func(g infer.Group) bool { return g.Name == row.Settings }); i >= 0 && len(v.table.Groups[i].Published().Blocks) == 0 {
		return
	}
	row.Settings, row.Seed = "", nil
	v.published(row)
}

// format formats a number, which is not nil.
type format func(n *infer.Number) doc.Field

// number is a column of the numbers of a kind.
func number(head, what string, f format) column { return at(head, what, "", f) }

// at is a column of the numbers of a kind at a tier. Without a tier it is that of the
// row. A number that does not exist is shown as missing.
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

// text is a column of words that are derived from the description of a row.
func text(head string, say func(row infer.Number) string) column {
	return column{head, func(_ *infer.Table, row infer.Number) doc.Field { return doc.Words(say(row)) }}
}

// Columns that several tables share.
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

// value returns a format of the value.
func value(form func(float64) string) format {
	return of(func(n *infer.Number) *float64 { return n.Value }, form)
}

// of returns a format of one of the number's parts, which is missing if the part is
// nil.
func of(part func(*infer.Number) *float64, form func(float64) string) format {
	return func(n *infer.Number) doc.Field {
		x := part(n)
		if x == nil {
			return doc.Missing()
		}
		return doc.Number(form(*x), *x)
	}
}

// Formats that several tables share.
var (
	rate     = value(words.Points)
	points   = value(words.Signed)
	whole    = value(func(x float64) string { return strconv.Itoa(int(x)) })
	percent  = value(func(x float64) string { return words.Signed(x) + " %" })
	pvalue   = of(func(n *infer.Number) *float64 { return n.P }, words.P)
	adjusted = of(func(n *infer.Number) *float64 { return n.Adjusted }, words.P)
	sd       = of(func(n *infer.Number) *float64 { return n.SD }, words.Points)
)

// decimals returns a format with n decimals.
func decimals(n int) format { return value(func(x float64) string { return words.Decimal(x, n) }) }

// count formats the number of units N instead of the value.
func count(n *infer.Number) doc.Field { return doc.Whole(n.N) }

// interval formats the 95 % interval of a difference.
func interval(n *infer.Number) doc.Field { return between(n, words.Signed) }

// rateInterval formats the interval of a success, within 0 to 100 %: Student's interval over
// few training seeds can be wider.
func rateInterval(n *infer.Number) doc.Field {
	return between(n, func(x float64) string { return words.Points(min(max(x, 0), 100)) })
}

// between formats the interval with form, and sorts it by its lower end.
func between(n *infer.Number, form func(float64) string) doc.Field {
	if n.Lo == nil || n.Hi == nil {
		return doc.Missing()
	}
	return doc.Number(form(*n.Lo)+" to "+form(*n.Hi), *n.Lo)
}

// intervalOf returns a format of the interval with that many decimals.
func intervalOf(digits int) format {
	return func(n *infer.Number) doc.Field {
		return between(n, func(x float64) string { return words.Decimal(x, digits) })
	}
}

// spread formats a success with its standard deviation.
func spread(n *infer.Number) doc.Field {
	if n.Value == nil {
		return doc.Missing()
	}
	return doc.Number(words.Spread(*n.Value, infer.Or(n.SD)), *n.Value)
}

// spreadOf returns a format of a mean with its standard deviation, with that many decimals.
func spreadOf(digits int) format {
	return func(n *infer.Number) doc.Field {
		f := decimals(digits)(n)
		if n.SD != nil {
			f.Text += " ± " + words.Decimal(*n.SD, digits)
		}
		return f
	}
}

// digits is a format with three significant digits, and groups of digits in large
// numbers. Values that are not positive are missing: they were not measured.
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

// grouped formats an integer in groups of digits. It is missing if it is not positive.
func grouped(n *infer.Number) doc.Field {
	if x := infer.Or(n.Value); x > 0 {
		return doc.Number(words.Thousands(int(x)), x)
	}
	return doc.Missing()
}

// listed formats differences as a list.
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

// shown formats a number, which may be nil.
func shown(n *infer.Number, f format) doc.Field {
	if n == nil {
		return doc.Missing()
	}
	return f(n)
}

// rows returns the descriptions of our numbers of a kind with some settings and without
// a training seed, in the order of the table.
func (r *Report) rows(what, settings string) (out []infer.Number) {
	for _, n := range r.Where(what, func(n *infer.Number) bool { return n.Source == infer.Ours && n.Seed == nil && n.Settings == settings }) {
		out = append(out, row(n))
	}
	return out
}

// row returns the description of a number, for use as a row.
func row(n *infer.Number) infer.Number {
	return infer.Number{Source: n.Source, Place: n.Place, Of: n.Of, Minus: n.Minus, Seed: n.Seed}
}

// section returns a section with those parts that have something to show, or nothing if
// there are none. Concatenating such results leaves out empty sections.
func section(s doc.Section, parts ...doc.Part) []doc.Section {
	if s.Parts = doc.Filled(parts...); len(s.Parts) == 0 {
		return nil
	}
	return []doc.Section{s}
}
