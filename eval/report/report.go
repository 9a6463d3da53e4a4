// Package report turns the cells of a results folder into a report: success
// by method and tier, paired differences, the paper's numbers beside ours,
// checks. It reads what was written down and renders bytes; it knows nothing of
// how an evaluation runs, and the same folder always gives the same bytes.
//
// Four steps, each of which knows only the one before:
//
//	load.go      a results folder                       -> Data
//	build.go     what is computed of it, checks.go too  -> Report
//	sections.go  the report as a list of sections, whose parts are tables,
//	             figures, texts and films; front.go and task.go make them
//	render.go    the list as HTML, Markdown, LaTeX and CSV; the computed
//	             numbers as JSON and CSV
//
// fig_*.go draw figures on svg.go, words.go writes names and numbers, paper.go
// has the published ones. A new section is a function that returns []Section,
// in a file of its own, and a line in Report.Sections.
package report
