// Package resultstest provides a small results folder for tests of the packages that read one.
// Its numbers can be computed by hand: each set has 10 episodes, and in each cell the first k
// of them succeed, after 5, 10, ... steps. HandPlan has k for every cell.
//
// Contents returns the folder in memory, and Write writes it. Cells creates cells for other
// plans.
package resultstest

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/train/metrics"
)

// Methods of the folder.
const (
	LeWM      = model.Baseline
	Scale     = "scale"
	Aux       = "aux"
	Untrained = model.Untrained
	Random    = model.Random
)

// Plan describes the cells of a method at a tier: Hits has the number of successes on
// s101, s102, ...
type Plan struct {
	Method, Tier string
	Hits         []int
}

// P returns a Plan.
func P(method, tier string, hits ...int) Plan { return Plan{method, tier, hits} }

// tiers has the candidates and iterations of the folder's tiers.
var tiers = map[string][2]int{"T1": {300, 30}, "T2": {150, 15}, "T2p": {100, 20}, "T4": {20, 5}, "T3": {50, 10}, "T5": {10, 3}}

// HandPlan is the plan of the folder.
var HandPlan = []Plan{
	P(LeWM, "T1", 8, 7, 9), P(LeWM, "T3", 7, 7, 8), P(LeWM, "T5", 5, 4, 6),
	P(Scale, "T1", 10, 9, 10), P(Scale, "T3", 9, 8, 10), P(Scale, "T5", 6, 6, 7),
	P(Aux, "T1", 8, 8, 8), P(Aux, "T3", 7, 6, 8), P(Aux, "T5", 4, 5, 6),
	P(Untrained, "T1", 3, 2, 4), P(Untrained, "T3", 3, 3, 3), P(Untrained, "T5", 2, 3, 2),
	P(Random, "", 2, 1, 3),
}

// Episodes is the number of episodes in a set.
const Episodes = 10

// Spec returns the spec of a plan's cell on the set with an index (0 is s101).
func Spec(p Plan, set int) results.Spec {
	s := results.Spec{Rules: results.Rules{Protocol: results.Paper, Budget: 50, GoalOffset: 25}, Schema: results.Schema, Task: "tworoom", Method: p.Method, Data: "d0d0d0d0d0d0d0d0",
		Set: fmt.Sprintf("s%d", 101+set), SetHash: fmt.Sprintf("hash-of-s%d", 101+set), Episodes: Episodes}
	// Random actions have neither weights nor a planner.
	if p.Method == Random {
		return s
	}
	t := tiers[p.Tier]
	s.Precision, s.Solver, s.Tier, s.Weights, s.Horizon = "fp32", results.CEM, p.Tier, "weights-of-"+p.Method, 5
	s.Candidates, s.Iterations, s.Elites = t[0], t[1], max(t[0]/10, 2)
	return s
}

// Result returns the result of a plan's cell whose first hits episodes succeed.
func Result(p Plan, hits int) results.Result {
	r := results.Result{Device: "cpu avx2 fp32"}
	for e := range Episodes {
		row := results.Row{Episode: e, Trajectory: e * 3, Start: e, Steps: 50, Success: e < hits}
		// The published rule for planner seeds (docs/sources.md#planner-seeds).
		if p.Method != Random {
			row.PlannerSeed = crc32.ChecksumIEEE([]byte(fmt.Sprintf("%d|%s", e, p.Tier))) & 0x7fffffff
		}
		if row.Success {
			row.Steps = 5 * (e + 1)
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// Cells returns the cells of plans. The function edit, unless nil, may change each of
// them before its id is computed.
func Cells(t testing.TB, plans []Plan, edit func(*results.Cell)) []results.Cell {
	t.Helper()
	var out []results.Cell
	for _, p := range plans {
		for set, hits := range p.Hits {
			c := results.Cell{Spec: Spec(p, set), Result: Result(p, hits)}
			if edit != nil {
				edit(&c)
			}
			var err error
			if c.ID, err = cell.ID(results.Kind, c.Spec); err != nil {
				t.Fatal(err)
			}
			out = append(out, c)
		}
	}
	return out
}

// Search returns an edit of cells for the plans of searches, whose Method is the name of an arm
// such as probe@lewm, with a training seed. The oracle has neither seed nor weights.
func Search(seed int) func(*results.Cell) {
	return func(c *results.Cell) {
		s := &c.Spec
		if wrapper, method, wrapped := strings.Cut(s.Method, "@"); wrapped {
			s.Wrapper, s.Method = wrapper, method
		}
		s.TrainSeed, s.Weights = seed, fmt.Sprintf("weights-of-%s-%d", s.Method, seed)
		if s.Method == model.OracleState || s.Method == Random {
			s.TrainSeed, s.Weights = 0, ""
		}
	}
}

// Run has the measured times of every cell of the folder.
var Run = results.Run{Started: "2026-01-02T03:04:05Z", Host: "host", Seconds: 1.5, PlanMillis: 12, Workers: 2, Version: "scalewm test"}

// Gate is the verdict on the frames of the folder's task.
var Gate = results.Gate{Task: "tworoom", Data: "d0d0d0d0d0d0d0d0", Error: 0.25, Limit: 3}

// Metrics returns the training curve of a method.
func Metrics(method string) (rows []metrics.Row) {
	for step := range 300 {
		x := float64(step + 1)
		rows = append(rows, metrics.Row{Step: step, Split: metrics.Train, GradNorm: 3,
			Losses: metrics.Losses{Loss: 2/x + 0.1, Pred: 1 / x, SIGReg: 0.5 + 1/x, Obj: float64(len(method)) / (x + 10)}})
	}
	return rows
}

// Contents returns what results.Load and AddMedia read from the folder, without the
// paths of files.
func Contents(t testing.TB) *results.Contents {
	t.Helper()
	c := &results.Contents{Cells: Cells(t, HandPlan, nil), Gates: []results.Gate{Gate}, Runs: map[string]results.Run{}, Trained: map[string]results.Trained{}}
	slices.SortFunc(c.Cells, func(a, b results.Cell) int { return strings.Compare(a.ID, b.ID) })
	for _, x := range c.Cells {
		c.Runs[x.ID] = Run
	}
	for _, m := range []string{Aux, LeWM, Scale} { // AddMedia reads folders in alphabetical order
		c.Curves = append(c.Curves, results.Curve{Task: "tworoom", Arm: results.Arm{Method: m}, Rows: Metrics(m)})
	}
	for _, m := range []string{LeWM, Scale, Aux} {
		c.Clips = append(c.Clips, results.Clip{Arm: results.Arm{Method: m}, Tier: "T1", GIF: []byte(GIF)})
	}
	return c
}

// Write writes the folder in the layout of `reproduce`.
func Write(t testing.TB, dir string) {
	t.Helper()
	s := cell.Store{Dir: filepath.Join(dir, results.CellsDir)}
	for _, c := range Cells(t, HandPlan, nil) {
		err := s.Save(c.ID, results.Kind, c.Spec, c.Result)
		if err == nil {
			err = s.SaveRun(c.ID, Run)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	Put(t, filepath.Join(dir, results.GatesDir, "tworoom.json"), `{"task":"tworoom","data":"d0d0d0d0d0d0d0d0","error":0.25,"limit":3}`)
	for _, m := range []string{LeWM, Scale, Aux} {
		WriteMedia(t, dir, m)
	}
}

// WriteMedia writes the training curve and the film of a method.
func WriteMedia(t testing.TB, dir, method string) {
	t.Helper()
	var w strings.Builder
	for _, r := range Metrics(method) {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(append(b, '\n'))
	}
	Put(t, filepath.Join(dir, "train", "tworoom-"+method+"-s0", metrics.FileName), w.String())
	Put(t, filepath.Join(dir, results.FilmsDir, method+"-T1.gif"), GIF)
}

// GIF is an image of one white pixel.
const GIF = "GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"

// Put writes a file, and creates the folders above it.
func Put(t testing.TB, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Analyses returns analyses of two methods. Only the first has a probe.
func Analyses() (out []results.Analysis) {
	add := func(method, name string, r results.Results) {
		out = append(out, results.Analysis{ID: fmt.Sprint(len(out)), Spec: results.AnalysisSpec{Analysis: name, Task: "tworoom", Method: method, TrainSeed: 1, Weights: method, Device: "cpu"}, Results: r})
	}
	for i, m := range []string{LeWM, Scale} {
		rho := results.Number(0.25 + 0.5*float64(i))
		add(m, "rank", results.Results{Rank: []results.Rank{{N: 1500, Spearman: rho, Pearson: rho, Lo: rho - 0.125, Hi: rho + 0.125}}})
		add(m, "spectrum", results.Results{Spectrum: &results.Spectrum{Eigenvalues: []float64{0.6, 0.3, 0.1}}})
		add(m, "rollout", results.Results{Rollout: &results.Rollout{RollErr: 0.375, Tau: 0.5, Starts: 19, Dropped: []results.Dropped{{Start: 4, Reason: "nothing <moves>"}}}})
		add(m, "dynamics", results.Results{Dynamics: &results.Dynamics{PerBlock: []results.Block{{Blocks: 1, Error: 0.1, OtherActions: 0.5}, {Blocks: 2, Error: 0.2, OtherActions: 0.6}}}})
	}
	score := func(probe string, k int, component string, r2 float64) results.ProbeScore {
		return results.ProbeScore{Probe: probe, K: k, Component: component, R2: results.Number(r2)}
	}
	add(LeWM, "probe", results.Results{Probe: &results.Probe{Scores: []results.ProbeScore{
		score("ridge", 2, "agent x", 0.1), score("ridge", 2, "mean", 0.125), score("ridge", 3, "agent x", 0.75), score("ridge", 3, "mean", 0.8125),
		score("mlp", 3, "agent x", math.NaN()), score("mlp", 3, "mean", 0.625)}}})
	return out
}
