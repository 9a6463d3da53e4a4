package report

import (
	"fmt"
	"regexp"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/stats"
	"scalewm/eval/words"
)

// checks returns the sections with the checks and the warnings. Package infer decides
// both; this only arranges them. All checks are listed, including those that passed, so
// that a reader sees what was checked.
func (r *Report) checks() []doc.Section {
	list := doc.Text{Style: "checks", Body: r.verdicts() + "."}
	for _, c := range r.Checks {
		list.Items = append(list.Items, doc.Item{Name: c.Name, Value: string(c.Verdict), Text: c.Text, Class: string(c.Verdict)})
	}
	warnings := doc.Text{Style: "warnings"}
	for _, w := range r.Warnings {
		warnings.Items = append(warnings.Items, doc.Item{Text: w})
	}
	return append(section(doc.Section{Title: "Checks and warnings", Anchor: "checks", Level: 2, Nav: "Checks and warnings"}, list),
		section(doc.Section{Title: "Warnings", Anchor: "warnings", Level: 3}, warnings)...)
}

// verdicts counts the verdicts of the checks, in one line.
func (r *Report) verdicts() string {
	n := map[infer.Verdict]int{}
	for _, c := range r.Checks {
		n[c.Verdict]++
	}
	s := fmt.Sprintf("%d of %d checks passed", n[infer.Passed], len(r.Checks))
	for _, v := range []infer.Verdict{infer.Warned, infer.Skipped} {
		if n[v] > 0 {
			s += fmt.Sprintf(", %d %s", n[v], v)
		}
	}
	return s + "; " + words.Count(len(r.Warnings), "warning")
}

// howComputed returns the section that explains how numbers are computed and lists
// hashes of what was evaluated. The hashes identify data sets, evaluation sets and
// weights across folders and machines, which their names do not.
func (r *Report) howComputed() []doc.Section {
	list := doc.Text{Style: "how", Items: []doc.Item{
		{Name: "Success ± SD", Text: "Mean over evaluation sets and their standard deviation (ddof 1), as in the paper. It shows how much the draw of episodes matters, not how much training does."},
		{Name: "Difference at a tier", Text: "Pooled paired episodes; Newcombe's hybrid score interval; exact McNemar test, two-sided."},
		{Name: "Difference averaged over tiers", Text: "The unit is the episode, whose outcomes at the tiers are averaged; interval from a bootstrap of episodes within sets, p from sign flips of episodes within sets. Several training seeds are averaged in the same way."},
		{Name: "p, adjusted", Text: "For a mean over tiers by Holm, over all task and solver averages of the same two methods; for a single tier by Benjamini and Hochberg, over all tiers of the same two methods."},
		{Name: "Further tests", Text: fmt.Sprintf("report-paired.csv has more of each difference: McNemar's mid-p, the exact sign flip of the sets' sums, Westfall and Young's step-down test, and whether the difference is within %d points by two one-sided tests.", stats.Margin)},
		{Name: "One number", Text: "scalewm report DIR --why difference,task=..,solver=..,tier=..,a=..,b=.. prints the cells and the test behind a number."},
		{Name: "Pairing is refused", Text: "where episodes, data set, protocol, planner settings or planner seeds differ. Different kinds of device are noted at the differences."},
	}}
	t := doc.Table{Anchor: "fingerprints", Head: []string{"Of", "Fingerprint"}, Caption: "SHA-256 of what was evaluated.", Fold: "Fingerprints"}
	add := func(name, hash string) { t.Rows = append(t.Rows, []doc.Field{doc.Words(name), doc.Words(hash)}) }
	for _, d := range r.Origin.Data {
		add("data set", d)
	}
	for _, h := range r.Origin.SetHashes {
		add(h.Task+" "+h.Set, h.Hash)
	}
	weights := map[string]bool{}
	for _, b := range r.Blocks {
		for _, a := range b.Arms {
			if name := fmt.Sprintf("%s %s seed %d", b.Task, a.Arm, a.Seed); a.Weights != "" && !weights[name+a.Weights] {
				weights[name+a.Weights] = true
				add(name, a.Weights)
			}
		}
	}
	return section(doc.Section{Title: "How it is computed", Anchor: "methods", Level: 2, Nav: "How it is computed"}, list, t)
}

// notInAnchors matches the characters that addresses of a page do not have.
var notInAnchors = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// anchorOf returns the address of a block on the page. It depends only on the block's
// place, so links remain valid when a folder gets more blocks.
func anchorOf(p infer.Place) string {
	return strings.Trim(notInAnchors.ReplaceAllString(p.Task+"-"+p.Solver+"-"+p.Settings, "-"), "-")
}
