package external_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"scalewm/envs"
	_ "scalewm/envs/tworoom"
	"scalewm/eval"
	"scalewm/eval/external"
	"scalewm/eval/infer"
	"scalewm/eval/pipeline"
	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// silent is a pipeline.Listener that records notes in heard.
type silent struct{}

var heard []string

func (silent) Begin(string, int, int)        {}
func (silent) Progress(int64, int64, string) {}
func (silent) Note(text string)              { heard = append(heard, text) }
func (silent) End(string, string)            {}
func (silent) Failed(string, error)          {}

func newDevice(t *testing.T) device.Device {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Precision: device.FP32, Threads: 2})
	must(t, err)
	t.Cleanup(func() { dev.Close() })
	return dev
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// axes are the axes of all evaluations in this file.
var axes = pipeline.Axes{Solvers: []string{results.CEM, results.ICEM}, Tiers: eval.Tiers()[4:], Sets: []string{"s101"}}

// fresh makes an evaluation replace existing cells.
var fresh bool

// native is a results folder with episodes of Two-Room and an evaluated untrained LeWM.
var native string

func TestMain(m *testing.M) {
	code := 1
	if dir, err := os.MkdirTemp("", "external"); err == nil {
		native = dir
		code = m.Run()
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// natively creates that folder once and returns the model.
func natively(t *testing.T) model.World {
	t.Helper()
	made.Do(func() { evaluateNatively(t) })
	w, _, err := model.Load(newDevice(t), native+"/train/tworoom-untrained-s3072", "")
	must(t, err)
	return w
}

var made sync.Once

func evaluateNatively(t *testing.T) {
	t.Helper()
	p, err := pipeline.LoadPreset("../../cmd/scalewm/testdata/tiny.toml")
	must(t, err)
	task, err := envs.Lookup("tworoom")
	must(t, err)
	m, err := model.LookUp(model.Untrained)
	must(t, err)
	p.Collect.Episodes = 6
	dev := newDevice(t)
	g := pipeline.Grid{Preset: *p, Tasks: []envs.Task{task}, Methods: []model.Method{m}, Seeds: []int64{3072}, Definition: protocol.Definition{Rules: results.Published()}, Axes: axes, Episodes: 3}
	g.Precision = string(device.FP32)
	space := pipeline.NewWorkspace(g, native, pipeline.Options{Workers: 2, Listener: silent{}, Trainer: dev, Planner: dev})
	defer space.Close()
	failed, err := space.Graph().Run(t.Context(), silent{})
	must(t, err)
	if len(failed) > 0 {
		t.Fatal(failed)
	}
}

// visit evaluates an external model in a folder; a function answers its questions.
func visit(t *testing.T, dir string, s external.Description, answer func(*external.Question) ([]float32, error)) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r := pipeline.Request{Task: "tworoom", Data: native + "/data/tworoom.h5", Out: dir, Solver: strings.Join(axes.Solvers, ","), Tier: "T5", Sets: "s101", Episodes: 3, Workers: 2, Fresh: fresh}
	e, err := r.Evaluation("", silent{})
	must(t, err)
	g, arm, agent, err := external.New(ctx, newDevice(t), s, 2, results.UsualBlock)
	if err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case q := <-g.Questions():
				x, err := answer(q)
				if err != nil {
					cancel(err)
					return
				}
				b := make([]byte, 0, 4*len(x))
				for _, v := range x {
					b = binary.NativeEndian.AppendUint32(b, math.Float32bits(v))
				}
				if err := g.Answer(q, b); err != nil {
					cancel(err)
				}
			}
		}
	}()
	out, err := e.Run(ctx, pipeline.Subject{Name: s.Name, Arm: arm, Agent: agent})
	if len(out.Failed) > 0 {
		t.Error(out.Failed)
	}
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return nil
}

func floats(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.NativeEndian.Uint32(b[4*i:]))
	}
	return x
}

// mirror answers questions with one of our models: as a world model, and as a cost with the
// same distance.
type mirror struct {
	model.World
	start, goal []float32
}

func (m *mirror) encode(frames []byte) []float32 {
	d, info := m.Device(), m.Info()
	n := len(frames) / info.FrameBytes()
	z, px := device.NewMat(d, n, info.Dim), d.AllocBytes(len(frames))
	d.UploadBytes(px, frames)
	m.Encode(z, px, n)
	x := make([]float32, z.Len())
	d.Download(x, z)
	return x
}

// rollout returns the predicted latents and their distances from goals.
func (m *mirror) rollout(start, goal, candidates []float32) (latents, costs []float32) {
	d, info := m.Device(), m.Info()
	e := len(start) / info.Dim
	from, to, actions := device.NewMat(d, e, info.Dim), device.NewMat(d, e, info.Dim), device.NewMat(d, len(candidates)/(results.Published().Horizon*info.ActionWidth), results.Published().Horizon*info.ActionWidth)
	pred, cost := device.NewMat(d, actions.Rows, info.Dim), device.NewMat(d, e, actions.Rows/e)
	d.Upload(from, start)
	d.Upload(to, goal)
	d.Upload(actions, candidates)
	m.Rollout(pred, from, actions, results.Published().Horizon)
	d.LatentCost(cost, pred, to, info.CostMean)
	latents, costs = make([]float32, pred.Len()), make([]float32, cost.Len())
	d.Download(latents, pred)
	d.Download(costs, cost)
	return latents, costs
}

func (m *mirror) answer(q *external.Question) ([]float32, error) {
	in := func(i int) []byte { return q.In[i].Bytes }
	switch q.Call {
	case "encode":
		return m.encode(in(0)), nil
	case "rollout":
		start := floats(in(0))
		latents, _ := m.rollout(start, make([]float32, len(start)), floats(in(1)))
		return latents, nil
	case "begin":
		m.start, m.goal = m.encode(in(0)), m.encode(in(1))
		return nil, nil
	case "cost":
		_, costs := m.rollout(m.start, m.goal, floats(in(0)))
		return costs, nil
	}
	n := 1 // plan and propose: the mean action
	for _, k := range q.Out {
		n *= k
	}
	return make([]float32, n), nil
}

func (m *mirror) says(name, kind string) external.Description {
	return external.Description{Name: name, Weights: "ab", Kind: kind, FrameSize: m.Info().FrameSize, Patches: 1, Dim: m.Info().Dim, TrainSeed: 3072}
}

// cellsOf returns a folder's cells by arm, solver and set.
func cellsOf(t *testing.T, dir string) map[string]results.Cell {
	t.Helper()
	f, err := results.Load(t.Context(), dir)
	must(t, err)
	out := map[string]results.Cell{}
	for _, c := range f.Cells {
		out[strings.TrimSpace(c.Spec.Arm().String()+" "+c.Spec.Solver)] = c
	}
	return out
}

func rows(t *testing.T, c results.Cell) string {
	t.Helper()
	b, err := json.Marshal(c.Result.Rows)
	must(t, err)
	return string(b)
}

// An external model that answers with one of our models gives the same rows byte for byte,
// as a world model and as a cost. A proposal of zeros changes only the number of calls, and
// a policy does not search.
func TestExternalActsAsItsModel(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	m := &mirror{World: natively(t)}
	dir := native
	for _, kind := range []string{results.PythonWorld, results.PythonCost, results.PythonPolicy} {
		must(t, visit(t, dir, m.says("mirror", kind), m.answer))
	}
	seeded := m.says("mirror", results.PythonWorld)
	seeded.Proposal = true
	must(t, visit(t, dir, seeded, m.answer))

	cells := cellsOf(t, dir)
	for _, solver := range []string{results.CEM, results.ICEM} {
		ours := cells["untrained "+solver]
		if len(ours.Result.Rows) != 3 {
			t.Fatalf("%d native rows", len(ours.Result.Rows))
		}
		for _, kind := range []string{"mirror@world ", "mirror@cost "} {
			c := cells[kind+solver]
			if rows(t, c) != rows(t, ours) {
				t.Errorf("%s%s: rows\n%s\nnot\n%s", kind, solver, rows(t, c), rows(t, ours))
			}
			if c.Result.Device != "python+"+ours.Result.Device || c.Spec.Weights != "ab" || c.Spec.Tier != "T5" {
				t.Errorf("%s: %+v on %s", kind, c.Spec, c.Result.Device)
			}
		}
		c := cells["mirror@world-proposal "+solver]
		for i := range c.Result.Rows {
			c.Result.Rows[i].PredictorCalls -= c.Result.Rows[i].Replans
		}
		if rows(t, c) != rows(t, ours) {
			t.Errorf("a proposal of zeros: rows\n%s\nnot\n%s", rows(t, c), rows(t, ours))
		}
	}
	policy := cells["mirror@policy"]
	for _, r := range policy.Result.Rows {
		if r.PredictorCalls != r.Replans || r.PlannerSeed != 0 || r.Replans < 1 {
			t.Errorf("a policy's row: %+v", r)
		}
	}
	if s := policy.Spec; s.Tier != "" || s.Candidates != 0 || s.Horizon != results.Published().Horizon {
		t.Errorf("a policy's cell: %+v", s)
	}
	shown(t, dir)
}

// A policy that answers observations gets their fields as arrays, after a reset, and may
// answer one action or blocks. Answers of other lengths are errors.
func TestExternalActs(t *testing.T) {
	m := &mirror{World: natively(t)}
	for _, c := range []struct {
		numbers int // of the answer for an episode
		steps   int // env steps that are executed
		bad     string
	}{{numbers: 2, steps: 1}, {numbers: 20, steps: 10}, {numbers: 50, steps: 25}, {numbers: 51, bad: "answering \"act\" with 612 bytes"}} {
		dir, reset := t.TempDir(), 0
		s := m.says("actor", results.PythonPolicy)
		s.Acts = true
		err := visit(t, dir, s, func(q *external.Question) ([]float32, error) {
			if q.Call == "reset" {
				reset++
				return nil, nil
			}
			n, size := q.In[0].Shape[0], m.Info().FrameSize
			var got []string
			for _, a := range q.In {
				got = append(got, fmt.Sprint(a.DType, a.Shape, len(a.Bytes)))
			}
			want := []string{fmt.Sprint("int64", []int{n}, 8*n), fmt.Sprint("uint8", []int{n, size, size, 3}, 3*n*size*size), fmt.Sprint("uint8", []int{n, size, size, 3}, 3*n*size*size), fmt.Sprint("int64", []int{n}, 8*n), fmt.Sprint("int64", []int{n}, 8*n),
				fmt.Sprint("float64", []int{n, 2}, 16*n), fmt.Sprint("float32", []int{n, 2}, 8*n), "float64[2] 16", "float64[2] 16", "float64[2] 16", "float64[2] 16", fmt.Sprint("uint64", []int{n}, 8*n)}
			if q.Call != "act" || reset == 0 || !slices.Equal(got, want) || !slices.Equal(q.Out, []int{n, 5, 10}) {
				t.Errorf("%s after %d resets: %v, answer %v; want %v", q.Call, reset, got, q.Out, want)
			}
			return make([]float32, n*c.numbers), nil
		})
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%d numbers: %v, want %q", c.numbers, err, c.bad)
			}
			continue
		}
		must(t, err)
		for _, r := range cellsOf(t, dir)["actor@policy"].Result.Rows {
			if r.Replans != (r.Steps+c.steps-1)/c.steps || r.PredictorCalls != r.Replans {
				t.Errorf("%d numbers: %+v", c.numbers, r)
			}
		}
	}
}

// shown checks that the external models appear in a comparison and in the report.
func shown(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"mirror@world", "mirror@policy"} {
		a, err := infer.Load(t.Context(), dir+":"+name, infer.Filter{Solver: "cem"})
		must(t, err)
		b, err := infer.Load(t.Context(), dir+":untrained", infer.Filter{Solver: "cem"})
		must(t, err)
		c := infer.Compare(a, b, infer.Options{})
		if len(c.Refused) > 0 || c.Mean == nil || name == "mirror@world" && c.Mean.Diff != 0 {
			t.Errorf("%s against the model: %+v", name, c)
		}
	}
	folder, err := results.Load(t.Context(), dir)
	must(t, err)
	numbers, err := infer.Infer(&folder, infer.Options{})
	must(t, err)
	for _, b := range numbers.Blocks {
		var names []string
		for _, a := range b.Names() {
			names = append(names, a.String())
		}
		if len(b.Tiers) != 1 {
			t.Errorf("%s: %d tiers", b.Solver, len(b.Tiers))
		}
		if want := []string{"untrained", "mirror@cost", "mirror@policy", "mirror@world", "mirror@world-proposal"}; !slices.Equal(names, want) {
			t.Errorf("%s: arms %v, want %v", b.Solver, names, want)
		}
	}
}

// An external model that fails during a plan ends the evaluation with its own error.
// Finished cells remain, and a second evaluation computes the rest.
func TestExternalFails(t *testing.T) {
	m := &mirror{World: natively(t)}
	dir := t.TempDir()
	boom := errors.New("the model's own error")
	n := 0
	failing := func(q *external.Question) ([]float32, error) {
		if q.Call == "rollout" {
			if n++; n > 10 { // CEM at T5 has 3 iterations and two plans; then comes iCEM
				return nil, boom
			}
		}
		return m.answer(q)
	}
	if err := visit(t, dir, m.says("mirror", results.PythonWorld), failing); !errors.Is(err, boom) {
		t.Errorf("a failing model: %v", err)
	}
	cells := cellsOf(t, dir)
	cells["untrained icem"] = cellsOf(t, native)["untrained icem"]
	if _, ok := cells["mirror@world cem"]; !ok {
		t.Error("the cell that was done is lost")
	}
	if _, ok := cells["mirror@world icem"]; ok {
		t.Error("a cell of a model that failed")
	}
	asked := 0
	must(t, visit(t, dir, m.says("mirror", results.PythonWorld), func(q *external.Question) ([]float32, error) {
		asked++
		return m.answer(q)
	}))
	if c := cellsOf(t, dir)["mirror@world icem"]; rows(t, c) != rows(t, cells["untrained icem"]) || asked > 2*n {
		t.Errorf("after %d questions: %s", asked, rows(t, c))
	}
	if err := visit(t, dir, m.says("mirror", results.PythonWorld), func(*external.Question) ([]float32, error) { return nil, boom }); err != nil {
		t.Errorf("nothing is left to do, and the model is asked: %v", err)
	}
}

// The same weights with other code have their own cells, and a cell without a hash of the
// code matches neither. Existing cells are reused, with a note per solver that gives their
// date, and replaced if fresh ones are requested.
func TestCodeAndReuse(t *testing.T) {
	m := &mirror{World: natively(t)}
	dir := t.TempDir()
	evaluate := func(code string) (asked int) {
		heard = nil
		s := m.says("mirror", results.PythonWorld)
		s.Code = code
		must(t, visit(t, dir, s, func(q *external.Question) ([]float32, error) {
			asked++
			return m.answer(q)
		}))
		return asked
	}
	for i, code := range []string{"", "aa", "bb"} {
		asked := evaluate(code)
		f, err := results.Load(t.Context(), dir)
		must(t, err)
		if asked == 0 || len(f.Cells) != 2*(i+1) || strings.Contains(strings.Join(heard, ""), "reused") {
			t.Errorf("code %q: %d questions, %d cells, notes %q", code, asked, len(f.Cells), heard)
		}
	}
	if asked := evaluate("aa"); asked != 0 {
		t.Errorf("the same code again: %d questions", asked)
	}
	var reused []string
	for _, note := range heard {
		if strings.Contains(note, "reused") {
			reused = append(reused, note)
		}
	}
	for i, solver := range []string{"cem T5", "icem T5"} {
		if len(reused) != 2 || !regexp.MustCompile(solver+`: 1 of 1 cells existed and were reused \(s101\), made 20\d\d-\d\d-\d\dT[0-9:]+Z$`).MatchString(reused[i]) {
			t.Errorf("notes %q", heard)
		}
	}
	film := dir + "/watch/tworoom-mirror@world-T5.gif"
	must(t, os.Chtimes(film, time.Unix(1, 0), time.Unix(1, 0)))
	fresh = true
	defer func() { fresh = false }()
	if asked := evaluate("aa"); asked == 0 || strings.Contains(strings.Join(heard, ""), "reused") {
		t.Errorf("fresh cells: %d questions, notes %q", asked, heard)
	}
	if i, err := os.Stat(film); err != nil || i.ModTime().Unix() == 1 {
		t.Errorf("the film of the earlier cells is still there: %v", err)
	}
	f, err := results.Load(t.Context(), dir)
	must(t, err)
	names := map[string]bool{}
	for _, c := range pipeline.Scores(f.Cells) {
		names[c.Method] = true
	}
	if want := []string{"mirror@world@aa", "mirror@world@bb", "mirror@world@no-code"}; !slices.Equal(slices.Sorted(maps.Keys(names)), want) {
		t.Errorf("arms %v, want %v", names, want)
	}
}

// Descriptions of impossible models, and names that are taken, are errors.
func TestRefused(t *testing.T) {
	m := &mirror{World: natively(t)}
	dir := t.TempDir()
	for want, change := range map[string]func(*external.Description){
		"is the name of a built-in":   func(s *external.Description) { s.Name = "scale" },
		`name "SCALE" is the name`:    func(s *external.Description) { s.Name = "SCALE" },
		"is not valid (hint: letters": func(s *external.Description) { s.Name = "a b" },
		`name "a@b" is not valid`:     func(s *external.Description) { s.Name = "a@b" },
		"weights is \"\"":             func(s *external.Description) { s.Weights = "" },
		"hash of the model's":         func(s *external.Description) { s.Code = "../a" },
		"of kind":                     func(s *external.Description) { s.Kind = "nosuch" },
		"latents of":                  func(s *external.Description) { s.Dim = 0 },
		"frames of":                   func(s *external.Description) { s.FrameSize = 1 << 20 },
		"a policy makes":              func(s *external.Description) { s.Kind, s.Proposal = results.PythonPolicy, true },
		"3 means":                     func(s *external.Description) { s.ActionMean, s.ActionStd = []float64{0, 0, 0}, []float64{1, 1, 1} },
	} {
		s := m.says("mirror", results.PythonWorld)
		change(&s)
		if err := visit(t, dir, s, m.answer); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%v, want %q and a hint", err, want)
		}
	}
	searches := axes.Solvers
	axes.Solvers = []string{results.Descent}
	defer func() { axes.Solvers = searches }()
	if err := visit(t, dir, m.says("mirror", results.PythonWorld), m.answer); err == nil || !strings.Contains(err.Error(), "needs a gradient") {
		t.Errorf("gradient descent: %v", err)
	}
}
