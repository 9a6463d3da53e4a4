// Package report shows the numbers of a results folder as a web page, Markdown, LaTeX, CSV
// and JSON. `scalewm report` and `scalewm reproduce` write these files.
//
// The package computes no number. Package infer does, and returns them in one table. A
// section of the report is a view of this table: a title, captions, and tables whose rows
// are descriptions of numbers and whose columns say which number of a row they show and
// how (see view). Package doc renders the sections. The same folder always gives the same
// bytes, so reports can be compared and tested against golden files.
//
// Of computes the table of a folder, and Report.Render writes it in the named formats.
//
//	report.go     the sections, and the formats in which they are written
//	json.go       report.json and the CSV files, for other programs
//	view.go       tables as views of the numbers
//	front.go      the main result in words, the scores, the summary for the terminal
//	paper.go      the tables of the paper; the cost of training and planning
//	trained.go    what was trained, next to what the paper trained
//	latents.go    the geometry of latents, and predictions
//	leverage.go   what weighs in the planning cost
//	task.go       one task and solver in detail
//	decompose.go  why planning succeeds or fails: searches with replaced components
//	speed.go      what success on a task costs, and how soon it comes
//	robust.go     what the paper does not say
//	claims.go     the paper's claims; checks.go: the checks, and how numbers are computed
//	commands.go   the commands that would add to the folder
//	fig_*.go      figures
//	style.go      colours and marks of methods
//
// A new section is a function that returns []doc.Section and a line in Sections. A new
// column is a column value in a view, and if it needs a number that infer does not have, an
// add there. A new format is a renderer in package doc, a case in render, and a line in
// Formats and marks. The golden files in testdata show the effect of a change on all formats;
// `go test ./eval/report -update` rewrites them.
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

// Report is the table of numbers of a results folder, with the views of it.
type Report struct {
	*infer.Table
	// Command returns the command that continues the run of the folder with flags of
	// `reproduce`, for the commands that the report suggests. It may be nil.
	Command func(flags string) string

	arms []results.Arm // in the order of their colours
}

// Of returns the report of a folder's contents. It returns the errors of infer.Infer.
func Of(c *results.Contents, o infer.Options) (*Report, error) {
	t, err := infer.Infer(c, o)
	if err != nil {
		return nil, err
	}
	return &Report{Table: t, arms: palette(t)}, nil
}

// Sections returns the sections of the report in the order of all formats. The reader's
// own result is first, then the tables of the paper, what may explain success, details by
// task, and last what a careful reader checks: robustness, claims, checks, and methods.
// Sections without content are left out.
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

// Episodes is the format with one line for each episode, and the name of its file. It
// is written only on request, because a benchmark has millions of episodes.
const Episodes = "episodes.csv"

// AllFormats returns the formats in which a report can be written.
func AllFormats() []string { return append(Formats(), Episodes) }

// File is one file of a rendered report.
type File struct {
	Name  string
	Bytes []byte
}

// Render returns the files of the report in the named formats, in the order of
// AllFormats. The sections are computed once for all formats. An unknown format is an
// error before anything is rendered.
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
			// Names from cells may contain control characters that reverse or hide text.
			if v := safefile.Visible(string(file.Bytes)); len(v) != len(file.Bytes) {
				file.Bytes = []byte(v)
			}
			out = append(out, file)
		}
	}
	return out, nil
}

// render returns the files of one format.
func (r *Report) render(format string, sections []doc.Section) ([]File, error) {
	file := File{Name: "report." + format}
	var err error
	switch format {
	case "html":
		file.Bytes, err = doc.HTML("scalewm · paired evaluation · protocol "+words.Listing(r.Origin.Protocols), r.verdicts(), len(r.arms), sections)
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

// marks maps the files of a report to text near their beginning that hardly any other
// file of that name has. Ours uses them to recognize reports of earlier runs.
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

// Ours reports whether a file of a report may be written to a folder: there is no file
// of that name, or it was written by a report. Other files are not overwritten.
func Ours(dir, name string) (bool, error) {
	return safefile.Marked(filepath.Join(dir, name), []byte(marks[name]))
}

// Foreign returns the name of a file in the folder that has the name of a report's file
// but is not one, or "".
func Foreign(dir string) string {
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		if ours, err := Ours(dir, name); err != nil || !ours {
			return name
		}
	}
	return ""
}
