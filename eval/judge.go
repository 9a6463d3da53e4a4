package eval

import (
	"fmt"
	"maps"
	"slices"

	"scalewm/envs"
	rooms "scalewm/envs/tworoom"
	"scalewm/envs/tworoom/disc"
	"scalewm/eval/results"
	"scalewm/eval/success"
)

// judges reports whether the rules need a judge of observed columns. Otherwise the env's own
// verdict decides. It does not with other physics: Reacher's env reports the first physics
// step that meets the goal.
func judges(r results.Rules) bool {
	return r.Judge != success.Rule{} || r.Collision != "" || r.Substeps != ""
}

// checkJudge returns an error if the success rule does not fit the task, or if the task's
// worlds do not show a column that it reads.
func checkJudge(task envs.Task, r results.Rules) error {
	if !judges(r) {
		return nil
	}
	if err := r.Judge.Check(task.Spec.Name); err != nil {
		return err
	}
	return r.Judge.Lacks(task.Spec.Name, func(column string) bool {
		_, ok := task.Spec.Column(column)
		return ok
	})
}

// judge decides about the success of one episode by the columns that its world shows. It
// belongs to the episode: whichever worker steps the world, its counters stay.
type judge struct {
	*success.Episode
	columns []string
	hold    int // steps for which the condition must hold
}

// met reports whether the state of a world after a step meets the goal.
func (j *judge) met(w envs.Env) (bool, error) {
	now, err := observe(w, j.columns)
	if err == nil {
		_, err = j.Step(now)
	}
	return j.Held >= j.hold, err
}

// route returns the route of a row.
func route(t success.Track) string {
	if t.Valid {
		return results.RouteValid
	}
	return results.RouteInvalid
}

// begin sets a world to a start. It returns the judge of the episode, which is nil if the env
// decides, and whether the start meets its goal already.
func (d *Data) begin(w envs.Env, s Start, ids ...any) (j *judge, solved bool, err error) {
	start, goal, err := d.prepare(w, s, ids...)
	if err != nil || !judges(d.rules) {
		return nil, err == nil && w.Solved(), err
	}
	task, rule := d.task.Spec.Name, success.Explicit(d.rules.Judge, d.task.Spec.Name)
	j = &judge{columns: rule.Columns(task), hold: rule.Hold}
	row := d.fileRow(s)
	from, err := d.shown(w, row, j.columns, start, goal, ids...)
	if err != nil {
		return nil, false, err
	}
	row += d.rules.GoalOffset
	if d.rules.GoalSource == results.Replayed {
		row = -1 // the goal is no row of the file
	}
	to, err := d.shown(w, row, j.columns, goal, goal, ids...)
	if err == nil {
		err = d.place(w, start, goal, ids...)
	}
	if err != nil {
		return nil, false, err
	}
	var floor *disc.Geometry
	if task == "tworoom" {
		if floor, err = rooms.Floor(start); err != nil {
			return nil, false, err
		}
	}
	if j.Episode, err = success.NewEpisode(rule, task, from, to, floor); err != nil {
		return nil, false, err
	}
	solved, err = rule.Met(task, from, to)
	return j, solved, err
}

// shown returns columns of a state: those of a row of the file where it has them, else what
// the world shows after the state is set. A negative row is none.
func (d *Data) shown(w envs.Env, row int, columns []string, state, goal envs.Row, ids ...any) (envs.Row, error) {
	out, missing := envs.Row{}, []string{}
	for _, c := range columns {
		if row < 0 || !slices.ContainsFunc(d.Columns(), func(x envs.Column) bool { return x.Name == c }) {
			missing = append(missing, c)
			continue
		}
		v, err := d.Read(c, row, row+1)
		if err != nil {
			return nil, fmt.Errorf("reading column %s of row %d: %w", c, row, err)
		}
		out[c] = v
	}
	if len(missing) == 0 {
		return out, nil
	}
	if err := d.place(w, state, goal, ids...); err != nil {
		return nil, err
	}
	seen, err := observe(w, missing)
	maps.Copy(out, seen)
	return out, err
}
