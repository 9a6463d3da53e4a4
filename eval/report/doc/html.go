package doc

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
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
	"kind": func(p Part) string { return fmt.Sprintf("%T", p) },
	"gif": func(b []byte) template.URL {
		return template.URL("data:image/gif;base64," + base64.StdEncoding.EncodeToString(b))
	},
}).Parse(pageHTML))

// HTML renders the document as a single page that needs no other file. The line above
// is shown over the title, and tally at the end of the navigation. Package
// html/template escapes all text; figures are trusted, since SVG escapes the texts in
// them.
func HTML(above, tally string, sections []Section) ([]byte, error) {
	var w bytes.Buffer
	err := pageTemplate.Execute(&w, struct {
		Above, Tally string
		Front        Section
		Sections     []Section
		CSS          template.CSS
		JS           template.JS
	}{above, tally, sections[0], sections[1:], template.CSS(pageCSS), template.JS(pageJS)})
	if err != nil {
		return nil, fmt.Errorf("drawing the page: %w", err)
	}
	return w.Bytes(), nil
}
