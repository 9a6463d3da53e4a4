package report

import (
	"bytes"
	"encoding/csv"
	"html/template"
	"strings"
	"testing"
)

// evil is what a cell's method may be called.
const evil = `=cmd|' /C calc'!A0 <script>alert(1)</script> 50% a_b & $x$ \input{y} *z* [l](u)` + "\n# head"

// one has a section of each level and a part of each kind, every word its own.
func one() []Section {
	return []Section{
		{Title: "title-of-all", Level: 1, Parts: []Part{Text{Style: "lead", Body: "body-of-lead"},
			Text{Style: "tiles", Items: []Item{{Name: "name-of-tile", Value: "value-of-tile", Text: "text-of-tile", Class: "m-0"}}},
			Text{Style: "facts", Items: []Item{{Name: "name-of-fact", Text: "text-of-fact"}}}}},
		{Title: "title-of-chapter", Anchor: "chapter", Nav: "nav-of-chapter", Level: 2, Parts: []Part{
			Table{Anchor: "shown", Caption: "caption-of-table", Head: []string{"head-one", "head-two"}, Rows: [][]Field{{words("field-one"), number("7.5 ± 2.5", 7.5)}}},
			Table{Anchor: "folded", Caption: "caption-of-fold", Fold: "name-of-fold", Head: []string{"head-three"}, Rows: [][]Field{{words("field-three")}}},
			Text{Style: "checks", Items: []Item{{Name: "name-of-check", Value: "passed", Text: "text-of-check", Class: "passed"}}},
		}},
		{Title: "title-within", Anchor: "within", Level: 3, Parts: []Part{
			Figure{Caption: "caption-of-figure", Panels: []template.HTML{"<svg>panel-one</svg>"}, Beside: []Text{{Title: "title-beside", Items: []Item{{Text: "text-beside"}}}}, Legend: []Item{{Name: "name-in-legend", Class: "m-1"}}},
			Figure{Caption: "caption-of-grid", Panels: []template.HTML{"<svg>panel-two</svg>", "<svg>panel-three</svg>"}},
			Film{Caption: "caption-of-film", Clips: []Clip{{Method: "method-of-film", Tier: "tier-of-film", GIF: []byte("GIF89a")}}},
		}},
	}
}

// textFormats renders sections as everything but JSON, which is computed.
func textFormats(t *testing.T, s []Section) map[string]string {
	t.Helper()
	page, err := html("paper", "all well", s)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"html": string(page), "md": string(markdown(s)), "tex": string(latex(s)), "csv": string(csvBytes(sectionRows(s)))}
}

// No format forgets a part: all words are in all of them, pictures on the page
// and a line that says so elsewhere.
func TestEveryFormatHasEveryPart(t *testing.T) {
	all := []string{"title-of-all", "body-of-lead", "name-of-tile", "value-of-tile", "text-of-tile", "name-of-fact", "text-of-fact", "title-of-chapter",
		"caption-of-table", "head-one", "head-two", "field-one", "7.5", "2.5", "caption-of-fold", "head-three", "field-three", "name-of-check", "passed", "text-of-check",
		"title-within", "caption-of-figure", "text-beside", "caption-of-grid", "caption-of-film", "method-of-film", "tier-of-film"}
	form := map[string][]string{
		"html": {`<a href="#chapter">nav-of-chapter</a>`, `<section id="within" class="level3">`, "<h3>title-within</h3>", "<svg>panel-one</svg>", "<svg>panel-two</svg>", "<svg>panel-three</svg>",
			`src="data:image/gif;base64,R0lGODlh"`, "<details><summary>name-of-fold</summary>", `<li class="m-1"><i></i>name-in-legend</li>`, `<td data-key="7.5">7.5 <span class="sd">± 2.5</span></td>`, "<h4>title-beside</h4>"},
		"md": {"# title-of-all\n", "## title-of-chapter\n", "### title-within\n", "| head-one | head-two |\n| --- | --- |\n| field-one | 7.5 ± 2.5 |", "*Figure on the page report.html: caption-of-figure*",
			"*Film on the page report.html: caption-of-film With method-of-film tier-of-film.*", "<details><summary>name-of-fold</summary>\n\n| head-three |", "- **name-of-check** (passed): text-of-check"},
		"tex": {`\section*{title-of-all}`, `\subsection*{title-of-chapter}`, `\subsubsection*{title-within}`, `field-one & \sr{7.5}{2.5} \\`, `\caption{caption-of-fold}`, `\label{tab:folded}`,
			`\emph{Figure on the page report.html: caption-of-grid}`, `\item \textbf{name-of-check} (passed): text-of-check`},
		"csv": {"title-of-chapter,1,table,1,head-two,7.5 ± 2.5", "title-of-chapter,1,caption,,,caption-of-table", "title-within,1,figure,,,caption-of-figure", "title-of-chapter,3,text,name-of-check,passed,text-of-check"},
	}
	for format, got := range textFormats(t, one()) {
		for _, want := range append(form[format], all...) {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %q:\n%s", format, want, got)
			}
		}
	}
	if err := wellFormed(textFormats(t, one())["html"]); err != nil {
		t.Error(err)
	}
}

// Foreign names are words in every format, wherever they stand.
func TestNamesAreHarmless(t *testing.T) {
	s := []Section{{Title: evil, Level: 1, Parts: []Part{Text{Body: evil, Items: []Item{{Name: evil, Value: evil, Text: evil, Class: "m-0", Source: evil, Link: evil}}}}},
		{Title: evil, Level: 2, Anchor: "a", Parts: []Part{
			Table{Anchor: evil, Caption: evil, Fold: evil, Head: []string{evil, evil}, Rows: [][]Field{{words(evil), words("x")}}},
			Figure{Caption: evil, Panels: []template.HTML{"<svg></svg>"}, Legend: []Item{{Name: evil}}, Beside: []Text{{Title: evil, Body: evil}}},
			Film{Caption: evil, Clips: []Clip{{Method: evil, Tier: evil}}}}}}
	got := textFormats(t, s)
	if err := wellFormed(got["html"]); err != nil || strings.Contains(got["html"], "<script>alert") {
		t.Errorf("the page has a foreign script, or is torn: %v", err)
	}
	if strings.Contains(got["md"], "<script>") || strings.Contains(got["md"], "\n# head") || strings.Contains(got["md"], "*z*") || strings.Contains(got["md"], "[l](u)") {
		t.Errorf("Markdown takes a name for markup:\n%s", got["md"])
	}
	for _, line := range strings.Split(got["md"], "\n") {
		if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); n != 0 && n != 3 {
			t.Errorf("a row of %d bars: %s", n, line)
		}
	}
	for _, bad := range []string{`\input{y}`, " a_b", "50% ", " & $", "$x$"} {
		if strings.Contains(got["tex"], bad) {
			t.Errorf("LaTeX takes %q for a command:\n%s", bad, got["tex"])
		}
	}
	if open, shut := strings.Count(got["tex"], "{"), strings.Count(got["tex"], "}"); open != shut {
		t.Errorf("LaTeX has %d braces opened and %d shut", open, shut)
	}
	rows, err := csv.NewReader(strings.NewReader(got["csv"])).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for _, f := range row {
			if strings.HasPrefix(f, "=") {
				t.Errorf("a spreadsheet would run %q", f)
			}
		}
	}
}

// A quote stands before formulas only: numbers stay numbers.
func TestCSVEscape(t *testing.T) {
	got := csvBytes([][]string{{"=1+1", "+cmd", "-x", "@a", "\tb", "-3.5", "+2", "1e-3", "", "a=b", "+7.8 to +23.3"}})
	rows, err := csv.NewReader(bytes.NewReader(got)).ReadAll()
	want := []string{"'=1+1", "'+cmd", "'-x", "'@a", "'\tb", "-3.5", "+2", "1e-3", "", "a=b", "'+7.8 to +23.3"}
	if err != nil || strings.Join(rows[0], "|") != strings.Join(want, "|") {
		t.Errorf("%q, %v; want %q", rows, err, want)
	}
}
