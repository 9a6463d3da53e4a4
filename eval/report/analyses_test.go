package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"scalewm/eval/results"
)

// The paper prints its rollout numbers twice: as values and as changes against LeWM
// (tab:rollout-probe), which the values must give.
func TestPublishedRolloutsAgree(t *testing.T) {
	printed := map[string][6]float64{ // error of SCALE, Aux, DINO-WM, then tau; in percent
		"pusht":     {-21.0, -23.1, 704.9, 7.4, 3.6, -4.3},
		"reacher":   {-14.6, -7.0, 223.4, 3.2, 1.5, 2.9},
		"cube":      {-0.7, -25.2, 1.0, 21.3, 13.6, 112.8},
		"tworoom":   {-20.6, -2.5, -58.9, 14.0, -1.1, 33.1},
		"pointmaze": {-12.8, -7.5, -19.3, 0.170, 0.057, 0.288}, // tau as a difference: LeWM's is near 0
	}
	for task, want := range printed {
		base, ok := published.analysis(task, "lewm")
		if !ok {
			t.Fatalf("no published analyses of %s", task)
		}
		for i, method := range []string{"scale", "aux", "dinowm"} {
			p, _ := published.analysis(task, method)
			if got := 100 * (p.RollErr/base.RollErr - 1); math.Abs(got-want[i]) > 0.6 {
				t.Errorf("%s, %s: error changes by %.1f %%, printed %.1f", task, method, got, want[i])
			}
			got, tol := 100*(p.Tau/base.Tau-1), 0.06
			if task == "pointmaze" {
				got, tol = p.Tau-base.Tau, 0.0006
			}
			if math.Abs(got-want[3+i]) > tol {
				t.Errorf("%s, %s: tau changes by %.3f, printed %.3f", task, method, got, want[3+i])
			}
		}
	}
}

// analysed are analyses of two methods, the second without its probe.
func analysed() (out []results.Analysis) {
	add := func(method, name string, r results.Results) {
		out = append(out, results.Analysis{ID: fmt.Sprint(len(out)), Spec: results.AnalysisSpec{Analysis: name, Task: "tworoom", Method: method, TrainSeed: 1, Weights: method, Device: "cpu"}, Results: r})
	}
	for i, m := range []string{"lewm", "scale"} {
		rho := results.Number(0.25 + 0.5*float64(i))
		add(m, "rank", results.Results{Rank: []results.Rank{{N: 1500, Spearman: rho, Pearson: rho, Lo: rho - 0.125, Hi: rho + 0.125}}})
		add(m, "spectrum", results.Results{Spectrum: &results.Spectrum{Eigenvalues: []float64{0.6, 0.3, 0.1}}})
		add(m, "rollout", results.Results{Rollout: &results.Rollout{RollErr: 0.375, Tau: 0.5, Starts: 19, Dropped: []results.Dropped{{Start: 4, Reason: "nothing <moves>"}}}})
		add(m, "dynamics", results.Results{Dynamics: &results.Dynamics{PerBlock: []results.Block{{Blocks: 1, Error: 0.1, OtherActions: 0.5}, {Blocks: 2, Error: 0.2, OtherActions: 0.6}}}})
	}
	score := func(probe string, k int, component string, r2 float64) results.ProbeScore {
		return results.ProbeScore{Probe: probe, K: k, Component: component, R2: results.Number(r2)}
	}
	add("lewm", "probe", results.Results{Probe: &results.Probe{Scores: []results.ProbeScore{
		score("ridge", 2, "agent x", 0.1), score("ridge", 2, "mean", 0.125), score("ridge", 3, "agent x", 0.75), score("ridge", 3, "mean", 0.8125),
		score("mlp", 3, "agent x", math.NaN()), score("mlp", 3, "mean", 0.625)}}})
	return out
}

// Every number that was measured stands in the sections, beside the paper's.
func TestAnalysesInTheReport(t *testing.T) {
	r := &Report{Analyses: analysed()}
	var text strings.Builder
	for _, s := range r.analyses("tworoom") {
		for _, p := range s.Parts {
			fmt.Fprintf(&text, "%+v\n", p)
		}
	}
	for _, want := range []string{"0.250", "0.125 to 0.375", "0.750", "0.41", "0.77", "0.125", "0.812", "0.625", "0.3750", "0.3600", "0.5448", "start 4: nothing <moves>", "<svg"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the sections lack %q", want)
		}
	}
	if got := r.analyses("cube"); len(got) != 0 {
		t.Errorf("sections of a task without analyses: %v", got)
	}
	more := r.Analyses[0]
	more.Spec.TrainSeed = 2
	r.Analyses = append(r.Analyses, more)
	if all := r.measuredOn("tworoom"); len(all) != 3 || all[0].name != "LeWM, seed 1" || all[1].name != "LeWM, seed 2" || all[2].name != "SCALE" {
		t.Errorf("%d checkpoints, %q", len(all), all[0].name)
	}
	// Another data set's numbers stand apart and are never set against these.
	other := r.Analyses[0]
	other.Spec.Data = "feedbeef00"
	r.Analyses = append(r.Analyses, other)
	all := r.measuredOn("tworoom")
	if len(all) != 4 || all[1].name != "LeWM, seed 1, data set feedbeef" {
		t.Errorf("with a second data set: %d checkpoints, %q", len(all), all[1].name)
	}
	e := evidence{nil, map[string][]*measured{"tworoom": all[1:]}}
	any := func(*measured) bool { return true }
	if pairs := e.both("tworoom", scale, lewm, any); len(pairs) != 0 {
		t.Errorf("%d pairs of different data sets", len(pairs))
	}
}

// Kendall's τ of five starts, SCALE above LeWM on all: p = 2/32; the error is 10 % lower.
// A smaller rollout of the same checkpoint stands back, and protocols stay apart.
func TestRolloutTable(t *testing.T) {
	roll := func(err, tau float64, starts int) results.Results {
		r := &results.Rollout{RollErr: err, Tau: tau, Starts: starts, Candidates: 64}
		for s := range starts {
			r.PerStart = append(r.PerStart, results.PerStart{Start: s, Tau: tau + .01*float64(s*s)*tau})
		}
		return results.Results{Rollout: r}
	}
	of := func(method, protocol string, r results.Results) results.Analysis {
		return results.Analysis{Spec: results.AnalysisSpec{Analysis: "rollout", Protocol: protocol, Task: "tworoom", Method: method, Weights: method, Device: "cpu"}, Results: r}
	}
	r := &Report{Analyses: []results.Analysis{of(lewm, "paper", roll(.5, .4, 5)), of(scale, "paper", roll(.45, .6, 5)), of(scale, "paper", roll(.1, .1, 2)), of(scale, "strict", roll(.3, .3, 5))}}
	all := r.measuredOn("tworoom")
	text := string(markdown([]Section{{Title: "x", Level: 2, Parts: []Part{rolloutTable("tworoom", all), droppedText(all)}}}))
	for _, want := range []string{
		"| LeWM | ours | 5 | 0.5000 | – | 0.4000 | – | – |", "| SCALE, paper | ours | 5 | 0.4500 | −10.0 % | 0.6000 | +50.0 % | 0.062 |", "| SCALE, strict | ours | 5 | 0.3000 | – |",
		"| SCALE | paper | – | 0.2857 | −20.6 % | 0.6210 | +14.0 % | 0.015 |", // tab:rollout-probe
		"SCALE: a rollout of 2 starts with 64 candidates stands behind that of 5 with 64",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if f := change(.1675, -.0029); f.Text != "Δ +0.170" { // tab:rollout-probe, PointMaze
		t.Errorf("%q", f.Text)
	}
}
