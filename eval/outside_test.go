package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval/results"
)

// outsideTwoRoom is Two-Room behind the interface of an outside world, one simulator for each
// slot. changes and fault break it.
type outsideTwoRoom struct {
	t      *testing.T
	worlds map[int]envs.Env
	step   func(slot int, e envs.Env, out *Ran) // called after each step
	setTo  func(row envs.Row)                   // changes what a state is set to
	begun  int
}

// newOutside returns Two-Room as an outside world that judges by its env.
func newOutside(t *testing.T) (*World, *outsideTwoRoom) {
	o := &outsideTwoRoom{t: t, worlds: map[int]envs.Env{}}
	return &World{Outside: o, ID: "gymnasium:TwoRoom", Hash: "abc", Success: "the env's", FrameSize: envs.FrameSize, Judges: true, DrawsGoals: true,
		Columns: []envs.Column{{Name: "state", DType: "float32", Width: 2}}}, o
}

func (o *outsideTwoRoom) world(slot int) envs.Env {
	if o.worlds[slot] == nil {
		e, err := tworoom().New(nil)
		must(o.t, err)
		o.worlds[slot] = e
		o.t.Cleanup(func() { e.Close() })
	}
	return o.worlds[slot]
}

func (o *outsideTwoRoom) Begin(slots []int, columns []envs.Column, start, goal []float64, _ bool) (met []bool, err error) {
	o.begun++
	width := len(start) / len(slots)
	row := func(table []float64, i int) envs.Row {
		out, at := envs.Row{}, i*width
		for _, c := range columns {
			out[c.Name] = slices.Clone(table[at : at+c.Width])
			at += c.Width
		}
		return out
	}
	for i, slot := range slots {
		e, from := o.world(slot), row(start, i)
		if o.setTo != nil {
			o.setTo(from)
		}
		if err := errors.Join(e.Reset(rng.Stream("outside")), e.SetState(from), e.SetGoal(row(goal, i))); err != nil {
			return nil, err
		}
		met = append(met, e.Solved())
	}
	return met, nil
}

func (o *outsideTwoRoom) Reset(slots, seeds []int) (b Begun, err error) {
	for i, slot := range slots {
		e := o.world(slot)
		must(o.t, e.Reset(rng.Stream("outside", seeds[i])))
		at, px, goal := make([]float64, 2), make([]byte, envs.FrameBytes), make([]byte, envs.FrameBytes)
		must(o.t, e.Observe("state", at))
		must(o.t, e.Frame(px))
		other := []float64{at[1], at[0]}
		must(o.t, e.SetState(envs.Row{"state": other}))
		must(o.t, e.Frame(goal))
		must(o.t, errors.Join(e.SetState(envs.Row{"state": at}), e.SetGoal(envs.Row{"state": other})))
		b.Met = append(b.Met, e.Solved())
		b.Start, b.Goal = append(b.Start, math.Float64bits(at[0])), append(b.Goal, math.Float64bits(at[1]))
		b.Frames, b.Goals = append(b.Frames, px...), append(b.Goals, goal...)
	}
	return b, nil
}

func (o *outsideTwoRoom) Run(slots []int, actions [][]float64, counts []int) (out []Ran, err error) {
	for i, slot := range slots {
		var r Ran
		for k := 0; k < len(actions[i])/2 && !r.Met && r.Ended == GoesOn; k++ {
			step, err := o.world(slot).Step(actions[i][2*k : 2*k+2])
			if err != nil {
				return nil, err
			}
			r.Steps, r.Met = k+1, step.Terminated && k >= counts[i]
			if o.step != nil {
				o.step(slot, o.world(slot), &r)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

func (o *outsideTwoRoom) Frames(slots []int) ([]byte, error) {
	frames, _, err := o.See(slots)
	return frames, err
}

func (o *outsideTwoRoom) See(slots []int) (frames []byte, columns []float64, err error) {
	for _, slot := range slots {
		at, px := make([]float64, 2), make([]byte, envs.FrameBytes)
		must(o.t, o.world(slot).Observe("state", at))
		must(o.t, o.world(slot).Frame(px))
		frames, columns = append(frames, px...), append(columns, at...)
	}
	return frames, columns, nil
}

// outsideTask is Two-Room's task without its simulator.
func outsideTask() envs.Task {
	spec := *tworoom().Spec
	return envs.Task{Spec: &spec}
}

// in returns a trial in an outside world.
func (t trial) in(tb *testing.T, w *World, d *Data) trial {
	tb.Helper()
	t.Task, t.Data, t.Outside = d.task, d, w
	var sets []Set
	for _, s := range t.Sets {
		set, err := d.Set(s.Name, len(s.Starts))
		must(tb, err)
		sets = append(sets, set)
	}
	t.Sets = sets
	return t
}

// The same world as an outside one gives the rows of the task's own simulator, under both
// protocols, for a search and for random actions, whatever number of copies there is. The
// expected rows are those of the own simulator.
func TestOutsideEqualsOwn(t *testing.T) {
	for _, protocol := range []string{results.Paper, results.Strict} {
		own := testJob(t, "T5", 9, "s101", "s7")
		r := rules(protocol)
		src := recordEpisodes(t, 30)
		d, err := NewData(src, tworoom(), r)
		must(t, err)
		own.Rules, own.Arm.Protocol = r, ""
		own.Precision = "fp32"
		own = own.in(t, nil, d)
		for _, success := range []string{"", results.SuccessPlan, results.SuccessLast} {
			own.Success, d.rules.Success = success, success
			w, _ := newOutside(t)
			od, err := NewWorldData(src, outsideTask(), r, w)
			must(t, err)
			for _, batch := range []int{0, 4} {
				out := own.in(t, w, od)
				out.Rules, out.Batch = own.Rules, batch
				for _, random := range []bool{false, true} {
					a, b := own, out
					if random {
						a.Arm, b.Arm = Arm{Method: "random"}, Arm{Method: "random"}
					}
					want, err := Run(t.Context(), a.Job, a.Agent)
					must(t, err)
					got, err := Run(t.Context(), b.Job, b.Agent)
					must(t, err)
					for i := range want {
						if !reflect.DeepEqual(got[i].Result.Rows, want[i].Result.Rows) {
							t.Fatalf("%s, success %q, batch %d, random %v: %+v, want %+v", protocol, success, batch, random, got[i].Result.Rows, want[i].Result.Rows)
						}
					}
				}
			}
		}
	}
}

// A film of an outside world shows the frames of the own simulator's film.
func TestOutsideFilm(t *testing.T) {
	own := testJob(t, "T5", 3, "s101")
	want, err := Watch(t.Context(), own.Job, own.Agent, 1)
	must(t, err)
	w, _ := newOutside(t)
	d, err := NewWorldData(own.Data.Source, outsideTask(), own.Rules, w)
	must(t, err)
	out := own.in(t, w, d)
	got, err := Watch(t.Context(), out.Job, out.Agent, 1)
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%d frames, row %+v; want %d frames, row %+v", len(got.Frames), got.Result, len(want.Frames), want.Result)
	}
}

// A cell says in which world it was computed, so that cells of different worlds are never
// paired, and those of own simulators keep their ids.
func TestOutsideSpec(t *testing.T) {
	own := testJob(t, "T5", 3, "s101")
	w, _ := newOutside(t)
	d, err := NewWorldData(own.Data.Source, outsideTask(), own.Rules, w)
	must(t, err)
	out := own.in(t, w, d)
	s := out.Spec(0)
	if s.World != w.ID || s.WorldHash != w.Hash || s.Nondeterministic {
		t.Errorf("the spec has the world %q %q %v", s.World, s.WorldHash, s.Nondeterministic)
	}
	s.World, s.WorldHash = "", ""
	if s != own.Spec(0) {
		t.Errorf("the specs differ in more than the world: %+v, %+v", s, own.Spec(0))
	}
	text, err := json.Marshal(own.Spec(0))
	must(t, err)
	if strings.Contains(string(text), "world") || strings.Contains(string(text), "nondeterministic") {
		t.Errorf("the spec of an own simulator mentions a world: %s", text)
	}
}

// The replay gate passes a world that restores and repeats, counts rows that do not, and rejects
// worlds that restore or follow too few.
func TestReplayGate(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	gate := func(change func(*World, *outsideTwoRoom)) (results.ReplayGate, error) {
		w, o := newOutside(t)
		d, err := NewWorldData(recordEpisodes(t, 8), outsideTask(), rules(results.Paper), w)
		must(t, err)
		change(w, o)
		g, _, err := ReplayGate(t.Context(), d, w)
		return g, err
	}
	steps := 0
	for _, c := range []struct {
		name    string
		change  func(*World, *outsideTwoRoom)
		passed  int
		message string // of the error; "" for none
	}{
		{"exact", func(*World, *outsideTwoRoom) {}, 20, ""},
		{"inexact", func(_ *World, o *outsideTwoRoom) { o.setTo = func(r envs.Row) { r["state"][0] += .1 } }, 0, ""},
		{"not restored", func(_ *World, o *outsideTwoRoom) {
			o.setTo = func(r envs.Row) { r["state"][0], r["state"][1] = 40, 40 }
		}, 0, "does not restore"},
		{"another world", func(_ *World, o *outsideTwoRoom) {
			o.step = func(_ int, e envs.Env, _ *Ran) { must(t, e.SetState(envs.Row{"state": {40, 40}})) }
		}, 0, "do not lead"},
		{"nondeterministic", func(_ *World, o *outsideTwoRoom) {
			o.step = func(_ int, e envs.Env, _ *Ran) {
				steps++
				at := make([]float64, 2)
				must(t, e.Observe("state", at))
				must(t, e.SetState(envs.Row{"state": {at[0] + .01*float64(steps%7), at[1]}}))
			}
		}, 0, "two runs of the same actions"},
		{"not finite", func(_ *World, o *outsideTwoRoom) {
			o.step = func(_ int, _ envs.Env, r *Ran) { r.Ended = EndedNotFinite }
		}, 0, "not finite"},
		{"no common column", func(w *World, _ *outsideTwoRoom) { w.Columns[0].Name = "other" }, 20, ""},
	} {
		g, err := gate(c.change)
		if c.message == "" && err != nil || c.message != "" && (err == nil || !strings.Contains(err.Error(), c.message) || !strings.Contains(err.Error(), "(hint: ")) {
			t.Errorf("%s: the error %v, want one with %q", c.name, err, c.message)
		}
		if c.message == "" && (g.Rows != 20 || g.Passed != c.passed) {
			t.Errorf("%s: %+v, want %d of 20", c.name, g, c.passed)
		}
	}
	// The result is part of cells, so that it has to be the same each time, also where columns differ
	// equally.
	for range 20 {
		g, err := gate(func(w *World, o *outsideTwoRoom) {
			o.setTo = func(r envs.Row) { r["state"][0] += .1 }
			w.Outside, w.Columns = doubled{o}, append(w.Columns, envs.Column{Name: "proprio", DType: "float32", Width: 2})
		})
		if err != nil || g.Column != "column proprio" {
			t.Fatalf("%+v, %v", g, err)
		}
	}
	// What is nondeterministic is accepted if the caller says so.
	w, o := newOutside(t)
	w.Nondeterministic = true
	d, err := NewWorldData(recordEpisodes(t, 8), outsideTask(), rules(results.Paper), w)
	must(t, err)
	o.step = func(_ int, e envs.Env, _ *Ran) { must(t, e.SetState(envs.Row{"state": {40, 40}})) }
	if _, _, err := ReplayGate(t.Context(), d, w); err != nil {
		t.Error(err)
	}
}

// doubled shows each state twice, as two columns.
type doubled struct{ Outside }

func (d doubled) See(slots []int) (frames []byte, columns []float64, err error) {
	frames, one, err := d.Outside.See(slots)
	for i := range slots {
		columns = append(append(columns, one[2*i:2*i+2]...), one[2*i:2*i+2]...)
	}
	return frames, columns, err
}

// Starts by seed need no data set. A set has the same starts in every process, its file is read
// again, and a world that starts differently is an error.
func TestSeededSets(t *testing.T) {
	w, _ := newOutside(t)
	d := NewSeededData(outsideTask(), rules(results.Paper))
	set, err := d.SeededSet(w, "s101", t.TempDir(), 120) // more than there are copies at once
	must(t, err)
	again, err := NewSeededData(outsideTask(), rules(results.Paper)).SeededSet(w, "s101", t.TempDir(), 120)
	must(t, err)
	if !reflect.DeepEqual(set, again) || len(set.Starts) != 120 {
		t.Error("the set differs from itself")
	}
	other, err := d.SeededSet(w, "s102", t.TempDir(), 120)
	must(t, err)
	if other.Hash == set.Hash || other.Seeded[0].Seed == set.Seeded[0].Seed {
		t.Error("two sets are equal")
	}
	path := t.TempDir() + "/" + d.task.Spec.Name + "-s101-x.json"
	must(t, os.WriteFile(path, d.EncodeSeeded(w, set), 0o644))
	from, err := d.SeededSet(w, path, t.TempDir(), 3)
	must(t, err)
	if !reflect.DeepEqual(from, set) {
		t.Error("the set of the file differs")
	}
	// An edited file, and one whose world starts elsewhere.
	bad := strings.Replace(string(d.EncodeSeeded(w, set)), set.Seeded[0].Start, set.Seeded[1].Start, 1)
	must(t, os.WriteFile(path, []byte(bad), 0o644))
	if _, err := d.SeededSet(w, path, t.TempDir(), 3); err == nil || !strings.Contains(err.Error(), "was edited") {
		t.Errorf("an edited file: %v", err)
	}
	elsewhere := slices.Clone(set.Seeded)
	elsewhere[0].Start = set.Seeded[1].Start
	must(t, os.WriteFile(path, d.EncodeSeeded(w, seededSet("s101", elsewhere)), 0o644))
	if _, err := d.SeededSet(w, path, t.TempDir(), 3); err == nil || !strings.Contains(err.Error(), "episode 0") {
		t.Errorf("a file of another start: %v", err)
	}
	if _, err := d.SeededSet(w, "s101", strings.TrimSuffix(path, "/"+d.task.Spec.Name+"-s101-x.json"), 120); err == nil {
		t.Error("the folder has a set of the same name with another start, and there is no error")
	}
	// Under strict, no start meets its goal already.
	strict := NewSeededData(outsideTask(), rules(results.Strict))
	set, err = strict.SeededSet(w, "s101", t.TempDir(), 30)
	must(t, err)
	for _, s := range set.Seeded {
		if b, err := w.Reset([]int{0}, []int{s.Seed}); err != nil || b.Met[0] {
			t.Errorf("the start of seed %d meets its goal: %v", s.Seed, err)
		}
	}
}

// An evaluation without a data set gives the same rows for any number of copies, and pairs
// starts.
func TestSeededEvaluation(t *testing.T) {
	run := func(batch int, change func(*World)) ([]results.Row, error) {
		j := testJob(t, "T5", 3, "s101")
		w, _ := newOutside(t)
		d := NewSeededData(outsideTask(), j.Rules)
		set, err := d.SeededSet(w, "s101", t.TempDir(), 12)
		must(t, err)
		j.Task, j.Data, j.Outside, j.Sets, j.Batch = d.task, d, w, []Set{set}, batch
		j.Arm.Data = ""
		change(w)
		out, err := Run(t.Context(), j.Job, j.Agent)
		if err != nil {
			return nil, err
		}
		if _, err := Watch(t.Context(), j.Job, j.Agent, 0); err != nil {
			return nil, err
		}
		return out[0].Result.Rows, nil
	}
	all, err := run(0, func(*World) {})
	must(t, err)
	few, err := run(5, func(*World) {})
	must(t, err)
	if !reflect.DeepEqual(all, few) || len(all) != 12 {
		t.Errorf("%+v, with 5 copies %+v", all, few)
	}
	for what, change := range map[string]func(*World){
		"starts differently": func(w *World) { w.Outside = shifted{w.Outside} },
		"in every episode": func(w *World) {
			w.Outside.(*outsideTwoRoom).step = func(_ int, _ envs.Env, r *Ran) { r.Met, r.Ended = false, EndedTruncated }
		},
		"terminated after the first step": func(w *World) {
			w.Judges = false
			w.Outside.(*outsideTwoRoom).step = func(_ int, _ envs.Env, r *Ran) { r.Met = true }
		},
		"the worker died": func(w *World) { w.Outside = dead{w.Outside} },
	} {
		want := what
		if what == "starts differently" {
			want = "gives the start"
		}
		if _, err := run(0, change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// shifted starts at other states than its sets say.
type shifted struct{ Outside }

func (s shifted) Reset(slots, seeds []int) (Begun, error) {
	b, err := s.Outside.Reset(slots, seeds)
	b.Start[0]++
	return b, err
}

// dead fails at the first step.
type dead struct{ Outside }

func (dead) Run([]int, [][]float64, []int) ([]Ran, error) { return nil, errors.New("the worker died") }

// One episode that the world ends counts as a failure that says why; finished sets stay when a
// later one fails.
func TestOutsideEnds(t *testing.T) {
	j := testJob(t, "T5", 6, "s101", "s7")
	w, o := newOutside(t)
	d, err := NewWorldData(j.Data.Source, outsideTask(), j.Rules, w)
	must(t, err)
	out := j.in(t, w, d)
	o.step = func(slot int, _ envs.Env, r *Ran) {
		if slot == 2 && r.Steps == 4 {
			r.Met, r.Ended = false, EndedTruncated
		}
	}
	store := cell.Store{Dir: t.TempDir()}
	cells, failed, err := out.cells(t.Context(), store)
	must(t, err)
	if len(failed) > 0 || len(cells) != 2 {
		t.Fatal(failed)
	}
	if row := cells[0].Result.Rows[2]; row.Success || row.Diverged != "the world truncated the episode after step 4" {
		t.Errorf("the row %+v", row)
	}
	must(t, cells[0].Check())
	store = cell.Store{Dir: t.TempDir()}
	o.step = func(int, envs.Env, *Ran) {
		if o.begun > 3 { // two more begin for the first set
			panic("the second set's world breaks")
		}
	}
	o.begun = 2
	func() {
		defer func() { recover() }()
		out.cells(t.Context(), store)
	}()
	if ids, err := out.IDs(); err != nil || store.Load(ids[0], nil, nil) != nil || store.Load(ids[1], nil, nil) == nil {
		t.Errorf("the finished set is not stored, or the broken one is: %v", err)
	}
}

// Rules that need a task's own simulator are errors with a hint.
func TestOutsideRules(t *testing.T) {
	for name, change := range map[string]func(*results.Rules){
		"rest":     func(r *results.Rules) { r.State = results.RestStart },
		"replayed": func(r *results.Rules) { r.GoalSource = results.Replayed },
		"swept":    func(r *results.Rules) { r.Collision = results.Swept },
		"excluded": func(r *results.Rules) { r.Solved = results.Excluded },
	} {
		w, _ := newOutside(t)
		r := rules(results.Paper)
		change(&r)
		if _, err := NewWorldData(recordEpisodes(t, 8), outsideTask(), r, w); err == nil || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	w, _ := newOutside(t)
	w.Judges = false
	d, err := NewWorldData(recordEpisodes(t, 20), outsideTask(), rules(results.Strict), w)
	must(t, err)
	if _, err := d.Set("s101", 3); err == nil || !strings.Contains(err.Error(), "success(env, goal)") {
		t.Errorf("strict without a judge: %v", err)
	}
	// Drawn frames of start and goal are those of the data set, if the world draws equally.
	j := testJob(t, "T5", 4, "s101")
	w, _ = newOutside(t)
	r := j.Rules
	r.Frames = results.Drawn
	d, err = NewWorldData(j.Data.Source, outsideTask(), r, w)
	must(t, err)
	out := j.in(t, w, d)
	out.Rules = r
	want, err := Run(t.Context(), j.Job, j.Agent)
	must(t, err)
	got, err := Run(t.Context(), out.Job, out.Agent)
	must(t, err)
	if fmt.Sprint(got[0].Result.Rows) != fmt.Sprint(want[0].Result.Rows) {
		t.Errorf("drawn frames give %+v, stored ones %+v", got[0].Result.Rows, want[0].Result.Rows)
	}
}

func FuzzSeededFile(f *testing.F) {
	list := []Seeded{{Seed: 3, Start: "00", Goal: "11"}}
	d := NewSeededData(outsideTask(), results.Published())
	f.Add(d.EncodeSeeded(&World{ID: "gymnasium:X"}, seededSet("s101", list)))
	f.Add([]byte(`{"name":"s101","seeded":[{"seed":-1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseSeeded(b); err == nil && (len(s.Episodes) == 0 || seededSet(s.Name, s.Episodes).Hash != s.Hash) {
			t.Errorf("%s is accepted", b)
		}
	})
}
