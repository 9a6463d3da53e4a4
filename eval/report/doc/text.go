package doc

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file has the formats without pictures. Each format has one escape function, which is
// applied to every text. Figures and films are replaced by a line that refers to the page.

// Markdown renders the document as Markdown.
func Markdown(sections []Section) []byte {
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
				for _, t := range p.Aside {
					mdText(&w, t)
				}
				fmt.Fprintf(&w, "*Figure on the page report.html: %s*\n\n", mdEscape(p.Caption))
			case Film:
				fmt.Fprintf(&w, "*Film on the page report.html: %s %s*\n\n", mdEscape(p.Caption), mdEscape(p.Cast))
			case Text:
				mdText(&w, p)
			}
		}
	}
	return []byte(strings.TrimRight(w.String(), "\n") + "\n")
}

// mdText writes a text, folded if it has a title for that.
func mdText(w *strings.Builder, t Text) {
	if t.Fold != "" {
		fmt.Fprintf(w, "<details><summary>%s</summary>\n\n", mdEscape(t.Fold))
		defer fmt.Fprint(w, "</details>\n\n")
	}
	if t.Body != "" {
		fmt.Fprintf(w, "%s\n\n", mdEscape(t.Body))
	}
	for _, i := range t.Items {
		escape := mdEscape
		if t.Style == Commands && !strings.ContainsAny(i.Text, "`\r\n") {
			escape = func(s string) string { return "`" + s + "`" }
		}
		fmt.Fprintf(w, "- %s\n", i.line(escape, func(s string) string { return "**" + s + "**" }))
	}
	if len(t.Items) > 0 {
		fmt.Fprintln(w)
	}
}

// mdTable writes a table in GitHub's syntax, with its caption below.
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
			if f.Bold {
				s = "**" + s + "**"
			}
			fields = append(fields, s)
		}
		line(fields)
	}
	fmt.Fprintf(w, "\n%s\n\n", mdEscape(t.Caption))
}

// mdEscape escapes the characters that have a meaning in Markdown, in HTML within Markdown,
// and in tables. A line break would end a table row.
var mdEscape = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "\n", " ", "\r", " ").Replace

// LaTeX renders tables in the style of papers, and all texts.
func LaTeX(sections []Section) []byte {
	var w strings.Builder
	fmt.Fprint(&w, `% Needs \usepackage{booktabs}.
\providecommand{\sr}[2]{#1{\scriptsize\,$\pm$\,#2}}
\providecommand{\bsr}[2]{\textbf{#1}{\scriptsize\,$\pm$\,#2}}
`)
	tables := 0
	for _, s := range sections {
		fmt.Fprintf(&w, "\n\\%s*{%s}\n", []string{"section", "subsection", "subsubsection", "paragraph"}[s.Level-1], texEscape(s.Title))
		for _, p := range s.Parts {
			switch p := p.(type) {
			case Table:
				// Tables wait for room on a page, and LaTeX stops if too many of them wait.
				if tables++; tables%12 == 0 {
					fmt.Fprint(&w, "\n\\clearpage\n")
				}
				texTable(&w, p)
			case Figure:
				for _, t := range p.Aside {
					texText(&w, t)
				}
				fmt.Fprintf(&w, "\n\\emph{Figure on the page report.html: %s}\n", texEscape(p.Caption))
			case Film:
				fmt.Fprintf(&w, "\n\\emph{Film on the page report.html: %s %s}\n", texEscape(p.Caption), texEscape(p.Cast))
			case Text:
				texText(&w, p)
			}
		}
	}
	return []byte(w.String())
}

// texText writes a text. LaTeX has no folds; the title of a fold becomes emphasized text.
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
		escape := texEscape
		if t.Style == Commands {
			escape = func(s string) string { return `\texttt{` + texEscape(s) + `}` }
		}
		fmt.Fprintf(w, "  \\item %s\n", i.line(escape, func(s string) string { return `\textbf{` + s + `}` }))
	}
	fmt.Fprint(w, "\\end{itemize}\n")
}

// texTable writes a table. Tables of the report have many columns, hence the small font and
// the narrow separation.
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

// labelRune replaces the characters that a LaTeX label must not have.
func labelRune(r rune) rune {
	if strings.ContainsRune(`\{}$&#^_%~`, r) {
		return '-'
	}
	return r
}

// texField returns a field in LaTeX, with the macros for a spread that LaTeX defines.
func texField(f Field) string {
	main, spread := texEscape(f.Main()), texEscape(f.Spread())
	switch {
	case spread != "" && f.Bold:
		return fmt.Sprintf(`\bsr{%s}{%s}`, main, spread)
	case spread != "":
		return fmt.Sprintf(`\sr{%s}{%s}`, main, spread)
	case f.Bold:
		return `\textbf{` + main + `}`
	}
	return main
}

// tex are the characters that LaTeX writes otherwise: its special ones, and the symbols of
// the report, since pdfLaTeX's fonts have few characters beyond ASCII.
var tex = map[rune]string{'\\': `\textbackslash{}`, '{': `\{`, '}': `\}`, '$': `\$`, '^': `\^{}`, '~': `\~{}`, '%': `\%`, '&': `\&`, '_': `\_`, '#': `\#`,
	'<': `$<$`, '>': `$>$`, '|': `$|$`, '"': "''", '\n': " ", '\r': " ", '\t': " ",
	'±': `$\pm$`, '−': `$-$`, '–': "--", '—': "---", '×': `$\times$`, '·': `$\cdot$`, '≥': `$\geq$`, '≤': `$\leq$`, '²': `$^2$`, '…': `\ldots{}`, '’': "'", '“': "``", '”': "''",
	'↑': `$\uparrow$`, '↓': `$\downarrow$`, 'Δ': `$\Delta$`, 'λ': `$\lambda$`, 'ρ': `$\rho$`, 'τ': `$\tau$`}

// texEscape escapes a text for LaTeX. A character beyond ASCII that is not in tex, such as
// one in a name from elsewhere, is written as its code.
func texEscape(s string) string {
	var w strings.Builder
	for i, r := range s {
		switch to, is := tex[r]; {
		case is:
			w.WriteString(to)
		case strings.HasPrefix(s[i:], "--"): // LaTeX would print a dash instead of a flag's two hyphens
			w.WriteString("-{}")
		case r >= ' ' && r <= '~':
			w.WriteRune(r)
		default:
			fmt.Fprintf(&w, "(U+%04X)", r)
		}
	}
	return w.String()
}

// line returns an item as one line: "Name [source] (value): text".
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

// named returns the name with its source.
func (i Item) named() string {
	if i.Source == "" {
		return i.Name
	}
	return i.Name + " [" + i.Source + "]"
}

// Rows returns the document as a table with a head, for CSV. It has one line for each
// field of a table, item, paragraph, figure and film.
func Rows(sections []Section) [][]string {
	rows := [][]string{{"section", "part", "kind", "row", "column", "text"}}
	for _, s := range sections {
		for i, p := range s.Parts {
			// add appends a line about the part with number i.
			add := func(kind, row, column, text string) {
				rows = append(rows, []string{s.Title, strconv.Itoa(i + 1), kind, row, column, text})
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
						add("table", strconv.Itoa(n+1), p.Head[k], f.Text)
					}
				}
			case Figure:
				add("figure", "", "", p.Caption)
				for _, t := range p.Aside {
					text(t)
				}
			case Film:
				add("film", "", "", p.Caption+" "+p.Cast)
			case Text:
				text(p)
			}
		}
	}
	return rows
}

// Exact formats a number so that parsing it returns the same value. NaN becomes an
// empty field.
func Exact(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// CSV returns rows as CSV. No field can be run as a formula by a spreadsheet. It
// modifies rows.
func CSV(rows [][]string) []byte {
	var w bytes.Buffer
	c := csv.NewWriter(&w)
	for _, row := range rows {
		for i := range row {
			row[i] = csvEscape(row[i])
		}
		c.Write(row) // writing to a bytes.Buffer does not fail
	}
	c.Flush()
	return w.Bytes()
}

// csvEscape puts a quote in front of text that a spreadsheet would evaluate as a
// formula. Numbers with a sign remain numbers.
func csvEscape(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

// JSONLines writes a list as JSON with one line for each element.
func JSONLines[T any](b *bytes.Buffer, list []T) error {
	before := "[\n  "
	for _, x := range list {
		line, err := json.Marshal(x)
		if err != nil {
			return err
		}
		b.WriteString(before)
		b.Write(line)
		before = ",\n  "
	}
	b.WriteString("\n ]")
	return nil
}

// Plain returns a table for a terminal, in columns that are aligned with spaces.
func Plain(t Table) string {
	rows := [][]string{t.Head}
	for _, row := range t.Rows {
		var texts []string
		for _, f := range row {
			texts = append(texts, f.Text)
		}
		rows = append(rows, texts)
	}
	width := make([]int, len(t.Head))
	for _, row := range rows {
		for i, s := range row {
			width[i] = max(width[i], utf8.RuneCountInString(s))
		}
	}
	var w strings.Builder
	for _, row := range rows {
		line := ""
		for i, s := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(s))
			if i == 0 {
				line = s + pad
			} else {
				line += "   " + pad + s
			}
		}
		fmt.Fprintln(&w, strings.TrimRight(line, " "))
	}
	return w.String()
}
