package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
)

// JSON is the content of report.json, for other programs. Rates are in percent, and
// differences of rates in points. Numbers that do not exist are null.
type JSON struct {
	Cells    []JSONCell                     `json:"cells"`
	Paired   []JSONPair                     `json:"paired"`
	Claims   []JSONClaim                    `json:"claims"`
	Foreign  map[string][]infer.ForeignFile `json:"foreign,omitempty"` // files of other programs, by the method of their arm
	Trained  map[string]results.Trained     `json:"trained,omitempty"` // by the hash of the weights
	Analyses map[string][]results.Line      `json:"analyses"`          // in the form of `analyse --json`
	Numbers  []*infer.Number                `json:"numbers"`           // all numbers; the other lists are parts of it
}

// JSONCell is the success of an arm with one training seed at a tier.
type JSONCell struct {
	Task   string   `json:"task"`
	Method string   `json:"method"` // without variants
	Seed   int      `json:"seed"`   // of the training
	Solver string   `json:"solver"` // name of a table, as in infer.Placed
	Tier   string   `json:"tier"`
	Sets   int      `json:"sets"` // number of evaluation sets
	N      int      `json:"n"`    // number of episodes over all sets
	Mean   *float64 `json:"mean"` // over sets, in percent
	SD     *float64 `json:"sd"`   // over sets, ddof 1; null with one set
	// Settings distinguish the block from others of the task and solver. Variant
	// distinguishes the arm from others of its method, such as "half" or "w=0.3".
	Settings string `json:"settings,omitempty"`
	Variant  string `json:"variant,omitempty"`
	Note     string `json:"note,omitempty"` // on costs that were not finite
}

// JSONPair is the difference A minus B over paired episodes. The tier "mean" is the
// average over tiers.
type JSONPair struct {
	A      results.Arm `json:"a"`
	B      results.Arm `json:"b"`
	Task   string      `json:"task"`
	Solver string      `json:"solver"`
	Tier   string      `json:"tier"`
	N      int         `json:"n"`    // number of paired episodes
	Diff   *float64    `json:"diff"` // in points
	Lo     *float64    `json:"lo"`   // Lo and Hi bound the 95 % interval
	Hi     *float64    `json:"hi"`
	P      *float64    `json:"p"` // two-sided, not adjusted

	Settings string `json:"settings,omitempty"`
}

// JSONClaim is a claim of the paper, the verdict on it, and the number that the page
// shows with it, in the unit of the page. N is "" if the folder has no such number.
type JSONClaim struct {
	ID      string        `json:"id"` // as in claims.json
	Claim   string        `json:"claim"`
	Verdict infer.Verdict `json:"verdict"` // see infer.Verdict
	Number  string        `json:"number"`  // which one, as in "Two-Room, iCEM"
	Value   *float64      `json:"value"`
	Lo      *float64      `json:"lo"`
	Hi      *float64      `json:"hi"`
	N       string        `json:"n"`       // its units, as in "300 episodes"
	Section string        `json:"section"` // anchor of the section with the number
}

// mostFrom is the largest number of cells that report.json lists for a number. Averages
// over a large grid have thousands, which would make up most of the file; their lists
// are left out.
const mostFrom = 36

// JSON returns the content of report.json. Lists are empty instead of nil, so that they
// are [] in JSON.
func (r *Report) JSON() JSON {
	out := JSON{Cells: []JSONCell{}, Paired: []JSONPair{}, Claims: []JSONClaim{}, Trained: r.Trained, Analyses: map[string][]results.Line{}}
	for _, f := range r.Foreign {
		if out.Foreign == nil {
			out.Foreign = map[string][]infer.ForeignFile{}
		}
		out.Foreign[f.Name] = f.Files
	}
	for _, n := range r.Numbers {
		// Numbers are shared with the table: change a copy.
		if len(n.From) > mostFrom {
			short := *n
			short.From, n = nil, &short
		}
		out.Numbers = append(out.Numbers, n)
	}
	r.eachScore(func(b *infer.Block, a infer.Trained, t infer.Tier, n *infer.Number) {
		s := n.How.(*infer.Score)
		out.Cells = append(out.Cells, JSONCell{b.Task, methodOf(a.Arm), a.Seed, b.Solver, t.Name, len(s.BySet), s.N, n.Value, n.SD, b.Settings, a.Variants, s.Note()})
	})
	r.eachPair(func(b *infer.Block, n *infer.Number) {
		out.Paired = append(out.Paired, JSONPair{n.Of, n.Minus, n.Task, n.Solver, n.Tier, n.N, n.Value, n.Lo, n.Hi, n.P, n.Settings})
	})
	for _, f := range r.Claims {
		c := JSONClaim{ID: f.ID, Claim: f.Claim.Claim, Verdict: f.Verdict}
		if here := telling(f); len(here) > 0 {
			e := here[0]
			c.Number, c.Value, c.Lo, c.Hi, c.N, c.Section = nameOf(f, e), e.Value, e.Lo, e.Hi, over(e), r.sectionOf(e)
		}
		out.Claims = append(out.Claims, c)
	}
	for _, a := range r.Analyses {
		a.AddTo(out.Analyses, results.Line{Task: a.Spec.Task, Method: a.Spec.Arm(), Seed: a.Spec.TrainSeed})
	}
	return out
}

// jsonBytes returns report.json in this layout:
//
//	{
//	 "cells": [ ... ],      indented
//	 "paired": [ ... ],     indented
//	 "claims": [ ... ],     indented
//	 "foreign": { ... },    indented, if there are results of other programs
//	 "trained": { ... },    indented, if it is known
//	 "analyses": {
//	  "rank": [
//	  {"task": ...},        one result per line
//	 ]
//	 },
//	 "numbers": [
//	  {"what": ...},        one number per line
//	 ]
//	}
//
// The long lists have one element per line, so that the file can be compared by line
// and stays readable. Package json has no such format, so they are written by hand.
func (r *Report) jsonBytes() ([]byte, error) {
	all := r.JSON()
	analyses, numbers := all.Analyses, all.Numbers
	all.Analyses, all.Numbers = nil, nil
	head, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return nil, err
	}
	// Cut off the two empty lists at the end, and write them with their own layout.
	b := bytes.NewBuffer(bytes.TrimSuffix(head, []byte(",\n \"analyses\": null,\n \"numbers\": null\n}")))
	b.WriteString(",\n \"analyses\": {")
	for i, name := range slices.Sorted(maps.Keys(analyses)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "\n  %q: ", name)
		if err := doc.JSONLines(b, analyses[name]); err != nil {
			return nil, err
		}
	}
	b.WriteString("\n },\n \"numbers\": ")
	if err := doc.JSONLines(b, numbers); err != nil {
		return nil, err
	}
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}

// eachScore calls f for the success of every arm and training seed at every tier where
// it was run.
func (r *Report) eachScore(f func(*infer.Block, infer.Trained, infer.Tier, *infer.Number)) {
	for _, b := range r.Blocks {
		for _, a := range b.Every() {
			for _, t := range b.Tiers {
				if n := r.Find(infer.Number{What: infer.Success, Place: b.Place.At(t.Name), Of: a.Arm, Seed: &a.Seed}); n != nil {
					f(b, a, t, n)
				}
			}
		}
	}
}

// methodOf returns an arm's name without its variants.
func methodOf(arm results.Arm) string {
	arm.Variants = ""
	return arm.String()
}

// eachPair calls f for every paired difference of the blocks.
func (r *Report) eachPair(f func(*infer.Block, *infer.Number)) {
	for _, b := range r.Blocks {
		for _, n := range r.pairs(b) {
			f(b, n)
		}
	}
}

// pairs returns the paired differences of a block: those of each tier and, if there are
// several tiers, their mean. Pairs that could not be paired have none.
func (r *Report) pairs(b *infer.Block) (out []*infer.Number) {
	for _, c := range b.Pairs {
		for _, d := range c.All() {
			out = append(out, r.Find(infer.Number{What: infer.Diff, Place: b.Place.At(d.Tier), Of: c.Of, Minus: c.Minus}))
		}
	}
	return out
}

// successRows returns report.csv: one line for each arm, training seed and tier. Rates
// are in percent and not rounded. The columns are:
//
//   - rollouts: candidates times iterations of one plan
//   - sets, n, successes: numbers of evaluation sets, episodes and successes
//   - mean, sd: over sets
//   - lo, hi: 95 % Wilson interval of the pooled episodes
//   - pre_solved, mean_without_pre_solved: the share of starts that already meet the
//     goal, and the success without them
func (r *Report) successRows() [][]string {
	rows := [][]string{{"task", "solver", "method", "seed", "tier", "rollouts", "sets", "n", "successes", "mean", "sd", "lo", "hi", "pre_solved", "mean_without_pre_solved", "settings", "variant"}}
	r.eachScore(func(b *infer.Block, a infer.Trained, t infer.Tier, n *infer.Number) {
		s := n.How.(*infer.Score)
		rows = append(rows, []string{b.Task, b.Solver, methodOf(a.Arm), strconv.Itoa(a.Seed), t.Name, strconv.Itoa(t.Rollouts()), strconv.Itoa(len(s.BySet)), strconv.Itoa(s.N), strconv.Itoa(s.Hits),
			doc.Exact(s.Mean), doc.Exact(s.SD), doc.Exact(s.Lo), doc.Exact(s.Hi), doc.Exact(s.PreSolved), doc.Exact(s.Fresh), b.Settings, a.Variants})
	})
	return rows
}

// pairRows returns report-paired.csv: one line for each paired difference, with all its
// tests. Differences are in points. The columns are:
//
//   - n, sets, seeds: numbers of paired episodes, sets, and training seeds averaged
//   - both, a_only, b_only, neither: pairs of outcomes. They are empty unless an
//     episode counts 0 or 1 in each arm, since they are sums over tiers or seeds
//     otherwise.
//   - diff, lo, hi: A minus B, and its 95 % interval
//   - p, mid_p: the test of the row; mid-p for McNemar's test only
//   - set_p: sign flip over sets
//   - holm_p, step_down_p: adjusted, for means; bh_p: adjusted, for single tiers
//   - within_margin: the verdict on equivalence
func (r *Report) pairRows() [][]string {
	rows := [][]string{{"task", "solver", "a", "b", "tier", "n", "sets", "seeds", "both", "a_only", "b_only", "neither", "diff", "lo", "hi", "p", "mid_p", "set_p", "holm_p", "step_down_p", "bh_p", "within_margin", "settings"}}
	r.eachPair(func(b *infer.Block, n *infer.Number) {
		d := n.How.(*infer.Difference)
		row := []string{n.Task, n.Solver, n.Of.String(), n.Minus.String(), n.Tier, strconv.Itoa(d.N), strconv.Itoa(d.Sets), strconv.Itoa(d.Seeds)}
		for _, k := range []int{d.Both, d.OnlyA, d.OnlyB, d.Neither} {
			if d.Binary() {
				row = append(row, strconv.Itoa(k))
			} else {
				row = append(row, "")
			}
		}
		for _, x := range []float64{d.Diff, d.Lo, d.Hi, d.P, infer.Or(d.MidP), d.SetP, d.Holm(), d.StepDown, d.BH} {
			row = append(row, doc.Exact(x))
		}
		rows = append(rows, append(row, string(d.Verdict), n.Settings))
	})
	return rows
}

// episodeRows returns episodes.csv: one line for each episode, with the names of
// results.Row, the id of its cell, and the columns of report.csv that name what was
// evaluated: task, solver, method, seed, tier, settings and variant. Episodes of arms that
// do not search have neither solver nor tier. `scalewm compare` reads such lines of a single
// arm, and other programs can compute their own statistics from them.
func (r *Report) episodeRows() [][]string {
	rows := [][]string{{"task", "solver", "method", "seed", "tier", "set", "episode", "trajectory", "start", "success", "steps", "replans", "forwards",
		"planner_seed", "pre_solved", "nan_costs", "plan_cost", "diverged", "cell", "settings", "variant"}}
	bit := map[bool]string{false: "0", true: "1"}
	placed, _ := infer.PlaceCells(r.Cells)
	for _, c := range placed {
		s := c.Spec
		for _, e := range c.Result.Rows {
			rows = append(rows, []string{s.Task, c.Table, methodOf(c.Arm), strconv.Itoa(s.TrainSeed), s.Tier, s.Set, strconv.Itoa(e.Episode), strconv.Itoa(e.Trajectory), strconv.Itoa(e.Start),
				bit[e.Success], strconv.Itoa(e.Steps), strconv.Itoa(e.Replans), strconv.Itoa(e.PredictorCalls), strconv.FormatUint(uint64(e.PlannerSeed), 10), bit[e.PreSolved],
				strconv.Itoa(e.NaNCosts), doc.Exact(e.PlanCost), e.Diverged, c.ID, c.Settings.Name, c.Arm.Variants})
		}
	}
	return rows
}
