// Package doc has a document model and its renderers. A document is a list of sections; their parts are
// tables, figures, texts and films. It is rendered as HTML, Markdown, LaTeX and CSV; figures are SVG. All
// text is escaped for the format, so it may come from untrusted files. The package knows nothing of
// evaluations.
package doc

import (
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Section is a part of a document with a heading. Every format shows every section; what a format cannot
// show, such as a film, becomes a line that refers to the page.
type Section struct {
	Title  string
	Anchor string // anchor on the page
	Level  int    // 1: the document; 2: a chapter; 3: a section of the chapter before it
	Nav    string // name in the page's navigation; "": not listed
	Parts  []Part
}

// Part is a Table, Figure, Text or Film.
type Part interface {
	// Empty reports whether the part has nothing to show.
	Empty() bool
}

// Table has rows of fields below a head.
type Table struct {
	Anchor  string // label of the table in LaTeX
	Caption string
	Head    []string
	Rows    [][]Field
	Fold    string // title of the fold that hides the table on the page; "": not hidden
}

// Field is a field of a Table. A mean with its spread is written "83.3 ± 8.2".
type Field struct {
	Text  string
	Sort  float64 // key for sorting the column; NaN: sort by text
	Bold  bool
	Muted bool
	left  bool // aligned to the left, for words
	again bool // equal to the row above; the page hides it until the table is sorted
}

// Figure has one or several panels with one caption.
type Figure struct {
	Caption string
	Panels  []template.HTML
	Legend  []Item // legend of the colours
	Aside   []Text // texts that the page shows next to the figure
}

// Text is a paragraph or, with Items, a list.
type Text struct {
	Style string // its CSS class: lead, tiles, facts, checks, ...
	Title string
	Body  string
	Items []Item
	Fold  string // as in Table
}

// Item is an element of a list: a name, a value and a text. Any may be empty.
type Item struct {
	Name, Value, Text string
	Class             string // CSS class on the page
	Source            string // where the name comes from
	Link              string // anchor of the section with details
}

// Film shows an episode, with one clip per arm.
type Film struct {
	Caption string
	Cast    string // the arms, for formats without pictures
	Clips   []Clip
}

// Clip is an animation with a title, a note and a CSS class.
type Clip struct {
	Title, Note, Class string
	GIF                []byte
}

func (t Table) Empty() bool  { return len(t.Rows) == 0 }
func (f Figure) Empty() bool { return len(f.Panels) == 0 }
func (t Text) Empty() bool   { return t.Body == "" && len(t.Items) == 0 }
func (f Film) Empty() bool   { return len(f.Clips) == 0 }

// Filled returns the parts that are not empty.
func Filled(parts ...Part) []Part { return slices.DeleteFunc(slices.Clone(parts), Part.Empty) }

// Words returns a field of words, aligned to the left.
func Words(s string) Field { return Field{Text: s, Sort: math.NaN(), left: true} }

// Number returns a field with a number. x is its key for sorting.
func Number(text string, x float64) Field { return Field{Text: text, Sort: x} }

// Int returns a field with an integer.
func Int(n int) Field { return Number(strconv.Itoa(n), float64(n)) }

// Missing returns the field for a number that does not exist.
func Missing() Field { return Field{Text: "–", Sort: math.NaN(), Muted: true} }

// Mute greys out the fields of a row.
func Mute(row []Field) []Field {
	for i := range row {
		row[i].Muted = true
	}
	return row
}

// Embolden sets the fields of a row in bold.
func Embolden(row []Field) []Field {
	for i := range row {
		row[i].Bold = true
	}
	return row
}

// Quiet returns the rows with those leading words marked that are equal to the row above.
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

// Main returns the text without its spread.
func (f Field) Main() string { s, _, _ := strings.Cut(f.Text, " ± "); return s }

// Spread returns the text after ±, if any.
func (f Field) Spread() string { _, s, _ := strings.Cut(f.Text, " ± "); return s }

// Left reports whether the field is aligned to the left.
func (f Field) Left() bool { return f.left }

// Class returns the CSS classes of the field.
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

// Key returns the key that sorts the field's column on the page, "" to sort by text.
func (f Field) Key() string {
	if math.IsNaN(f.Sort) {
		return ""
	}
	return strconv.FormatFloat(f.Sort, 'g', 8, 64)
}
