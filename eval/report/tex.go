package report

import (
	"fmt"
	"strings"
)

// latex renders report.tex: one table a block, in the paper's form.
func (r *Report) latex() []byte {
	var w strings.Builder
	fmt.Fprint(&w, `% Needs \usepackage{booktabs}.
\providecommand{\sr}[2]{#1{\scriptsize\,$\pm$\,#2}}
\providecommand{\bsr}[2]{\textbf{#1}{\scriptsize\,$\pm$\,#2}}
`)
	for i := range r.Blocks {
		b := &r.Blocks[i]
		texTable(&w, b.successTable(), "tab:"+b.Task+"-"+b.Solver)
		if len(b.Pairs) > 0 {
			texTable(&w, b.pairTable(), "tab:"+b.Task+"-"+b.Solver+"-paired")
		}
	}
	if t, ok := r.lineTable(); ok {
		texTable(&w, t, "tab:sets")
	}
	return []byte(w.String())
}

func texTable(w *strings.Builder, t table, label string) {
	fmt.Fprintf(w, "\n\\begin{table}[t]\n  \\centering\n  \\caption{%s}\n  \\label{%s}\n", texEscape(t.caption), label)
	fmt.Fprintf(w, "  \\scriptsize\n  \\setlength{\\tabcolsep}{2.5pt}\n  \\begin{tabular}{l%s}\n    \\toprule\n", strings.Repeat("c", len(t.head)-1))
	head := make([]string, len(t.head))
	for i, h := range t.head {
		head[i] = texEscape(h)
	}
	fmt.Fprintf(w, "    %s \\\\\n    \\midrule\n", strings.Join(head, " & "))
	for _, row := range t.rows {
		cols := make([]string, len(row))
		for i, e := range row {
			cols[i] = texEntry(e)
		}
		fmt.Fprintf(w, "    %s \\\\\n", strings.Join(cols, " & "))
	}
	fmt.Fprint(w, "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n")
}

func texEntry(e entry) string {
	if mean, sd, ok := strings.Cut(e.text, " ± "); ok {
		if e.bold {
			return fmt.Sprintf(`\bsr{%s}{%s}`, mean, sd)
		}
		return fmt.Sprintf(`\sr{%s}{%s}`, mean, sd)
	}
	if e.bold {
		return `\textbf{` + texEscape(e.text) + `}`
	}
	return texEscape(e.text)
}

var texReplacer = strings.NewReplacer(`%`, `\%`, `&`, `\&`, `_`, `\_`, `#`, `\#`, "±", `$\pm$`, "−", `$-$`, "–", "--", "×", `$\times$`, "<", `$<$`, `"`, "''")

func texEscape(s string) string { return texReplacer.Replace(s) }
