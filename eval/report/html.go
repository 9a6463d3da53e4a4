package report

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

// page is what the template of the page shows.
type page struct {
	Protocol, Verdicts string
	Front              Section
	Sections           []Section
	CSS                template.CSS
	JS                 template.JS
}

// html renders report.html: one file that needs nothing else. The template
// escapes every word that it puts into the page.
func html(protocol, verdicts string, sections []Section) ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"kind": func(p Part) string { return fmt.Sprintf("%T", p) },
		"gif": func(b []byte) template.URL {
			return template.URL("data:image/gif;base64," + base64.StdEncoding.EncodeToString(b))
		},
		"class": class, "title": armTitle,
	}).Parse(pageHTML)
	if err != nil {
		return nil, fmt.Errorf("report: the page's template: %w", err)
	}
	var w bytes.Buffer
	if err := t.Execute(&w, page{protocol, verdicts, sections[0], sections[1:], template.CSS(pageCSS), template.JS(pageJS)}); err != nil {
		return nil, fmt.Errorf("report: drawing the page: %w", err)
	}
	return w.Bytes(), nil
}
