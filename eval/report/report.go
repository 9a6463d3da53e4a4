// Package report writes the numbers of a results folder as an HTML page, Markdown, LaTeX, CSV and JSON.
//
// It computes no numbers. Package infer returns them as a table; a section of the report is a view of
// it: a title, a caption, which rows and columns to show, and how to format each. [Of] returns the
// [Report] of a folder's contents, and [Report.Render] its files. The same folder always gives the
// same bytes.
//
//	report.go     the sections, and the formats that they are written in
//	json.go       report.json and the CSV files, which other programs read
//	view.go       tables as projections of the numbers
//	front.go      the result in words, the scores, the terminal's summary
//	paper.go      the tables and figures that the paper has
//	latents.go    the geometry of latents, predictions, what training and planning cost
//	task.go       one task and solver in detail
//	robust.go     what the paper leaves open: seeds, power, settings
//	claims.go     its claims; checks.go: the checks, and how everything is computed
//	fig_*.go      figures
//	style.go      colours and marks of methods
//
// A new section is a function that returns []doc.Section and a line in Sections.
package report

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// Report is the table of numbers of a folder, with methods that show it.
type Report struct{ *infer.Table }

// Of returns the report of a folder's contents, with the errors of infer.Infer.
func Of(c *results.Contents, o infer.Options) (*Report, error) {
	t, err := infer.Infer(c, o)
	if err != nil {
		return nil, err
	}
	return &Report{t}, nil
}

// Sections returns the report's sections, in the order of every format: the reader's result first.
func (r *Report) Sections() []doc.Section {
	return slices.Concat(
		r.front(),
		r.scores(),
		r.likeThePaper(),
		r.compute(),
		r.why(),
		r.tasks(),
		r.robust(),
		r.claims(),
		r.checks(),
		r.howComputed(),
	)
}

// Formats returns the formats in which a report is written by default.
func Formats() []string { return []string{"html", "md", "csv", "json", "tex"} }

// Episodes is the name of the format, and of the file, with one line per episode. It is written only
// on request, because a benchmark has millions of episodes.
const Episodes = "episodes.csv"

// AllFormats returns all formats of a report.
func AllFormats() []string { return append(Formats(), Episodes) }

// File is a file of a rendered report.
type File struct {
	Name  string
	Bytes []byte
}

// Render returns the files of the named formats, in the order of AllFormats.
func (r *Report) Render(formats []string) ([]File, error) {
	for _, f := range formats {
		if !slices.Contains(AllFormats(), f) {
			return nil, fmt.Errorf("report: unknown format %q (hint: one of %s)", f, strings.Join(AllFormats(), ", "))
		}
	}
	sections := r.Sections()
	var out []File
	for _, f := range AllFormats() {
		if !slices.Contains(formats, f) {
			continue
		}
		files, err := r.render(f, sections)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if v := safefile.Visible(string(file.Bytes)); len(v) != len(file.Bytes) {
				file.Bytes = []byte(v)
			}
			out = append(out, file)
		}
	}
	return out, nil
}

func (r *Report) render(format string, sections []doc.Section) ([]File, error) {
	file := File{Name: "report." + format}
	var err error
	switch format {
	case "html":
		file.Bytes, err = doc.HTML("scalewm · paired evaluation · protocol "+words.Listing(r.Origin.Protocols), r.verdicts(), sections)
	case "md":
		file.Bytes = doc.Markdown(sections)
	case "tex":
		file.Bytes = doc.LaTeX(sections)
	case "json":
		file.Bytes, err = r.jsonBytes()
	case "csv":
		file.Bytes = doc.CSV(r.successRows())
		return []File{file, {"report-paired.csv", doc.CSV(r.pairRows())}, {"report-sections.csv", doc.CSV(doc.Rows(sections))}}, nil
	case Episodes:
		file = File{Episodes, doc.CSV(r.episodeRows())}
	}
	return []File{file}, err
}

// marks has a text that each file of a report has near its beginning, and that hardly any other file
// of that name has.
var marks = map[string]string{
	"report.html":         "scalewm · paired evaluation",
	"report.md":           "# Planning with latent world models",
	"report.tex":          "% Needs \\usepackage{booktabs}.",
	"report.json":         "{\n \"cells\": [",
	"report.csv":          "task,solver,method,",
	"report-paired.csv":   "task,solver,a,b,",
	"report-sections.csv": "section,part,kind,",
	Episodes:              "task,solver,method,",
}

// Ours reports whether a report's file may be written to a folder: the folder has no file of that
// name, or it is a report's.
func Ours(dir, name string) (bool, error) {
	return safefile.Marked(filepath.Join(dir, name), []byte(marks[name]))
}

// Foreign returns a file of a folder that has the name of a report's file but is not one, "" if there
// is none.
func Foreign(dir string) string {
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		if ours, err := Ours(dir, name); err != nil || !ours {
			return name
		}
	}
	return ""
}
