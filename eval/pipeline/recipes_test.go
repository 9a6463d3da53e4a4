package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/safefile"
	"scalewm/envs"
	_ "scalewm/envs/mjenv/pendulum"
	"scalewm/eval"
	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	_ "scalewm/model/train/testdata/line"
	"scalewm/mujoco"
	"scalewm/mujoco/render"
)

// tinyWorkspace has the smallest grid of a task, with random actions as its only
// method, in an empty folder.
func tinyWorkspace(t *testing.T, task string) *Workspace {
	t.Helper()
	p, err := LoadPreset("../../cmd/scalewm/testdata/tiny.toml")
	if err != nil {
		t.Fatal(err)
	}
	g := Grid{Preset: *p, Tasks: lookUp(t, envs.Lookup, task), Methods: lookUp(t, model.LookUp, model.Random), Seeds: []int64{3072},
		Definition: protocol.Definition{Rules: results.Published()}, Axes: Axes{Solvers: []string{results.CEM}, Tiers: eval.Tiers()[4:], Sets: []string{"s101"}}, Episodes: 2}
	g.Precision = string(device.FP32)
	dev, err := cpu.New(cpu.Options{Precision: device.FP32, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorkspace(g, t.TempDir(), Options{Workers: 2, Listener: &heard{}, Trainer: dev, Planner: dev})
	t.Cleanup(func() { w.Close(); dev.Close() })
	return w
}

// The recipe "a new MuJoCo task": importing the task is the only change. It is
// collected, every method is trained, and every solver plans.
func TestNewTask(t *testing.T) {
	w := tinyWorkspace(t, "pendulum")
	world, err := w.Grid.Tasks[0].New(nil)
	if err == nil {
		err = errors.Join(world.Frame(make([]byte, envs.FrameBytes)), world.Close())
	}
	if errors.Is(err, mujoco.ErrNoLibrary) || errors.Is(err, render.ErrNoOpenGL) {
		t.Skip("mujoco: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	w.Grid.Preset.Collect.Episodes, w.Grid.Preset.Train.Steps = 3, 4
	w.Grid.Solvers, w.Grid.Methods = eval.Solvers(), slices.DeleteFunc(model.Methods(), func(m model.Method) bool { return m.Extra })
	steps := w.Graph()
	failed, err := steps.Run(t.Context(), w.Listener)
	if err != nil || len(failed) > 0 {
		t.Fatalf("%v, %s", err, strings.Join(failed, "\n"))
	}
	cells := 0
	for _, s := range StepsOf[*Evaluate](steps) {
		cells += len(s.Cells)
	}
	plans := len(model.MethodNames(func(m model.Method) bool { return m.Plans() && m.Usual() }))
	if want := plans*len(eval.Solvers()) + 1; cells != want {
		t.Errorf("%d cells, want %d", cells, want)
	}
	const note = "note: the paper has no temperature of mppi on pendulum: 64 is assumed"
	if n := strings.Count(strings.Join(*w.Listener.(*heard), "\n"), note); n != 1 {
		t.Errorf("%q is noted %d times, want once", note, n)
	}
	for _, s := range StepsOf[*Report](steps) {
		if s.Page == nil || !strings.Contains(s.Page.Summary(), "endulum") {
			t.Error("the report does not tell of the task")
		}
	}
}

// The recipe "a new family": importing its package is the only change. Presets have a
// table for it, and its models are trained, written, read and planned with.
func TestNewFamily(t *testing.T) {
	w := tinyWorkspace(t, "tworoom")
	text, err := w.Grid.Preset.encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mine.toml")
	if err := os.WriteFile(path, []byte(text+"[line]\nframe_size = 8\ndim = 3\nframe_skip = 5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := LoadPreset(path, "line.dim=4", "train.steps=2")
	if err != nil {
		t.Fatal(err)
	}
	w.Grid.Preset = *p
	w.Grid.Methods = []model.Method{{Name: "line", Title: "Line", Family: "line", Terms: []model.Term{{Name: model.Prediction}}}}
	if err := w.Grid.Check(); err != nil {
		t.Fatal(err)
	}
	if failed, err := w.Graph().Run(t.Context(), w.Listener); err != nil || len(failed) > 0 {
		t.Fatalf("%v, %s", err, strings.Join(failed, "\n"))
	}
	world, side, err := model.Load(w.Planner, filepath.Join(w.dir, "train", "tworoom-line-s3072"), "")
	if err != nil || side.Kind != "line" || side.Step != 2 || world.Info().Dim != 4 {
		t.Fatalf("%+v, %v", side, err)
	}
	world.Free()
	for _, s := range w.Graph() { // with the recipe of the sidecar next to that of the preset
		if state, err := s.State(t.Context()); err != nil || s.Stage() != StageReport && !state.done() {
			t.Errorf("%s again: %+v, %v", s.ID(), state, err)
		}
	}
	if cells := StepsOf[*Evaluate](w.Graph())[0]; cells.Len() != 1 {
		t.Errorf("%d cells, want that of the set s101", cells.Len())
	}
	if _, err := LoadPreset(path, "line.dimm=4"); err == nil || !strings.Contains(err.Error(), `unknown key "line.dimm"`) {
		t.Errorf("a mistyped key: %v", err)
	}
}

// countRows follows the recipe "a new kind of step": a type, and an entry in the
// table of kinds. It counts the rows of a data set.
type countRows struct {
	w    *Workspace
	task envs.Task
}

func countSteps(w *Workspace, a arm) []Step { return []Step{&countRows{w, a.task}} }

func (s *countRows) ID() string      { return "count " + s.task.Spec.Name }
func (s *countRows) Stage() Stage    { return StageCollect }
func (s *countRows) Needs() []string { return []string{collectID(s.task)} }
func (s *countRows) path() string    { return filepath.Join(s.w.dir, s.task.Spec.Name+".rows") }

func (s *countRows) State(context.Context) (State, error) {
	_, err := os.Stat(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		return toDo, nil
	}
	return done, err
}

func (s *countRows) Run(context.Context) (string, error) {
	t, err := s.w.open(s.task)
	if err != nil {
		return "", err
	}
	rows := fmt.Sprint(t.file.Rows(), " rows")
	return rows, safefile.Write(s.path(), func(w io.Writer) error { _, err := io.WriteString(w, rows); return err })
}

func TestNewKindOfStep(t *testing.T) {
	kinds.task = append(kinds.task, countSteps)
	t.Cleanup(func() { kinds.task = kinds.task[:len(kinds.task)-1] })
	w := tinyWorkspace(t, "tworoom")
	want := []string{"collect tworoom", "count tworoom", "evaluate tworoom random x1", "report"}
	if got := names(w.Graph()); !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	states := func() (all []string) {
		_, err := w.Graph().DryRun(t.Context(), nil, func(id string, s State) { all = append(all, id+": "+s.Text) })
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := states()
	if left, err := os.ReadDir(w.dir); err != nil || len(left) > 0 {
		t.Errorf("a dry run left %v, %v", left, err)
	}
	if failed, err := w.Graph().Run(t.Context(), w.Listener); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	after := states()
	if before[1] != "count tworoom: to do" || after[1] != "count tworoom: done" || after[2] != "evaluate tworoom random: 0 of 1 cells to do" {
		t.Errorf("before %v, after %v", before, after)
	}
}
