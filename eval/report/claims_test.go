package report

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"scalewm/eval/infer"
	"scalewm/eval/results"
)

// Every claim says how it is decided in words that the program knows.
func TestClaimsAreDecidable(t *testing.T) {
	ids := map[string]bool{}
	for _, c := range claims {
		if ids[c.ID] {
			t.Errorf("%s stands there twice", c.ID)
		}
		ids[c.ID] = true
		if _, ok := measures[c.Measure]; !ok || !slices.Contains([]infer.Need{infer.All, infer.Most, infer.NotAll}, c.Need) || len(c.B) == 0 || c.Make == "" {
			t.Errorf("%s: %+v", c.ID, c)
		}
		for task, want := range c.Want {
			if r, ok := c.allows(task); !ok || !(r.Lo < r.Hi) {
				t.Errorf("%s wants %q of %s: %v", c.ID, want, task, r)
			}
		}
	}
}

func TestAllows(t *testing.T) {
	c := Claim{Margin: 2, Want: map[string]string{"a": "up", "b": "down", "c": "same", "d": "> 0.5", "e": "< -1", "f": "10.5"}}
	inf := math.Inf(1)
	for task, want := range map[string]infer.Range{"a": {Lo: 0, Hi: inf}, "b": {Lo: -inf, Hi: 0}, "c": {Lo: -2, Hi: 2}, "d": {Lo: .5, Hi: inf}, "e": {Lo: -inf, Hi: -1}, "f": {Lo: 8.5, Hi: 12.5}} {
		if got, ok := c.allows(task); !ok || got != want {
			t.Errorf("%s: %v, want %v", task, got, want)
		}
	}
	if _, ok := c.allows("g"); ok {
		t.Error("a task that it does not speak of")
	}
}

// found is a claim's finding in a report.
func found(t *testing.T, r *Report, id string) Finding {
	t.Helper()
	for _, f := range r.findings() {
		if f.ID == id {
			return f
		}
	}
	t.Fatalf("no claim %s", id)
	return Finding{}
}

// A claim on all 15 averages holds where each interval is above 0, is undecided with one
// open or missing, and fails with one clearly below; "not all" is the reverse.
func TestClaimsOnAverages(t *testing.T) {
	grid := func(edit func(b *Block, d *infer.Difference)) *Report {
		var g Group
		for _, tab := range published.Tables {
			for _, solver := range solversOf {
				b := &Block{Task: tab.Task, Solver: solver}
				for _, a := range []string{scale, aux} {
					d := &infer.Difference{N: 600, Diff: 4, Lo: 2, Hi: 6}
					edit(b, d)
					b.Pairs = append(b.Pairs, &infer.Comparison{A: a, B: lewm, Mean: d})
				}
				g.Blocks = append(g.Blocks, b)
			}
		}
		return &Report{Groups: []Group{g}}
	}
	at := func(lo, hi float64) func(*Block, *infer.Difference) {
		return func(b *Block, d *infer.Difference) {
			if b.Task == "cube" && b.Solver == "icem" {
				d.Diff, d.Lo, d.Hi = (lo+hi)/2, lo, hi
			}
		}
	}
	for _, c := range []struct {
		lo, hi   float64
		all, not infer.Verdict
		evidence string
	}{
		{2, 6, infer.Holds, infer.Fails, "Push-T, CEM +4.0 (+2.0 to +6.0), 600 episodes. Of 15 numbers 15 as claimed, 0 otherwise, 0 open."},
		{-1, 3, infer.Undecided, infer.Undecided, "OGBench Cube, iCEM +1.0 (−1.0 to +3.0), 600 episodes. Of 15 numbers 14 as claimed, 0 otherwise, 1 open."},
		{-9, -7, infer.Fails, infer.Holds, "OGBench Cube, iCEM −8.0 (−9.0 to −7.0), 600 episodes. Of 15 numbers 14 as claimed, 1 otherwise, 0 open."},
	} {
		r := grid(at(c.lo, c.hi))
		all, not := found(t, r, "scale-every-average"), found(t, r, "aux-not-every-average")
		if all.Verdict != c.all || not.Verdict != c.not || all.item().Text != c.evidence {
			t.Errorf("%v to %v: %s and %s, %q", c.lo, c.hi, all.Verdict, not.Verdict, all.item().Text)
		}
	}
	r := grid(at(2, 6))
	r.Groups[0].Blocks = slices.DeleteFunc(r.Groups[0].Blocks, func(b *Block) bool { return b.Task == "cube" })
	f := found(t, r, "scale-every-average")
	if f.Verdict != infer.Undecided || !strings.HasSuffix(f.item().Text, "Of 15 numbers 12 as claimed, 0 otherwise, 0 open, 3 missing.") {
		t.Errorf("without Cube: %s, %s", f.Verdict, f.item().Text)
	}
	// Published gains under iCEM are 4.3, 3.1, 5.2, 10.0, 3.1: +4 (3.5 to 4.5) is within 2 points of all but Two-Room's.
	r = grid(func(_ *Block, d *infer.Difference) { d.Lo, d.Hi = 3.5, 4.5 })
	if f := found(t, r, "scale-icem-gains"); f.Verdict != infer.Fails || !strings.HasPrefix(f.item().Text, "Two-Room") {
		t.Errorf("gains under iCEM: %s, %s", f.Verdict, f.item().Text)
	}
}

// Claims on checkpoints: an alignment has an interval of its own, a probe needs training
// seeds, a rollout is paired by start.
func TestClaimsOnCheckpoints(t *testing.T) {
	r := &Report{Analyses: analysed(), Groups: []Group{{}}}
	f := found(t, r, "scale-alignment")
	// .75 (.625 to .875) less .25 (.125 to .375): half widths .125 each, together .125 √2 = .177.
	if text := f.item().Text; f.Verdict != infer.Undecided || !strings.HasPrefix(text, "Two-Room +0.500 (+0.323 to +0.677), 1 training seed, bootstrap of episodes.") || !strings.Contains(text, "1 as claimed, 0 otherwise, 0 open, 4 missing") || f.item().Link != "tworoom-geometry" {
		t.Errorf("%s: %s", f.Verdict, text)
	}
	if f := found(t, r, "scale-spectrum"); !strings.HasPrefix(f.item().Text, "Two-Room against LeWM 0.000, 1 training seed, no interval.") && !strings.HasPrefix(f.item().Text, "Two-Room against LeWM +0.000, 1 training seed, no interval.") {
		t.Errorf("%s", f.item().Text)
	}
	// τ of SCALE less LeWM's by start: .1, .2, .3, mean .2, half width 4.302653/√3 × .1.
	for i, a := range r.Analyses {
		if a.Spec.Analysis != "rollout" {
			continue
		}
		roll := *a.Rollout
		for s := range 3 {
			tau := .5
			if a.Spec.Method == scale {
				tau += .1 * float64(s+1)
			}
			roll.PerStart = append(roll.PerStart, results.PerStart{Start: s, Tau: tau})
		}
		r.Analyses[i].Rollout = &roll
	}
	if text := found(t, r, "scale-ranking").item().Text; !strings.HasPrefix(text, "Two-Room +0.200 (−0.048 to +0.448), 1 training seed, 3 starts.") {
		t.Errorf("%s", text)
	}
}

// A number that could not be computed is missing, and never shown.
func TestClaimsWithoutNumbers(t *testing.T) {
	r := &Report{Groups: []Group{{}}}
	for _, a := range analysed() {
		if a.Rollout != nil {
			a.Rollout = &results.Rollout{PerStart: []results.PerStart{{Start: 1, Error: .5, Tau: math.NaN()}}}
		}
		r.Analyses = append(r.Analyses, a)
	}
	for _, id := range []string{"scale-ranking", "aux-rollout-error"} {
		if f := found(t, r, id); f.Verdict != infer.Undecided || f.item().Text != "" {
			t.Errorf("%s: %s, %q", id, f.Verdict, f.item().Text)
		}
	}
}

// What is missing has a command that makes it, and each claim its section.
func TestClaimsInTheReport(t *testing.T) {
	r := complete(t)
	text := string(markdown(r.claimList()))
	for _, want := range []string{
		"- **SCALE is above LeWM in every average of a task and a solver \\[abstract, sections 1 and 6.2\\]** (undecided): Two-Room, CEM +15.6",
		"scalewm reproduce --tasks pusht,reacher,cube,tworoom,pointmaze --methods lewm,scale,aux,dinowm --solvers all --tiers all --sets all --backbone FILE --out DIR", "Numbers of one checkpoint",
		"<details><summary>18 claims of which the folder says nothing</summary>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	anchors := map[string]bool{}
	for _, s := range r.Sections() {
		anchors[s.Anchor] = true
	}
	for _, f := range r.Findings {
		if i := f.item(); i.Link != "" && !anchors[i.Link] {
			t.Errorf("%s points to %q, which is no section", f.ID, i.Link)
		}
	}
}

// The published numbers and the places of claims are those of the paper's LaTeX source.
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
	for _, c := range claims {
		if c.Line > len(lines) || !strings.Contains(lines[c.Line-1], c.Mark) {
			t.Errorf("%s: line %d does not have %q", c.ID, c.Line, c.Mark)
		}
	}
	numbers := regexp.MustCompile(`-?\d*\.\d+`)
	// rows lists the rows below a label that have numbers, by the name in their second column.
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
	printed := map[string]string{lewm: "LeWM", scale: "SCALE", aux: "Aux.", "dinowm": "DINO-WM"}
	for k, tab := range published.Tables {
		got := byName(rows(tab.Label))
		cross := byName(rows("tab:cross-task"))
		n := map[string]int{}
		for _, r := range tab.Rows {
			var want []float64
			for i := range r.Mean {
				want = append(want, r.Mean[i], r.SD[i])
			}
			want = append(want, r.Average)
			name := printed[r.Method]
			if x := got[name]; n[name] >= len(x) || !slices.Equal(x[n[name]], want) {
				t.Errorf("%s, %s %s: %v, printed %v", tab.Label, r.Solver, r.Method, want, x)
			}
			if r.Solver == "icem" && !slices.Equal(cross[name][k], want) {
				t.Errorf("tab:cross-task, %s %s: %v, printed %v", tab.Task, r.Method, want, cross[name][k])
			}
			n[name]++
		}
	}
	methods := []string{lewm, scale, aux, "dinowm"}
	of := func(task string, k int) PaperAnalysis { p, _ := published.analysis(task, methods[k]); return p }
	rollouts := rows("tab:rollout-probe")
	for i, tab := range published.Tables {
		probes := rows("tab:probing-" + tab.Task)
		n := len(probes) / 2 // the linear probe's rows, their mean last, then the other's
		for k := range methods {
			p := of(tab.Task, k)
			for j, want := range slices.Concat(p.LinearBy, []float64{p.Linear}, p.MLPBy, []float64{p.MLP}) {
				if j >= 2*n || probes[j].x[k] != want {
					t.Errorf("tab:probing-%s, %s: %v in row %d of %d", tab.Task, methods[k], want, j, 2*n)
				}
			}
			// Each number but LeWM's has its change against that in brackets.
			at := max(0, 2*k-1)
			if e, tau := rollouts[2*i].x[at], rollouts[2*i+1].x[at]; p.RollErr != e || p.Tau != tau {
				t.Errorf("tab:rollout-probe, %s, %s: %v and %v, printed %v and %v", tab.Task, methods[k], p.RollErr, p.Tau, e, tau)
			}
		}
	}
	for i, line := range lines {
		if !strings.Contains(line, `\label{tab:heldout-corr}`) {
			continue
		}
		for j, tab := range published.Tables { // 5 lines of head
			for k, s := range numbers.FindAllString(strings.SplitN(lines[i+6+j], "&", 2)[1], -1) {
				if v, _ := strconv.ParseFloat(s, 64); v != of(tab.Task, k).Spearman {
					t.Errorf("tab:heldout-corr, %s, %s: %v, printed %v", tab.Task, methods[k], of(tab.Task, k).Spearman, v)
				}
			}
		}
	}
}
