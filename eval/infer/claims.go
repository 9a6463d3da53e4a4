package infer

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/results"
	"scalewm/eval/words"
)

// claims.json states the claims of the paper as predicates of numbers: which numbers, and
// in which range each must be.
//
//go:embed claims.json
var claimsJSON []byte

// Claim is a claim of the paper and the rule that decides it.
type Claim struct {
	ID    string `json:"id"`
	Claim string `json:"claim"` // in our words
	Where string `json:"where"` // section, table or figure of the paper
	// Line is the line of the paper's LaTeX source that makes the claim, and Mark some of
	// its words. A test compares them with the source.
	Line int    `json:"line"`
	Mark string `json:"mark"`
	// Measure is a key of evidences: the numbers that decide the claim, usually those of A
	// minus those of each B. Need says how many of them must agree.
	Measure string        `json:"measure"`
	A       results.Arm   `json:"a"`
	B       []results.Arm `json:"b"`
	Need    Need          `json:"need"`
	// Want is the range claimed for each task, or for all tasks under the key "*": "up",
	// "down", "same" (within Margin of 0), "> x", "< x", or a number (within Margin of it).
	Want   map[string]string `json:"want"`
	Margin float64           `json:"margin"`
	// PublishedSize is set if the claim is about the size of a number, which depends on that
	// of the models. Counted is set if its numbers are counted, without chance: they need no
	// interval.
	PublishedSize bool `json:"published_size"`
	Counted       bool `json:"counted"`
	// Make lists the flags with which `reproduce` computes the missing cells.
	Make string `json:"make"`
}

// PaperClaims are the claims of the paper, in the order of the report.
var PaperClaims = func() []Claim {
	var all struct {
		Claims []Claim `json:"claims"`
	}
	if err := json.Unmarshal(claimsJSON, &all); err != nil {
		panic(fmt.Sprintf("infer: the embedded claims.json: %v", err))
	}
	return all.Claims
}()

// Allows returns the range that the claim states for a task's numbers. It returns false
// if the claim does not cover the task.
func (c Claim) Allows(task string) (r Range, ok bool) {
	want, ok := c.Want[task]
	if !ok {
		if want, ok = c.Want["*"]; !ok {
			return r, false
		}
	}
	none := math.Inf(1)
	limit := func(sign string) float64 { x, _ := strconv.ParseFloat(strings.TrimPrefix(want, sign), 64); return x }
	switch {
	case want == "up":
		return Range{Lo: 0, Hi: none}, true
	case want == "down":
		return Range{Lo: -none, Hi: 0}, true
	case want == "same":
		return Range{Lo: -c.Margin, Hi: c.Margin}, true
	case want[0] == '>':
		return Range{Lo: limit("> "), Hi: none}, true
	case want[0] == '<':
		return Range{Lo: -none, Hi: limit("< ")}, true
	}
	return Range{Lo: limit("") - c.Margin, Hi: limit("") + c.Margin}, true
}

// Tasks returns the tasks of the paper that the claim covers.
func (c Claim) Tasks() (out []string) {
	for _, task := range results.PaperTasks {
		if _, ok := c.Allows(task); ok {
			out = append(out, task)
		}
	}
	return out
}

// Evidence is one of the numbers that decide a claim, and whether it agrees with the
// claim. A missing number has no value and is Undecided.
type Evidence struct {
	*Number
	Stand Verdict
}

// Missing reports whether the folder lacks the number.
func (e Evidence) Missing() bool { return e.Value == nil }

// Finding is a claim, the verdict on it, and the numbers that led to the verdict.
type Finding struct {
	Claim
	Verdict  Verdict
	Evidence []Evidence
}

// findings decides all claims by the numbers of a group, and adds these numbers to the
// table. In a folder with a single task the claims are about this task.
func (t *Table) findings(g Group) (out []Finding) {
	for _, c := range PaperClaims {
		f := Finding{Claim: c}
		if tasks := Tasks(g.Blocks); len(tasks) == 1 && slices.Contains(c.Tasks(), tasks[0]) {
			f.Claim.Claim = "On " + words.Task(tasks[0]) + ": " + c.Claim
			f.Want = map[string]string{tasks[0]: cmp.Or(c.Want[tasks[0]], c.Want["*"])}
		}
		for _, n := range evidences[c.Measure](t, g, f.Claim) {
			// A number with a solver belongs to a block, and has the settings of the block.
			if n.Solver == "" {
				n.Settings = g.Name
			}
			f.Evidence = append(f.Evidence, Evidence{t.add(n), Undecided})
		}
		f.decide(t)
		out = append(out, f)
	}
	return out
}

// decide sets the verdicts on the numbers and on the claim.
func (f *Finding) decide(t *Table) {
	var stands []Verdict
	oneSeed := false
	for i := range f.Evidence {
		e := &f.Evidence[i]
		allowed, known := f.Allows(e.Task)
		if !known { // a number over all tasks
			allowed, _ = f.Allows(f.Tasks()[0])
		}
		x := e.Estimate()
		if f.Counted {
			x.Lo, x.Hi = x.Value-point, x.Value+point
		}
		switch {
		case e.Missing():
		case f.PublishedSize && !t.publishedSize(e.From):
			e.Notes = append(slices.Clip(e.Notes), "not with the published preset")
		default:
			e.Stand = x.Stand(allowed, len(f.Evidence))
		}
		// Costs do not depend on the weights, so that one training is enough for them.
		if e.Unit != "task" && !(e.Unit == "training seed" && e.N > 1) {
			oneSeed = true
		}
		stands = append(stands, e.Stand)
	}
	if f.Verdict = f.Need.Decide(stands); f.Verdict == Holds && oneSeed {
		f.Verdict = HoldsHere
	}
}

// publishedSize reports whether all checkpoints behind the cells or analyses were trained
// with the preset of the paper.
func (t *Table) publishedSize(from []string) bool {
	return !slices.ContainsFunc(from, func(id string) bool {
		preset := t.Trained[t.weightsOf[id]].Preset
		return t.weightsOf[id] != "" && preset != "paper" && preset != "paper-main" && preset != "printed"
	})
}
