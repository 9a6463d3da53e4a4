package report

import (
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/infer"
)

// Section is a headed piece of the report. Every format draws every section,
// and every part in the form that it has for it.
type Section struct {
	Title  string
	Anchor string // its address on the page
	Level  int    // 1: the report itself; 2: one of its chapters; 3: within the chapter before it
	Nav    string // its name in the page's navigation, "" where it has none
	Parts  []Part
}

// Part is a Table, Figure, Text or Film.
type Part interface{ isPart() }

// Table is rows of fields under a head.
type Table struct {
	Anchor  string // the label of LaTeX's table
	Caption string
	Head    []string
	Rows    [][]Field
	Fold    string // what stands on the page in place of a table that is folded away; "" shows it
}

// Field is one field of a Table. A mean with its spread reads "83.3 ± 8.2".
type Field struct {
	Text  string
	key   float64 // sorts the column; NaN where the text does
	bold  bool
	muted bool
	left  bool // words, not numbers
	again bool // the same as in the row above, which the page leaves out until the table is sorted
}

// Figure is one or several panels under one caption.
type Figure struct {
	Caption string
	Panels  []template.HTML
	Legend  []Item // of the colours
	Beside  []Text // what a page has room for at its side
}

// Text is a paragraph or, with Items, a list.
type Text struct {
	Style string // what it is, for the page's style: lead, tiles, facts, checks, ...
	Title string
	Body  string
	Items []Item
	Fold  string // what stands on the page in place of a text that is folded away; "" shows it
}

// Item is one of a list: a name, a value, and words on them. Any may be empty.
type Item struct {
	Name, Value, Text string
	Class             string // on the page
	Source            string // where the name is from
	Link              string // anchor of the section that has more
}

// Film is an episode to watch, once a method.
type Film struct {
	Caption string
	Clips   []Clip
}

func (Table) isPart()  {}
func (Figure) isPart() {}
func (Text) isPart()   {}
func (Film) isPart()   {}

// Sections is the report as every format shows it.
func (r *Report) Sections() []Section {
	return slices.Concat(
		r.front(),
		r.claimList(),
		r.overview(),
		r.tasks(),
		r.besideThePaper(),
		r.overEverything(),
		r.robust(),
		r.checkList(),
		r.howComputed(),
	)
}

func words(s string) Field { return Field{Text: s, key: math.NaN(), left: true} }

func number(text string, key float64) Field { return Field{Text: text, key: key} }

func whole(n int) Field { return number(itoa(n), float64(n)) }

// none stands where there is no number.
func none() Field { return Field{Text: "–", key: math.NaN(), muted: true} }

// muted are the fields of a row that stands behind the others.
func muted(row []Field) []Field {
	for i := range row {
		row[i].muted = true
	}
	return row
}

// Quiet are the rows, in which the first words that the row above has too are marked.
func (t Table) Quiet() [][]Field {
	rows := slices.Clone(t.Rows)
	for i := 1; i < len(rows); i++ {
		rows[i] = slices.Clone(rows[i])
		for k := range rows[i] {
			if f := &rows[i][k]; !f.left || f.Text != rows[i-1][k].Text {
				break
			}
			rows[i][k].again = true
		}
	}
	return rows
}

// Main is the field without its spread.
func (f Field) Main() string { s, _, _ := strings.Cut(f.Text, " ± "); return s }

// Spread is what stands after ±, if anything.
func (f Field) Spread() string { _, s, _ := strings.Cut(f.Text, " ± "); return s }

// Left says that the field holds words, which stand on the left.
func (f Field) Left() bool { return f.left }

// Class is the field's style on the page.
func (f Field) Class() string {
	var c []string
	for name, on := range map[string]bool{"left": f.left, "best": f.bold, "muted": f.muted, "again": f.again} {
		if on {
			c = append(c, name)
		}
	}
	slices.Sort(c)
	return strings.Join(c, " ")
}

// Key sorts the field's column on the page; "" where the text does.
func (f Field) Key() string {
	if math.IsNaN(f.key) {
		return ""
	}
	return strconv.FormatFloat(f.key, 'g', 8, 64)
}

// orNaN is the value of what a row need not have.
func orNaN(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}

// adjusted is the one adjusted p-value of a row that a reader should use: Holm's
// for a mean over tiers (or the only tier), Benjamini and Hochberg's for a tier
// among others.
func adjusted(r infer.Difference) float64 {
	if math.IsNaN(r.BH) {
		return orNaN(r.HolmP)
	}
	return r.BH
}
