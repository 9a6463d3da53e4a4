package doc

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
)

//go:embed page/page.html
var pageHTML string

//go:embed page/style.css
var pageCSS string

//go:embed page/sort.js
var pageJS string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"kind": func(p Part) string { return fmt.Sprintf("%T", p) },
	"gif": func(b []byte) template.URL {
		return template.URL("data:image/gif;base64," + base64.StdEncoding.EncodeToString(b))
	},
}).Parse(pageHTML))

// HTML renders the document as a self-contained page. above is a line above the title of the first section,
// tally a line at the end of the navigation. html/template escapes all text.
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
