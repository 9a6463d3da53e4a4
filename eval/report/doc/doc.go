// Package doc represents a document as a list of sections, and renders it as HTML, Markdown,
// LaTeX and CSV. Package report uses it; it does not depend on evaluations.
//
// A Section has parts: a Table, Figure, Text or Film. Figures are drawn as SVG, with a Panel
// for plots with axes. HTML, Markdown, LaTeX and Rows render the same sections, so no format
// lacks a part: formats without pictures refer to the page instead.
//
// Texts may contain names from files of others. Each renderer escapes all text of a document,
// so such a name can become neither markup nor a script, a LaTeX command or a spreadsheet
// formula.
package doc

import (
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Section is a part of a document with a heading. The first section is the title.
type Section struct {
	Title  string
	Anchor string // its address on the page
	Level  int    // 1: the document; 2: a chapter; 3 and 4: sections of what is before them
	Nav    string // its name in the page's navigation, or "" if it is not listed there
	Fold   bool   // the page folds it, with the sections of deeper levels that follow it
	Parts  []Part
}

// Part is a Table, Figure, Text or Film.
type Part interface {
	// Empty reports whether the part has nothing to show.
	Empty() bool
}

// Table is rows of fields under a head.
type Table struct {
	Anchor  string // label of the table in LaTeX
	Caption string
	Head    []string
	Rows    [][]Field // each as long as Head
	// Fold, if not "", is the title under which the page folds the table.
	Fold string
}

// Field is one field of a Table. The text of a mean with its spread is "83.3 ± 8.2",
// which LaTeX and the page set differently.
type Field struct {
	Text  string
	Sort  float64 // key for sorting the column; NaN to sort by the text
	Bold  bool
	Muted bool // of less importance, such as published numbers
	left  bool // the field has words, aligned to the left
	// again marks words that equal those in the row above. The page hides them until the
	// reader sorts the table, because the row above may then be another one.
	again bool
}

// Figure is one or several panels under one caption.
type Figure struct {
	Caption string
	Panels  []template.HTML
	Legend  []Item // explains the colours
	Aside   []Text // shown next to the figure
}

// Text is a paragraph or, with Items, a list.
type Text struct {
	Style string // CSS class that says what it is: lead, tiles, facts, checks, ...
	Title string
	Body  string
	Items []Item
	Fold  string // as in Table
}

// Commands is the style of a list of commands, which are the texts of its items.
const Commands = "commands"

// Item is an element of a list: a name, a value and an explanation. Each may be empty.
type Item struct {
	Name, Value, Text string
	Class             string // CSS class
	Mark              int    // in a legend, the shape of the marks (see SVG.Mark)
	Source            string // where Name is from, such as a section of the paper
	Link              string // anchor of the section with details
}

// Film shows an episode as one or more animations.
type Film struct {
	Caption string
	Cast    string // lists the clips, for formats without pictures
	Clips   []Clip
}

// Clip is an animation with its title, a note, and its CSS class.
type Clip struct {
	Title, Note, Class string
	GIF                []byte
}

// Empty reports whether the table has no rows.
func (t Table) Empty() bool { return len(t.Rows) == 0 }

// Empty reports whether the figure has no panels.
func (f Figure) Empty() bool { return len(f.Panels) == 0 }

// Empty reports whether the text has neither a body nor items. A title alone is nothing.
func (t Text) Empty() bool { return t.Body == "" && len(t.Items) == 0 }

// Empty reports whether the film has no clips.
func (f Film) Empty() bool { return len(f.Clips) == 0 }

// Filled returns the parts that are not empty.
func Filled(parts ...Part) []Part { return slices.DeleteFunc(slices.Clone(parts), Part.Empty) }

// Words returns a field with words, aligned to the left.
func Words(s string) Field { return Field{Text: s, Sort: math.NaN(), left: true} }

// Number returns a field with a number and its text.
func Number(text string, x float64) Field { return Field{Text: text, Sort: x} }

// Whole returns a field with an integer.
func Whole(n int) Field { return Number(strconv.Itoa(n), float64(n)) }

// Missing returns the field of a number that does not exist.
func Missing() Field { return Field{Text: "–", Sort: math.NaN(), Muted: true} }

// Mute marks the fields of a row as less important, in place, and returns it.
func Mute(row []Field) []Field {
	for i := range row {
		row[i].Muted = true
	}
	return row
}

// Embolden makes the fields of a row bold, in place, and returns it.
func Embolden(row []Field) []Field {
	for i := range row {
		row[i].Bold = true
	}
	return row
}

// AddPairs adds pairs of rows: one, and muted the row that it is compared with. Their fields
// from first on are numbers, and rows without any are left out. The best number of a column
// is bold, separately for both kinds of rows: the largest or, with lower, the smallest.
func (t *Table) AddPairs(pairs [][2][]Field, first int, lower bool) {
	var kinds [2][][]Field
	for _, pair := range pairs {
		for i, row := range pair {
			if !slices.ContainsFunc(row[first:], func(f Field) bool { return !math.IsNaN(f.Sort) }) {
				break
			}
			if i == 1 {
				Mute(row)
			}
			kinds[i], t.Rows = append(kinds[i], row), append(t.Rows, row)
		}
	}
	for _, rows := range kinds {
		embolden(rows, first, lower)
	}
}

// embolden makes the best number of each column from first on bold, in place. Numbers are
// compared as printed, so that all of several equal ones are bold.
func embolden(rows [][]Field, first int, lower bool) {
	for column := first; len(rows) > 0 && column < len(rows[0]); column++ {
		var best *Field
		for i := range rows {
			if f := &rows[i][column]; !math.IsNaN(f.Sort) && (best == nil || (f.Sort < best.Sort) == lower && f.Sort != best.Sort) {
				best = f
			}
		}
		for i := range rows {
			rows[i][column].Bold = best != nil && rows[i][column].number() == best.number()
		}
	}
}

// number returns the number of the text, without a spread and without what follows in
// parentheses.
func (f Field) number() string { s, _, _ := strings.Cut(f.Main(), " ("); return s }

// Quiet returns the rows of the table with repeated words marked: the leading fields of
// words that equal those of the row above. The template of the page calls it.
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

// Main returns the text without the spread.
func (f Field) Main() string { s, _, _ := strings.Cut(f.Text, " ± "); return s }

// Spread returns the text after "±", or "".
func (f Field) Spread() string { _, s, _ := strings.Cut(f.Text, " ± "); return s }

// Left reports whether the field has words.
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

// Key returns the key by which the page sorts the field's column, or "" to sort by the
// text.
func (f Field) Key() string {
	if math.IsNaN(f.Sort) {
		return ""
	}
	return strconv.FormatFloat(f.Sort, 'g', 8, 64)
}
