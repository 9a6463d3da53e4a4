package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Formats lists what a report can be written as.
func Formats() []string { return []string{"html", "md", "csv", "json", "tex"} }

// File is a rendered report.
type File struct {
	Name  string
	Bytes []byte
}

// Render draws the report in the named formats, in the order of Formats.
func (r *Report) Render(formats []string) ([]File, error) {
	for _, f := range formats {
		if !slices.Contains(Formats(), f) {
			return nil, fmt.Errorf("report: unknown format %q (hint: one of %s)", f, strings.Join(Formats(), ", "))
		}
	}
	var out []File
	for _, f := range Formats() {
		if !slices.Contains(formats, f) {
			continue
		}
		files, err := r.render(f)
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	return out, nil
}

func (r *Report) render(format string) ([]File, error) {
	file := File{Name: "report." + format}
	var err error
	switch format {
	case "html":
		file.Bytes, err = r.html()
	case "md":
		file.Bytes = r.markdown()
	case "tex":
		file.Bytes = r.latex()
	case "json":
		file.Bytes, err = json.MarshalIndent(r.JSON(), "", " ")
		file.Bytes = append(file.Bytes, '\n')
	case "csv":
		if file.Bytes, err = r.successCSV(); err != nil {
			return nil, err
		}
		pairs, err := r.pairCSV()
		return []File{file, {"report-paired.csv", pairs}}, err
	}
	return []File{file}, err
}
