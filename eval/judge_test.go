package eval

import (
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval/results"
	"scalewm/eval/success"
)

// actRecorded makes a policy return the recorded actions of the first set, n env steps at a
// time.
func actRecorded(t *testing.T, j trial, p *scripted, n int) {
	dim, script := j.Task.Spec.ActionDim, scripts(t, j)
	p.act = func(o Observation) (z []float32, _ error) {
		for i, id := range o.IDs {
			z = append(z, script[id][o.Step[i]*dim:][:n*dim]...)
		}
		return z, nil
	}
}

// The upstream rules, computed from observed columns, agree with the envs. Rules with a hold
// succeed when package success says so for a replay without the runner, whichever workers
// step the episode.
func TestJudge(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for _, name := range []string{"tworoom", "pusht"} {
		task, err := envs.Lookup(name)
		must(t, err)
		r, src := rules(results.Paper), collected(t, name, 6)
		evaluate := func(rule success.Rule, when string, steps, workers int) ([]results.Row, trial) {
			r.Judge, r.Success = rule, when
			d, err := NewData(src, task, r)
			must(t, err)
			j, p := policyJob(t, d, 8, "s101")
			actRecorded(t, j, p, steps)
			j.Workers = workers
			return run(t, j)[0].Rows, j
		}
		env, _ := evaluate(success.Rule{}, "", 1, 2)
		upstream := success.Explicit(success.Rule{}, name)
		if judged, _ := evaluate(upstream, "", 1, 2); !slices.Equal(judged, env) {
			t.Errorf("%s: the judge of upstream's rule finds %+v, the env %+v", name, judged, env)
		}
		held := upstream
		held.Hold = 3
		for _, when := range []string{"", results.SuccessLast, results.SuccessPlan} {
			got, j := evaluate(held, when, 1, 1)
			other, _ := evaluate(held, when, 1, 3)
			if !slices.Equal(got, other) {
				t.Errorf("%s: outcomes depend on workers", name)
			}
			if when == results.SuccessPlan {
				got, j = evaluate(held, when, 25, 3)
			}
			solved := 0
			for i, row := range got {
				success, steps := replayHeld(t, j, i, held, when)
				if row.Success != success || row.Steps != steps {
					t.Errorf("%s, success %q, episode %d: %+v, replayed %v after %d steps", name, when, i, row, success, steps)
				}
				if row.Success {
					solved++
				}
				if row.Success && row.Steps < 3 {
					t.Errorf("%s, episode %d succeeds at step %d with a hold of 3", name, i, row.Steps)
				}
			}
			if solved == 0 && when != results.SuccessLast { // the expert's recording ends before the budget
				t.Errorf("%s, success %q: no episode succeeds", name, when)
			}
		}
	}
}

// replayHeld replays the recorded actions of an episode and counts by hand how long the
// condition of a rule has held.
func replayHeld(t *testing.T, j trial, i int, rule success.Rule, when string) (solved bool, steps int) {
	t.Helper()
	task, s := j.Task, j.Sets[0].Starts[i]
	e, err := task.New(nil)
	must(t, err)
	defer e.Close()
	_, goal, err := j.Data.prepare(e, s, task.Spec.Name, "s101", i)
	must(t, err)
	held := 0
	for k, a := range slices.Collect(slices.Chunk(unscale(j.Data.Actions, scripts(t, j)[i]), task.Spec.ActionDim))[:j.Budget] {
		_, err := e.Step(a)
		must(t, err)
		now, err := observe(e, []string{"state"})
		must(t, err)
		met, err := rule.Met(task.Spec.Name, now, goal)
		must(t, err)
		if held++; !met {
			held = 0
		}
		tested := when == "" || when == results.SuccessLast && k+1 == j.Budget || when == results.SuccessPlan && (k+1)%25 == 0
		if tested && held >= rule.Hold {
			return true, k + 1
		}
	}
	return false, j.Budget
}

// hiding is a data set that lacks a column and has its values under another name.
type hiding struct {
	dataset.Source
	column, name string
}

func (h hiding) Columns() (out []envs.Column) {
	for _, c := range h.Source.Columns() {
		if c.Name == h.column {
			c.Name = h.name
		}
		out = append(out, c)
	}
	return out
}

func (h hiding) Read(column string, from, to int) ([]float64, error) {
	if column == h.name {
		column = h.column
	}
	return h.Source.Read(column, from, to)
}

// Columns of a rule that the file lacks are those that the simulator shows after the state of
// the row is set. A rule of other columns than the task's is an error before any work.
func TestColumnsOfTheJudge(t *testing.T) {
	src, r := recordEpisodes(t, 8), rules(results.Paper)
	r.Judge = success.Rule{Of: success.Agent, Distance: 12, Hold: 2, Side: true}
	var rows [2][]results.Row
	for i, s := range []dataset.Source{src, hiding{src, "state", "proprio"}} {
		d, err := NewData(s, tworoom(), r)
		must(t, err)
		j, p := policyJob(t, d, 8, "s101")
		actRecorded(t, j, p, 5)
		rows[i] = run(t, j)[0].Rows
	}
	if !slices.Equal(rows[0], rows[1]) || !slices.ContainsFunc(rows[0], func(r results.Row) bool { return r.Success }) {
		t.Errorf("rows %+v, without the column %+v", rows[0], rows[1])
	}
	r.Judge = success.Rule{Of: success.Block, Distance: 10, Hold: 1}
	if _, err := NewData(src, tworoom(), r); err == nil || !strings.Contains(err.Error(), "(hint: ") {
		t.Errorf("Push-T's rule in Two-Room: %v", err)
	}
}

// Worlds have the physics of the rules, in evaluations and where starts are drawn. Starts that
// the rule finds solved are excluded and counted by it, not by the env's own rule.
func TestPhysicsAndSolvedStarts(t *testing.T) {
	task, r := tworoom(), rules(results.Strict)
	seen := map[string]int{}
	whole := task.New
	task.New = func(o envs.Options) (envs.Env, error) {
		seen[o["collision"]]++
		return whole(o)
	}
	r.Collision = results.Swept
	d, err := NewData(recordEpisodes(t, 40), task, r)
	must(t, err)
	j, p := policyJob(t, d, 4, "s101")
	j.Arm.Actions = d.Actions
	p.act = func(o Observation) ([]float32, error) { return make([]float32, 2*len(o.IDs)), nil }
	run(t, j)
	if seen[results.Swept] < 2 || len(seen) != 1 {
		t.Errorf("worlds made with collision = %v", seen)
	}
	r.Protocol, r.Collision = results.Paper, ""
	for _, c := range []struct{ distance, solved float64 }{{1e-3, 0}, {1e3, 8}} {
		r.Judge = success.Rule{Of: success.Agent, Distance: c.distance, Hold: 1}
		d, err := NewData(recordEpisodes(t, 8), tworoom(), r)
		must(t, err)
		j, p := policyJob(t, d, 8, "s101")
		p.act = func(o Observation) ([]float32, error) { return make([]float32, 2*len(o.IDs)), nil }
		n := 0.0
		for _, row := range run(t, j)[0].Rows {
			if row.PreSolved {
				n++
			}
		}
		if n != c.solved {
			t.Errorf("within %g pixels %g starts are solved, want %g", c.distance, n, c.solved)
		}
	}
}
