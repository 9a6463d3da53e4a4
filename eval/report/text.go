package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// caveat stands wherever the paper's numbers stand beside ours.
const caveat = "The paper trains at full size (ViT-Tiny at 224 px) and evaluates 100 episodes a set. A smaller preset is the same method with smaller numbers, " +
	"so compare the direction and order of effects, not the rates."

// markdown renders report.md.
func (r *Report) markdown() []byte {
	var w strings.Builder
	fmt.Fprintf(&w, "# %s\n\n%s\n\n", r.Title(), r.Lead())
	for _, f := range r.facts() {
		fmt.Fprintf(&w, "- **%s:** %s\n", f.Name, f.Text)
	}
	for i := range r.Blocks {
		b := &r.Blocks[i]
		fmt.Fprintf(&w, "\n## %s\n\n", b.title())
		mdTable(&w, b.successTable())
		for _, t := range b.Tiers {
			fmt.Fprintf(&w, "%s\n", "- "+t.describe())
		}
		if len(b.Pairs) > 0 {
			fmt.Fprint(&w, "\n### Paired differences\n\n")
			mdTable(&w, b.pairTable())
		}
		if t, ok := b.paperTable(); ok {
			fmt.Fprintf(&w, "### Beside the paper\n\n%s\n\n", caveat)
			mdTable(&w, t)
		}
	}
	if t, ok := r.aggregateTable(); ok {
		fmt.Fprint(&w, "\n## Over everything\n\n")
		mdTable(&w, t)
	}
	if t, ok := r.lineTable(); ok {
		fmt.Fprint(&w, "\n## Over sets\n\n")
		mdTable(&w, t)
	}
	fmt.Fprint(&w, "\n## Checks\n\n")
	for _, c := range r.Checks {
		fmt.Fprintf(&w, "- **%s** (%s): %s\n", c.Name, c.Verdict, c.Text)
	}
	if len(r.Warnings) > 0 {
		fmt.Fprint(&w, "\n## Warnings\n\n")
		for _, s := range r.Warnings {
			fmt.Fprintf(&w, "- %s\n", s)
		}
	}
	return []byte(w.String())
}

func mdTable(w *strings.Builder, t table) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(t.head, " | "), strings.Repeat(" --- |", len(t.head)))
	for _, row := range t.rows {
		for _, e := range row {
			s := strings.ReplaceAll(e.text, "|", "\\|")
			if e.bold {
				s = "**" + s + "**"
			}
			fmt.Fprintf(w, "| %s ", s)
		}
		fmt.Fprint(w, "|\n")
	}
	fmt.Fprintf(w, "\n%s\n\n", t.caption)
}

// describe says what a tier spends.
func (t Tier) describe() string {
	s := fmt.Sprintf("%s: %d candidates × %d iterations = %s rollouts a plan", t.Name, t.Candidates, t.Iterations, thousands(t.Rollouts()))
	if t.PlanMillis > 0 {
		s += fmt.Sprintf(", %.0f ms", t.PlanMillis)
	}
	return s
}

// successCSV renders report.csv: one line an arm and tier.
func (r *Report) successCSV() ([]byte, error) {
	rows := [][]string{{"task", "solver", "method", "seed", "tier", "rollouts", "sets", "n", "successes", "mean", "sd", "lo", "hi", "pre_solved", "mean_without_pre_solved"}}
	for i := range r.Blocks {
		b := &r.Blocks[i]
		for _, a := range b.Arms {
			for _, t := range b.Tiers {
				s, ok := a.Scores[t.Name]
				if !ok {
					continue
				}
				rows = append(rows, []string{b.Task, b.Solver, a.Method, itoa(a.Seed), t.Name, itoa(t.Rollouts()), itoa(s.Sets), itoa(s.N), itoa(s.Hits),
					exact(s.Mean), exact(s.SD), exact(s.Lo), exact(s.Hi), exact(s.PreRate), exact(s.Filtered)})
			}
		}
	}
	return csvBytes(rows)
}

// pairCSV renders report-paired.csv: one line a comparison.
func (r *Report) pairCSV() ([]byte, error) {
	rows := [][]string{{"task", "solver", "a", "b", "tier", "n", "sets", "seeds", "both", "a_only", "b_only", "neither", "diff", "lo", "hi", "p", "mid_p", "set_p", "holm_p", "step_down_p", "bh_p", "within_margin"}}
	for _, b := range r.Blocks {
		for _, p := range b.Pairs {
			for _, d := range p.Rows {
				counts := []string{"", "", "", ""}
				if d.Binary {
					counts = []string{itoa(d.Both), itoa(d.AOnly), itoa(d.BOnly), itoa(d.Neither)}
				}
				row := append([]string{b.Task, b.Solver, p.A, p.B, d.Tier, itoa(d.N), itoa(d.Sets), itoa(d.Seeds)}, counts...)
				rows = append(rows, append(row, exact(d.Diff), exact(d.Lo), exact(d.Hi), exact(d.P), exact(d.MidP), exact(d.SetP), exact(d.Holm), exact(d.StepDown), exact(d.BH), string(d.Verdict)))
			}
		}
	}
	return csvBytes(rows)
}

// exact writes a number so that it reads back the same; NaN is an empty field.
func exact(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func csvBytes(rows [][]string) ([]byte, error) {
	var w bytes.Buffer
	if err := csv.NewWriter(&w).WriteAll(rows); err != nil {
		return nil, fmt.Errorf("report: writing CSV: %w", err)
	}
	return w.Bytes(), nil
}
