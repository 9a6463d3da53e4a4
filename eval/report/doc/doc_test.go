package doc

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"html/template"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// evil is a malicious name of a method.
const evil = `=cmd|' /C calc'!A0 <script>alert(1)</script> 50% a_b & $x$ \input{y} *z* [l](u)` + "\n# head"

// one returns a section of each level with a part of each kind. All words are
// different.
func one() []Section {
	return []Section{
		{Title: "title-of-all", Level: 1, Parts: []Part{Text{Style: "lead", Body: "body-of-lead"},
			Text{Style: "tiles", Items: []Item{{Name: "name-of-tile", Value: "value-of-tile", Text: "text-of-tile", Class: "m-0"}}},
			Text{Style: "facts", Items: []Item{{Name: "name-of-fact", Text: "text-of-fact"}}}}},
		{Title: "title-of-chapter", Anchor: "chapter", Nav: "nav-of-chapter", Level: 2, Parts: []Part{
			Table{Anchor: "shown", Caption: "caption-of-table", Head: []string{"head-one", "head-two"}, Rows: [][]Field{{Words("field-one"), Number("7.5 ± 2.5", 7.5)}}},
			Table{Anchor: "folded", Caption: "caption-of-fold", Fold: "name-of-fold", Head: []string{"head-three"}, Rows: [][]Field{{Words("field-three")}}},
			Text{Style: "checks", Items: []Item{{Name: "name-of-check", Value: "passed", Text: "text-of-check", Class: "passed"}}},
		}},
		{Title: "title-within", Anchor: "within", Level: 3, Parts: []Part{
			Figure{Caption: "caption-of-figure", Panels: []template.HTML{"<svg>panel-one</svg>"}, Aside: []Text{{Title: "title-aside", Items: []Item{{Text: "text-aside"}}}}, Legend: []Item{{Name: "name-in-legend", Class: "m-1"}}},
			Figure{Caption: "caption-of-grid", Panels: []template.HTML{"<svg>panel-two</svg>", "<svg>panel-three</svg>"}},
			Film{Caption: "caption-of-film", Cast: "With method-of-film tier-of-film.", Clips: []Clip{{Title: "method-of-film", Note: "tier-of-film", GIF: []byte("GIF89a")}}},
			Text{Fold: "name-of-folded-text", Body: "body-of-folded-text"},
		}},
	}
}

// formats renders sections in all formats.
func formats(t *testing.T, s []Section) map[string]string {
	t.Helper()
	page, err := HTML("above", "tally", 6, s)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"html": string(page), "md": string(Markdown(s)), "tex": string(LaTeX(s)), "csv": string(CSV(Rows(s)))}
}

// wellFormed parses a page strictly as XML, after closing its void tags and removing
// its style and script.
func wellFormed(page string) error {
	page = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|<!DOCTYPE html>`).ReplaceAllString(page, "")
	page = regexp.MustCompile(`<(meta|img)([^>]*)>`).ReplaceAllString(page, "<$1$2/>")
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	for {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Every format has all words. Pictures are on the page, and the other formats refer to
// it.
func TestEveryFormatHasEveryPart(t *testing.T) {
	all := []string{"title-of-all", "body-of-lead", "name-of-tile", "value-of-tile", "text-of-tile", "name-of-fact", "text-of-fact", "title-of-chapter",
		"caption-of-table", "head-one", "head-two", "field-one", "7.5", "2.5", "caption-of-fold", "head-three", "field-three", "name-of-check", "passed", "text-of-check",
		"title-within", "caption-of-figure", "text-aside", "caption-of-grid", "caption-of-film", "method-of-film", "tier-of-film", "name-of-folded-text", "body-of-folded-text"}
	form := map[string][]string{
		"html": {`<a href="#chapter">nav-of-chapter</a>`, `<section id="within" class="level3">`, "<h3>title-within</h3>", "<svg>panel-one</svg>", "<svg>panel-two</svg>", "<svg>panel-three</svg>",
			`src="data:image/gif;base64,R0lGODlh"`, "<details><summary>name-of-fold</summary>", `<line class="swatch m-1"`, `</svg>name-in-legend</li>`, `<td data-key="7.5">7.5 <span class="sd">± 2.5</span></td>`, "<h4>title-aside</h4>",
			"above", `<span class="tally">tally</span>`},
		"md": {"# title-of-all\n", "## title-of-chapter\n", "### title-within\n", "| head-one | head-two |\n| --- | --- |\n| field-one | 7.5 ± 2.5 |", "*Figure on the page report.html: caption-of-figure*",
			"*Film on the page report.html: caption-of-film With method-of-film tier-of-film.*", "<details><summary>name-of-fold</summary>\n\n| head-three |", "- **name-of-check** (passed): text-of-check"},
		"tex": {`\section*{title-of-all}`, `\subsection*{title-of-chapter}`, `\subsubsection*{title-within}`, `field-one & \sr{7.5}{2.5} \\`, `\caption{caption-of-fold}`, `\label{tab:folded}`,
			`\emph{Figure on the page report.html: caption-of-grid}`, `\item \textbf{name-of-check} (passed): text-of-check`},
		"csv": {"title-of-chapter,1,table,1,head-two,7.5 ± 2.5", "title-of-chapter,1,caption,,,caption-of-table", "title-within,1,figure,,,caption-of-figure", "title-of-chapter,3,text,name-of-check,passed,text-of-check"},
	}
	for format, got := range formats(t, one()) {
		for _, want := range append(form[format], all...) {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %q:\n%s", format, want, got)
			}
		}
	}
	if err := wellFormed(formats(t, one())["html"]); err != nil {
		t.Error(err)
	}
	if wellFormed("<p><b></p>") == nil {
		t.Error("the test of the page finds nothing")
	}
}

// Malicious names remain plain text in every format, wherever they occur.
func TestNamesAreHarmless(t *testing.T) {
	s := []Section{{Title: evil, Level: 1, Parts: []Part{Text{Body: evil, Items: []Item{{Name: evil, Value: evil, Text: evil, Class: "m-0", Source: evil, Link: evil}}}}},
		{Title: evil, Level: 2, Anchor: "a", Parts: []Part{
			Table{Anchor: evil, Caption: evil, Fold: evil, Head: []string{evil, evil}, Rows: [][]Field{{Words(evil), Words("x")}}},
			Figure{Caption: evil, Panels: []template.HTML{"<svg></svg>"}, Legend: []Item{{Name: evil}}, Aside: []Text{{Title: evil, Body: evil}}},
			Film{Caption: evil, Cast: evil, Clips: []Clip{{Title: evil, Note: evil, Class: evil}}}}}}
	got := formats(t, s)
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

// Only formulas get a quote in front. Numbers remain numbers.
func TestCSVEscape(t *testing.T) {
	got := CSV([][]string{{"=1+1", "+cmd", "-x", "@a", "\tb", "-3.5", "+2", "1e-3", "", "a=b", "+7.8 to +23.3"}})
	rows, err := csv.NewReader(bytes.NewReader(got)).ReadAll()
	want := []string{"'=1+1", "'+cmd", "'-x", "'@a", "'\tb", "-3.5", "+2", "1e-3", "", "a=b", "'+7.8 to +23.3"}
	if err != nil || strings.Join(rows[0], "|") != strings.Join(want, "|") {
		t.Errorf("%q, %v; want %q", rows, err, want)
	}
}

func TestNumbersAsText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Compact(0), "0"}, {Compact(1500), "1.5k"}, {Compact(0.02), "0.02"}, {Compact(1e-5), "1e-05"},
		{px(1.005), "1"}, {px(2.5), "2.5"}, {px(-0.001), "0"},
		{texEscape("5 % & a_b −1"), `5 \% \& a\_b $-$1`},
		{Exact(1.0 / 3), "0.3333333333333333"}, {Exact(math.NaN()), ""},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		a    Axis
		n    int
		want string
	}{
		{Axis{Lo: 0, Hi: 100}, 5, "0 20 40 60 80 100"},
		{Axis{Lo: -12, Hi: 31}, 6, "-10 0 10 20 30"},
		{Axis{Lo: 20, Hi: 12000, Log: true}, 0, "100 1000 10000"},
	} {
		var got []string
		for _, v := range c.a.Ticks(c.n) {
			got = append(got, strconv.FormatFloat(v, 'f', -1, 64))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("ticks of %v: %s, want %s", c.a, s, c.want)
		}
	}
}

func TestAxis(t *testing.T) {
	lin, log := Axis{Lo: 0, Hi: 10, From: 100, To: 0}, Axis{Lo: 1, Hi: 1000, From: 0, To: 300, Log: true}
	if got := lin.At(2.5); math.Abs(got-75) > 1e-12 {
		t.Errorf("linear: %v, want 75", got)
	}
	if got := log.At(10); math.Abs(got-100) > 1e-9 {
		t.Errorf("logarithmic: %v, want 100", got)
	}
}
