package infer

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"scalewm/eval/results"
)

// methods are those of the paper, in the order of its tables.
var methods = []string{lewm, scale, aux, "dinowm"}

func TestPublished(t *testing.T) {
	table := paper()
	above, auxAbove := 0, 0
	for _, task := range results.PaperTasks {
		for _, solver := range PaperSolvers {
			average := map[string]float64{}
			for _, method := range methods {
				sum := 0.0
				for _, tier := range PaperTiers {
					sum += *printed(t, table, task, solver, method, tier).Value
				}
				average[method] = *printed(t, table, task, solver, method, Mean).Value
				// Printed means and averages are rounded to 0.1 each.
				if math.Abs(sum/5-average[method]) > 0.1 {
					t.Errorf("%s %s %s: tiers average %.2f, printed %.1f", task, solver, method, sum/5, average[method])
				}
			}
			if average[scale] > average[lewm] {
				above++
			}
			if average[aux] > average[lewm] {
				auxAbove++
			}
		}
	}
	if n := len(table.Where(Success, func(n *Number) bool { return n.Source == Paper })); n != 5*3*4*6 {
		t.Errorf("%d printed successes, want 5 tasks x 3 solvers x 4 methods x (5 tiers + average)", n)
	}
	// According to the paper's text, SCALE improves every average (15 of 15), and Aux 13 of 15.
	if above != 15 || auxAbove != 13 {
		t.Errorf("SCALE above LeWM on %d, Aux on %d; the paper says 15 and 13", above, auxAbove)
	}
	// Copied from the paper's pages by hand.
	for _, c := range []struct {
		task, solver, method, tier string
		mean, sd                   float64
	}{
		{"pusht", "cem", lewm, "T1", 92.3, 2.0},
		{"reacher", "mppi", "dinowm", "T4", 50.2, 8.5},
		{"cube", "icem", scale, "T2", 76.5, 4.5},
		{"tworoom", "cem", scale, "T1", 99.8, 0.4},
		{"tworoom", "cem", aux, "T5", 60.5, 2.0},
		{"pointmaze", "mppi", aux, "T3", 88.0, 1.6},
	} {
		if n := printed(t, table, c.task, c.solver, c.method, c.tier); *n.Value != c.mean || *n.SD != c.sd {
			t.Errorf("%s: %v ± %v, want %v ± %v", n.Selector(), *n.Value, *n.SD, c.mean, c.sd)
		}
	}
}

// The published numbers and the positions of the claims are those of the paper's LaTeX
// source.
func TestPaperLaTeX(t *testing.T) {
	path := os.Getenv("SCALEWM_PAPER")
	if path == "" {
		t.Skip("paper: SCALEWM_PAPER names no LaTeX source of the paper")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	for _, c := range PaperClaims {
		if c.Line > len(lines) || !strings.Contains(lines[c.Line-1], c.Mark) {
			t.Errorf("%s: line %d does not have %q", c.ID, c.Line, c.Mark)
		}
	}
	numbers := regexp.MustCompile(`-?\d*\.\d+`)
	// rows returns the rows with numbers below a label, by the name in their second column.
	type row struct {
		name string
		x    []float64
	}
	rows := func(label string) (out []row) {
		at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `\label{`+label+`}`) })
		if at < 0 {
			t.Fatalf("no %s", label)
		}
		for _, l := range lines[at:] {
			if strings.Contains(l, `\end{table}`) {
				break
			}
			fields := strings.Split(l, "&")
			if len(fields) < 3 {
				continue
			}
			r := row{name: strings.TrimSpace(fields[1])}
			for _, s := range numbers.FindAllString(strings.Join(fields[2:], " "), -1) {
				v, _ := strconv.ParseFloat(s, 64)
				r.x = append(r.x, v)
			}
			if r.x != nil {
				out = append(out, r)
			}
		}
		return out
	}
	byName := func(all []row) map[string][][]float64 {
		out := map[string][][]float64{}
		for _, r := range all {
			out[r.name] = append(out[r.name], r.x)
		}
		return out
	}
	table := paper()
	of := func(task, what, method string) float64 {
		return *find(t, table, Number{What: what, Source: Paper, Place: Place{Task: task}, Of: arm(method)}).Value
	}
	inPrint := map[string]string{lewm: "LeWM", scale: "SCALE", aux: "Aux.", "dinowm": "DINO-WM"}
	cross, rollouts := byName(rows("tab:cross-task")), rows("tab:rollout-probe")
	for k, task := range results.PaperTasks {
		full := byName(rows("tab:full-" + task))
		for i, solver := range PaperSolvers {
			for _, method := range methods {
				var want []float64
				for _, tier := range PaperTiers {
					n := printed(t, table, task, solver, method, tier)
					want = append(want, *n.Value, *n.SD)
				}
				want = append(want, *printed(t, table, task, solver, method, Mean).Value)
				name := inPrint[method]
				if x := full[name]; i >= len(x) || !slices.Equal(x[i], want) {
					t.Errorf("tab:full-%s, %s %s: %v, printed %v", task, solver, method, want, x)
				}
				if solver == results.ICEM && !slices.Equal(cross[name][k], want) {
					t.Errorf("tab:cross-task, %s %s: %v, printed %v", task, method, want, cross[name][k])
				}
			}
		}
		probes := rows("tab:probing-" + task)
		n := len(probes) / 2 // the linear probe's rows, their mean last, then the other's
		for m, method := range methods {
			var want []float64
			for _, probe := range []string{"ridge", "mlp"} {
				for j := range n - 1 {
					want = append(want, of(task, R2(probe, 0, fmt.Sprint(j)), method))
				}
				want = append(want, of(task, R2(probe, 0, "mean"), method))
			}
			for j, w := range want {
				if probes[j].x[m] != w {
					t.Errorf("tab:probing-%s, %s: %v in row %d of %d", task, method, w, j, 2*n)
				}
			}
			// Each number except LeWM's is followed by its change against LeWM in brackets.
			at := max(0, 2*m-1)
			if e, tau := rollouts[2*k].x[at], rollouts[2*k+1].x[at]; of(task, RolloutError, method) != e || of(task, Tau, method) != tau {
				t.Errorf("tab:rollout-probe, %s, %s: printed %v and %v", task, method, e, tau)
			}
		}
	}
	for i, line := range lines {
		if !strings.Contains(line, `\label{tab:heldout-corr}`) {
			continue
		}
		for j, task := range results.PaperTasks { // 5 lines of head
			for k, s := range numbers.FindAllString(strings.SplitN(lines[i+6+j], "&", 2)[1], -1) {
				if v, _ := strconv.ParseFloat(s, 64); v != of(task, Spearman, methods[k]) {
					t.Errorf("tab:heldout-corr, %s, %s: %v, printed %v", task, methods[k], of(task, Spearman, methods[k]), v)
				}
			}
		}
	}
}
