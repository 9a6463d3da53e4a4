package report

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	_ "scalewm/envs/cube" // for their titles
	_ "scalewm/envs/pointmaze"
	_ "scalewm/envs/pusht"
	_ "scalewm/envs/reacher"
	_ "scalewm/envs/tworoom"
	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/train/metrics"
)

// Methods of the made-up folder.
const (
	lewm      = model.Baseline
	scale     = "scale"
	aux       = "aux"
	untrained = model.Untrained
	random    = model.Random
)

// A made-up results folder, small enough to count by hand: sets of 10
// episodes, of which the first k of a cell succeed, after 5, 10, ... steps.
type plan struct {
	method, tier string
	hits         []int // successes on s101, s102, ...
}

// tiers of the made-up folder: candidates, iterations.
var fakeTiers = map[string][2]int{"T1": {300, 30}, "T2": {150, 15}, "T2p": {100, 20}, "T4": {20, 5}, "T3": {50, 10}, "T5": {10, 3}}

// handPlan is checked against numbers computed by hand in the tests.
var handPlan = []plan{
	{lewm, "T1", []int{8, 7, 9}}, {lewm, "T3", []int{7, 7, 8}}, {lewm, "T5", []int{5, 4, 6}},
	{scale, "T1", []int{10, 9, 10}}, {scale, "T3", []int{9, 8, 10}}, {scale, "T5", []int{6, 6, 7}},
	{aux, "T1", []int{8, 8, 8}}, {aux, "T3", []int{7, 6, 8}}, {aux, "T5", []int{4, 5, 6}},
	{untrained, "T1", []int{3, 2, 4}}, {untrained, "T3", []int{3, 3, 3}}, {untrained, "T5", []int{2, 3, 2}},
	{random, "", []int{2, 1, 3}},
}

// episodes of a set of the made-up folder.
const fakeEpisodes = 10

func fakeSpec(p plan, set int) results.Spec {
	s := results.Spec{Schema: results.Schema, Task: "tworoom", Method: p.method, Data: "d0d0d0d0d0d0d0d0", Set: fmt.Sprintf("s%d", 101+set), SetHash: fmt.Sprintf("hash-of-s%d", 101+set), Episodes: fakeEpisodes, Rules: results.Rules{Protocol: "paper", Budget: 50, GoalOffset: 25}}
	if p.method == random {
		return s
	}
	t := fakeTiers[p.tier]
	s.Precision, s.Solver, s.Tier, s.Weights, s.Horizon = "fp32", "cem", p.tier, "weights-of-"+p.method, 5
	s.Candidates, s.Iterations, s.Elites = t[0], t[1], max(t[0]/10, 2)
	return s
}

func fakeResult(p plan, hits int) results.Result {
	r := results.Result{Device: "cpu avx2 fp32"}
	for e := range fakeEpisodes {
		row := results.Row{Episode: e, Trajectory: e * 3, Start: e, Steps: 50, Success: e < hits}
		if p.method != random {
			row.PlannerSeed = crc32.ChecksumIEEE([]byte(fmt.Sprintf("%d|%s", e, p.tier))) & 0x7fffffff
		}
		if row.Success {
			row.Steps = 5 * (e + 1)
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// cellsOf makes the cells of plans; edit may change them before they are named.
func cellsOf(t *testing.T, plans []plan, edit func(*results.Cell)) []results.Cell {
	t.Helper()
	var out []results.Cell
	for _, p := range plans {
		for set, hits := range p.hits {
			c := results.Cell{Spec: fakeSpec(p, set), Result: fakeResult(p, hits)}
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

// built is the report of plans that never touched a disk.
func built(t *testing.T, plans []plan, edit func(*results.Cell)) *Report {
	t.Helper()
	r, err := Build(&Data{Cells: cellsOf(t, plans, edit), Gates: []results.Gate{fakeGate}}, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fakeRun is the measured times of every cell of the made-up folder.
var fakeRun = results.Run{Started: "2026-01-02T03:04:05Z", Host: "host", Seconds: 1.5, PlanMillis: 12, Workers: 2, Version: "scalewm test"}

// fakeGate is the verdict on the made-up folder's frames.
var fakeGate = results.Gate{Task: "tworoom", Data: "d0d0d0d0d0d0d0d0", Error: 0.25, Limit: 3}

// fakeMetrics is the training curve of a method.
func fakeMetrics(method string) (rows []metrics.Row) {
	for step := range 300 {
		x := float64(step + 1)
		rows = append(rows, metrics.Row{Step: step, Split: metrics.Train, GradNorm: 3,
			Losses: metrics.Losses{Loss: 2/x + 0.1, Pred: 1 / x, SIGReg: 0.5 + 1/x, Obj: float64(len(method)) / (x + 10)}})
	}
	return rows
}

// logged is a curve as the lines of its file.
func logged(t *testing.T, rows []metrics.Row) string {
	t.Helper()
	var w strings.Builder
	for _, r := range rows {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(append(b, '\n'))
	}
	return w.String()
}

// wholeData is the made-up folder as Load reads it from a disk.
func wholeData(t *testing.T) *Data {
	t.Helper()
	d := &Data{Cells: cellsOf(t, handPlan, nil), Gates: []results.Gate{fakeGate}, Runs: map[string]results.Run{}}
	slices.SortFunc(d.Cells, func(a, b results.Cell) int { return strings.Compare(a.ID, b.ID) })
	for _, c := range d.Cells {
		d.Runs[c.ID] = fakeRun
	}
	for _, m := range []string{aux, lewm, scale} { // as their folders are sorted
		d.Training = append(d.Training, Training{Task: "tworoom", Method: m, Rows: fakeMetrics(m)})
	}
	for _, m := range []string{lewm, scale, aux} {
		d.Clips = append(d.Clips, Clip{Method: m, Tier: "T1", GIF: []byte(tinyGIF)})
	}
	return d
}

// folder writes it to a disk as `reproduce` leaves it.
func folder(t *testing.T, dir string) {
	t.Helper()
	s := cell.Store{Dir: filepath.Join(dir, results.CellsDir)}
	for _, c := range wholeData(t).Cells {
		if err := s.Save(c.ID, results.Kind, c.Spec, c.Result); err != nil {
			t.Fatal(err)
		}
		if err := s.SaveRun(c.ID, fakeRun); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(dir, results.GatesDir, "tworoom.json"), `{"task":"tworoom","data":"d0d0d0d0d0d0d0d0","error":0.25,"limit":3}`)
	for _, m := range []string{lewm, scale, aux} {
		put(t, filepath.Join(dir, "train", "tworoom-"+m+"-s0", metrics.FileName), logged(t, fakeMetrics(m)))
		put(t, filepath.Join(dir, watchDir, m+"-T1.gif"), tinyGIF)
	}
}

// tinyGIF is one white pixel.
const tinyGIF = "GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
