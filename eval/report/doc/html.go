package doc

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
)

// The page is one file: the template includes the style sheet and the script.
//
//go:embed page/page.html
var pageHTML string

//go:embed page/style.css
var pageCSS string

//go:embed page/sort.js
var pageJS string

// pageTemplate distinguishes parts by their type (kind), and embeds GIFs as data URLs, which
// html/template would otherwise reject.
var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"kind":   func(p Part) string { return fmt.Sprintf("%T", p) },
	"swatch": swatch,
	"gif": func(b []byte) template.URL {
		return template.URL("data:image/gif;base64," + base64.StdEncoding.EncodeToString(b))
	},
}).Parse(pageHTML))

// node is a section with the sections that are folded with it.
type node struct {
	Section
	Inner []node
}

// nest returns sections as trees: a section that is folded contains the deeper ones that
// follow it.
func nest(sections []Section) (out []node) {
	for i := 0; i < len(sections); {
		end := i + 1
		for sections[i].Fold && end < len(sections) && sections[end].Level > sections[i].Level {
			end++
		}
		out = append(out, node{sections[i], nest(sections[i+1 : end])})
		i = end
	}
	return out
}

// swatch returns the mark of a legend's item, on a piece of its line.
func swatch(i Item) template.HTML {
	s := NewSVG(24, 12)
	s.Line(XY(0, 6), XY(24, 6), "swatch "+i.Class)
	s.Mark(XY(12, 6), i.Mark, i.Class, "")
	return s.HTML(i.Name)
}

// coloured is the number of classes m-0, m-1, ... that the style sheet gives a colour.
const coloured = 4

// palette returns the colours of the classes m-4, m-5, ... up to n. Their hues are
// apart by the golden angle, so that any first few of them are far from one another.
func palette(n int) (css template.CSS) {
	for i := coloured; i < n; i++ {
		css += template.CSS(fmt.Sprintf(".m-%d { --c: hsl(%.0f 58%% var(--light)); }\n", i, math.Mod(45+137.508*float64(i-coloured), 360)))
	}
	return css
}

// HTML renders the document as a single page that needs no other file. The line above
// is shown over the title, and tally at the end of the navigation. The classes m-0, m-1,
// ... below colours are coloured. Package html/template escapes all text; figures are
// trusted, since SVG escapes the texts in them.
func HTML(above, tally string, colours int, sections []Section) ([]byte, error) {
	var w bytes.Buffer
	err := pageTemplate.Execute(&w, struct {
		Above, Tally string
		Front        Section
		Sections     []Section
		Nodes        []node
		CSS          template.CSS
		JS           template.JS
	}{above, tally, sections[0], sections[1:], nest(sections[1:]), template.CSS(pageCSS) + palette(colours), template.JS(pageJS)})
	if err != nil {
		return nil, fmt.Errorf("drawing the page: %w", err)
	}
	return w.Bytes(), nil
}
