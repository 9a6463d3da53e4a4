package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"

	"scalewm/eval/infer"
)

// The formats without pictures. Each has one function that makes foreign text
// harmless, and every word goes through it. In place of a figure or a
// film they have a line that refers to the page.

// markdown renders report.md.
func markdown(sections []Section) []byte {
	var w strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&w, "%s %s\n\n", strings.Repeat("#", s.Level), mdEscape(s.Title))
		for _, p := range s.Parts {
			switch p := p.(type) {
			case Table:
				if p.Fold != "" {
					fmt.Fprintf(&w, "<details><summary>%s</summary>\n\n", mdEscape(p.Fold))
				}
				mdTable(&w, p)
				if p.Fold != "" {
					fmt.Fprint(&w, "</details>\n\n")
				}
			case Figure:
				for _, t := range p.Beside {
					mdText(&w, t)
				}
				fmt.Fprintf(&w, "*Figure on the page report.html: %s*\n\n", mdEscape(p.Caption))
			case Film:
				fmt.Fprintf(&w, "*Film on the page report.html: %s %s*\n\n", mdEscape(p.Caption), mdEscape(p.cast()))
			case Text:
				mdText(&w, p)
			}
		}
	}
	return []byte(strings.TrimRight(w.String(), "\n") + "\n")
}

func mdText(w *strings.Builder, t Text) {
	if t.Fold != "" {
		fmt.Fprintf(w, "<details><summary>%s</summary>\n\n", mdEscape(t.Fold))
		defer fmt.Fprint(w, "</details>\n\n")
	}
	if t.Body != "" {
		fmt.Fprintf(w, "%s\n\n", mdEscape(t.Body))
	}
	for _, i := range t.Items {
		fmt.Fprintf(w, "- %s\n", i.line(mdEscape, func(s string) string { return "**" + s + "**" }))
	}
	if len(t.Items) > 0 {
		fmt.Fprintln(w)
	}
}

func mdTable(w *strings.Builder, t Table) {
	line := func(fields []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(fields, " | ")) }
	var head []string
	for _, h := range t.Head {
		head = append(head, mdEscape(h))
	}
	line(head)
	fmt.Fprintf(w, "|%s\n", strings.Repeat(" --- |", len(head)))
	for _, row := range t.Rows {
		var fields []string
		for _, f := range row {
			s := mdEscape(f.Text)
			if f.bold {
				s = "**" + s + "**"
			}
			fields = append(fields, s)
		}
		line(fields)
	}
	fmt.Fprintf(w, "\n%s\n\n", mdEscape(t.Caption))
}

var mdEscape = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "\n", " ", "\r", " ").Replace

// latex renders report.tex: tables in the paper's form, and the words.
func latex(sections []Section) []byte {
	var w strings.Builder
	fmt.Fprint(&w, `% Needs \usepackage{booktabs}.
\providecommand{\sr}[2]{#1{\scriptsize\,$\pm$\,#2}}
\providecommand{\bsr}[2]{\textbf{#1}{\scriptsize\,$\pm$\,#2}}
`)
	for _, s := range sections {
		fmt.Fprintf(&w, "\n\\%ssection*{%s}\n", strings.Repeat("sub", s.Level-1), texEscape(s.Title))
		for _, p := range s.Parts {
			switch p := p.(type) {
			case Table:
				texTable(&w, p)
			case Figure:
				for _, t := range p.Beside {
					texText(&w, t)
				}
				fmt.Fprintf(&w, "\n\\emph{Figure on the page report.html: %s}\n", texEscape(p.Caption))
			case Film:
				fmt.Fprintf(&w, "\n\\emph{Film on the page report.html: %s %s}\n", texEscape(p.Caption), texEscape(p.cast()))
			case Text:
				texText(&w, p)
			}
		}
	}
	return []byte(w.String())
}

func texText(w *strings.Builder, t Text) {
	if t.Fold != "" {
		fmt.Fprintf(w, "\n\\emph{%s}\n", texEscape(t.Fold))
	}
	if t.Body != "" {
		fmt.Fprintf(w, "\n%s\n", texEscape(t.Body))
	}
	if len(t.Items) == 0 {
		return
	}
	fmt.Fprint(w, "\n\\begin{itemize}\n")
	for _, i := range t.Items {
		fmt.Fprintf(w, "  \\item %s\n", i.line(texEscape, func(s string) string { return `\textbf{` + s + `}` }))
	}
	fmt.Fprint(w, "\\end{itemize}\n")
}

func texTable(w *strings.Builder, t Table) {
	fmt.Fprintf(w, "\n\\begin{table}[t]\n  \\centering\n  \\caption{%s}\n  \\label{tab:%s}\n", texEscape(t.Caption), strings.Map(labelRune, t.Anchor))
	fmt.Fprintf(w, "  \\scriptsize\n  \\setlength{\\tabcolsep}{2.5pt}\n  \\begin{tabular}{l%s}\n    \\toprule\n", strings.Repeat("c", len(t.Head)-1))
	line := func(fields []string) { fmt.Fprintf(w, "    %s \\\\\n", strings.Join(fields, " & ")) }
	var head []string
	for _, h := range t.Head {
		head = append(head, texEscape(h))
	}
	line(head)
	fmt.Fprint(w, "    \\midrule\n")
	for _, row := range t.Rows {
		var fields []string
		for _, f := range row {
			fields = append(fields, texField(f))
		}
		line(fields)
	}
	fmt.Fprint(w, "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n")
}

// labelRune keeps what a label may have.
func labelRune(r rune) rune {
	if strings.ContainsRune(`\{}$&#^_%~`, r) {
		return '-'
	}
	return r
}

func texField(f Field) string {
	main, spread := texEscape(f.Main()), texEscape(f.Spread())
	switch {
	case spread != "" && f.bold:
		return fmt.Sprintf(`\bsr{%s}{%s}`, main, spread)
	case spread != "":
		return fmt.Sprintf(`\sr{%s}{%s}`, main, spread)
	case f.bold:
		return `\textbf{` + main + `}`
	}
	return main
}

var texEscape = strings.NewReplacer(`\`, `\textbackslash{}`, `{`, `\{`, `}`, `\}`, `$`, `\$`, `^`, `\^{}`, `~`, `\~{}`, `%`, `\%`, `&`, `\&`, `_`, `\_`, `#`, `\#`,
	"±", `$\pm$`, "−", `$-$`, "–", "--", "×", `$\times$`, "<", `$<$`, ">", `$>$`, "|", `$|$`, `"`, "''", "\n", " ").Replace

// line is an item in one line: "Name [source] (value): text".
func (i Item) line(escape, bold func(string) string) string {
	s := ""
	if i.Name != "" {
		s = bold(escape(i.named()))
	}
	if i.Value != "" {
		s += " (" + escape(i.Value) + ")"
	}
	if s != "" && i.Text != "" {
		s += ": "
	}
	return s + escape(i.Text)
}

// named is the name with its source.
func (i Item) named() string {
	if i.Source == "" {
		return i.Name
	}
	return i.Name + " [" + i.Source + "]"
}

// cast names who is seen in a film.
func (f Film) cast() string {
	var names []string
	for _, c := range f.Clips {
		names = append(names, strings.TrimSpace(armTitle(c.Method)+" "+c.Tier))
	}
	return "With " + listing(names) + "."
}

// sectionRows is report-sections.csv: one line a field of a table, an item or a
// paragraph, a figure or a film.
func sectionRows(sections []Section) [][]string {
	rows := [][]string{{"section", "part", "kind", "row", "column", "text"}}
	for _, s := range sections {
		for i, p := range s.Parts {
			add := func(kind, row, column, text string) {
				rows = append(rows, []string{s.Title, itoa(i + 1), kind, row, column, text})
			}
			text := func(t Text) {
				if t.Fold != "" {
					add("text", "", "", t.Fold)
				}
				if t.Body != "" {
					add("text", "", "", t.Body)
				}
				for _, i := range t.Items {
					add("text", i.named(), i.Value, i.Text)
				}
			}
			switch p := p.(type) {
			case Table:
				add("caption", "", "", p.Caption)
				for n, row := range p.Rows {
					for k, f := range row {
						add("table", itoa(n+1), p.Head[k], f.Text)
					}
				}
			case Figure:
				add("figure", "", "", p.Caption)
				for _, t := range p.Beside {
					text(t)
				}
			case Film:
				add("film", "", "", p.Caption+" "+p.cast())
			case Text:
				text(p)
			}
		}
	}
	return rows
}

// successRows is report.csv: one line an arm and tier, unrounded.
func (r *Report) successRows() [][]string {
	rows := [][]string{{"task", "solver", "method", "seed", "tier", "rollouts", "sets", "n", "successes", "mean", "sd", "lo", "hi", "pre_solved", "mean_without_pre_solved", "settings", "variant"}}
	r.eachScore(func(b *Block, a Arm, t Tier, s Score) {
		rows = append(rows, []string{b.Task, b.Solver, a.Method, itoa(a.Seed), t.Name, itoa(t.Rollouts()), itoa(len(s.BySet)), itoa(s.N), itoa(s.Hits),
			exact(s.Mean), exact(s.SD), exact(s.Lo), exact(s.Hi), exact(s.PreRate), exact(s.Filtered), b.Settings, a.variant()})
	})
	return rows
}

// episodeRows is episodes.csv: one line an episode of an evaluation, with the names that
// results.Row has; compare reads those of one arm.
func (r *Report) episodeRows() [][]string {
	rows := [][]string{{"task", "solver", "method", "seed", "tier", "set", "episode", "trajectory", "start", "success", "steps", "replans", "forwards",
		"planner_seed", "pre_solved", "nan_costs", "plan_cost", "diverged", "cell"}}
	bit := func(b bool) string {
		if b {
			return "1"
		}
		return "0"
	}
	for _, c := range r.Cells {
		s := c.Spec
		for _, e := range c.Result.Rows {
			rows = append(rows, []string{s.Task, s.Solver, infer.ArmName(s), itoa(s.TrainSeed), s.Tier, s.Set, itoa(e.Episode), itoa(e.Trajectory), itoa(e.Start),
				bit(e.Success), itoa(e.Steps), itoa(e.Replans), itoa(e.PredictorCalls), strconv.FormatUint(uint64(e.PlannerSeed), 10), bit(e.PreSolved),
				itoa(e.NaNCosts), exact(e.PlanCost), e.Diverged, c.ID})
		}
	}
	return rows
}

// pairRows is report-paired.csv: one line a paired difference, with all its tests.
func (r *Report) pairRows() [][]string {
	rows := [][]string{{"task", "solver", "a", "b", "tier", "n", "sets", "seeds", "both", "a_only", "b_only", "neither", "diff", "lo", "hi", "p", "mid_p", "set_p", "holm_p", "step_down_p", "bh_p", "within_margin", "settings"}}
	r.eachPair(func(b *Block, c *infer.Comparison, d infer.Difference) {
		counts := []string{"", "", "", ""}
		if d.Binary() {
			counts = []string{itoa(d.Both), itoa(d.OnlyA), itoa(d.OnlyB), itoa(d.Neither)}
		}
		row := append([]string{b.Task, b.Solver, c.A, c.B, d.Tier, itoa(d.N), itoa(d.Sets), itoa(d.Seeds)}, counts...)
		row = append(row, exact(d.Diff), exact(d.Lo), exact(d.Hi), exact(d.P))
		for _, p := range otherTests(d) {
			row = append(row, exact(p))
		}
		rows = append(rows, append(row, string(d.Verdict), b.Settings))
	})
	return rows
}

// exact writes a number so that it reads back the same; NaN is an empty field.
func exact(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func csvBytes(rows [][]string) []byte {
	var w bytes.Buffer
	c := csv.NewWriter(&w)
	for _, row := range rows {
		for i := range row {
			row[i] = csvEscape(row[i])
		}
		c.Write(row) // a buffer takes everything
	}
	c.Flush()
	return w.Bytes()
}

// csvEscape puts a quote before what a spreadsheet would run as a formula.
func csvEscape(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}
