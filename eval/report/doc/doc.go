// Package doc is a document of sections, whose parts are tables, figures, texts and films, and its renderers:
// HTML, Markdown, LaTeX and CSV. It draws figures as SVG. It knows nothing of evaluations.
package doc

import (
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Section is a headed piece of a document. Every format draws every section,
// and every part in the form that it has for it.
type Section struct {
	Title  string
	Anchor string // its address on the page
	Level  int    // 1: the document itself; 2: one of its chapters; 3: within the chapter before it
	Nav    string // its name in the page's navigation, "" where it has none
	Parts  []Part
}

// Part is a Table, Figure, Text or Film.
type Part interface {
	// Empty says that the part has nothing to show.
	Empty() bool
}

// Table is rows of fields under a head.
type Table struct {
	Anchor  string // the label of LaTeX's table
	Caption string
	Head    []string
	Rows    [][]Field
	Fold    string // the line under which the page hides the table; "" shows it
}

// Field is one field of a Table. A mean with its spread reads "83.3 ± 8.2".
type Field struct {
	Text  string
	Sort  float64 // sorts the column; NaN where the text does
	Bold  bool
	Muted bool
	left  bool // words, not numbers
	again bool // the same as in the row above, which the page leaves out until the table is sorted
}

// Figure is one or several panels under one caption.
type Figure struct {
	Caption string
	Panels  []template.HTML
	Legend  []Item // of the colours
	Aside   []Text // what a page shows next to the figure
}

// Text is a paragraph or, with Items, a list.
type Text struct {
	Style string // what it is, for the page's style: lead, tiles, facts, checks, ...
	Title string
	Body  string
	Items []Item
	Fold  string // as of a Table
}

// Item is one of a list: a name, a value, and words on them. Any may be empty.
type Item struct {
	Name, Value, Text string
	Class             string // on the page
	Source            string // where the name is from
	Link              string // anchor of the section that has more
}

// Film is an episode to watch, once for each clip.
type Film struct {
	Caption string
	Cast    string // who is seen, for formats without pictures
	Clips   []Clip
}

// Clip is an animation, with its title, a note and its class on the page.
type Clip struct {
	Title, Note, Class string
	GIF                []byte
}

func (t Table) Empty() bool  { return len(t.Rows) == 0 }
func (f Figure) Empty() bool { return len(f.Panels) == 0 }
func (t Text) Empty() bool   { return t.Body == "" && len(t.Items) == 0 }
func (f Film) Empty() bool   { return len(f.Clips) == 0 }

// Filled are the parts that have something to show.
func Filled(parts ...Part) []Part { return slices.DeleteFunc(slices.Clone(parts), Part.Empty) }

// Words is a field of words, which are aligned to the left.
func Words(s string) Field { return Field{Text: s, Sort: math.NaN(), left: true} }

// Number is a field of a number.
func Number(text string, x float64) Field { return Field{Text: text, Sort: x} }

// Whole is a field of a whole number.
func Whole(n int) Field { return Number(strconv.Itoa(n), float64(n)) }

// Missing is the field of a number that does not exist.
func Missing() Field { return Field{Text: "–", Sort: math.NaN(), Muted: true} }

// Mute marks the fields of a row of less weight.
func Mute(row []Field) []Field {
	for i := range row {
		row[i].Muted = true
	}
	return row
}

// Embolden marks the fields of a row.
func Embolden(row []Field) []Field {
	for i := range row {
		row[i].Bold = true
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

// Spread is the text after ±, if any.
func (f Field) Spread() string { _, s, _ := strings.Cut(f.Text, " ± "); return s }

// Left says that the field holds words.
func (f Field) Left() bool { return f.left }

// Class is the field's style on the page.
func (f Field) Class() string {
	var c []string
	for _, style := range []struct {
		name string
		on   bool
	}{{"again", f.again}, {"best", f.Bold}, {"left", f.left}, {"muted", f.Muted}} {
		if style.on {
			c = append(c, style.name)
		}
	}
	return strings.Join(c, " ")
}

// Key sorts the field's column on the page; "" where the text does.
func (f Field) Key() string {
	if math.IsNaN(f.Sort) {
		return ""
	}
	return strconv.FormatFloat(f.Sort, 'g', 8, 64)
}
