package eval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"scalewm/dataset"
	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval/results"
)

// Limits of the replay gate.
const (
	// replayTolerance is the largest difference from a recorded number, in standard deviations
	// of its column.
	replayTolerance = 1e-4
	// MaxReplayError is the largest mean difference of a replayed frame, in grey levels.
	MaxReplayError = 1.0
	// An inexact set_state, as that of stable-worldmodel's Push-T, which takes a physics step,
	// passes no row, and yet continues near the recording. nearby is how far a row may differ, in
	// units of these two limits: 0.1 standard deviations, and MaxRenderError for frames.
	nearby = 1000
)

// ReplayGate replays recorded actions from 20 recorded states in an outside world, as many steps
// as a block has, and compares what the world shows with the recording. It returns how many of
// the rows passed, and the mean difference of all frames in grey levels. It returns an error
// if fewer than half of the rows stay near the recording, or if a second replay differs from the first although the
// world is said to be deterministic. Without a data set it compares two runs from the same
// seeds. The rows are the same for every call on a data set.
func ReplayGate(ctx context.Context, d *Data, w *World) (gate results.ReplayGate, levels float64, err error) {
	gate.Success = w.Success
	g := replay{Data: d, world: w, dim: d.task.Spec.ActionDim}
	if err := g.choose(); err != nil {
		return gate, 0, fmt.Errorf("replay gate of %s: %w", w.ID, err)
	}
	first, err := g.run(ctx)
	if err != nil {
		return gate, 0, fmt.Errorf("replay gate of %s: %w", w.ID, err)
	}
	second, err := g.run(ctx)
	if err != nil {
		return gate, 0, fmt.Errorf("replay gate of %s: %w", w.ID, err)
	}
	if what := g.differs(first, second); what != "" && !w.Nondeterministic {
		return gate, 0, fmt.Errorf("replay gate of %s: two runs of the same actions from the same states differ in %s, so that no result could be repeated (hint: seed what the world draws in reset(seed=); deterministic=False accepts it and marks the cells)", w.ID, what)
	}
	if !d.recorded() {
		return gate, 0, nil
	}
	return g.compare(first)
}

// replay is the data of a replay gate.
type replay struct {
	*Data
	world   *World
	dim     int
	starts  []Start
	seeds   []int
	slots   []int
	actions [][]float64 // of each row, for all steps
	both    []shared    // columns that the world and the recording have
}

// shared is a column of the world that the data set has too.
type shared struct {
	envs.Column
	at        int         // index of its first number in what the world shows
	tolerance []float64   // of each number
	recorded  [][]float64 // of each row of the gate: its values in all steps, row-major
}

// choose selects the rows, and reads what is compared.
func (g *replay) choose() error {
	steps := g.rules.Steps()
	r := rng.Stream("replay gate", g.Fingerprint)
	for i := range gateRows {
		g.slots = append(g.slots, i)
	}
	if !g.recorded() {
		for range gateRows {
			g.seeds = append(g.seeds, int(r.Uint32()>>1))
			a := make([]float64, steps*g.dim)
			for k := range a {
				low, high := g.task.Spec.ActionLow[k%g.dim], g.task.Spec.ActionHigh[k%g.dim]
				a[k] = low + (high-low)*r.Float64()
			}
			g.actions = append(g.actions, a)
		}
		return nil
	}
	t := newTable(g.lengths())
	valid := t.Valid(max(steps, g.rules.GoalOffset)) // a start has a goal
	if len(valid) == 0 {
		return fmt.Errorf("no episode of the data set is longer than %d rows (hint: record longer episodes)", max(steps, g.rules.GoalOffset))
	}
	for range gateRows {
		s := t.at(valid[r.IntN(len(valid))])
		a, err := g.Read("action", g.fileRow(s), g.fileRow(s)+steps)
		if err != nil {
			return fmt.Errorf("reading the actions from row %d: %w", g.fileRow(s), err)
		}
		g.starts, g.actions = append(g.starts, s), append(g.actions, a)
	}
	return g.share()
}

// share finds the columns that the world and the recording have.
func (g *replay) share() error {
	at := 0
	for _, c := range g.world.Columns {
		if i := slices.IndexFunc(g.Columns(), func(x envs.Column) bool { return x.Name == c.Name && x.Width == c.Width }); i >= 0 {
			m, err := dataset.ColumnMoments(g.Source, c.Name, nil, 0)
			if err != nil {
				return err
			}
			s := shared{Column: g.Columns()[i], at: at}
			for k, sd := range m.Std {
				if sd == 0 { // a constant
					sd = math.Max(math.Abs(m.Mean[k]), 1)
				}
				s.tolerance = append(s.tolerance, replayTolerance*sd)
			}
			for _, from := range g.starts {
				v, err := g.Read(c.Name, g.fileRow(from), g.fileRow(from)+g.rules.Steps()+1)
				if err != nil && !errors.Is(err, dataset.ErrInexact) {
					return err
				}
				s.recorded = append(s.recorded, v)
			}
			g.both = append(g.both, s)
		}
		at += c.Width
	}
	return nil
}

// shows is what the world shows of all rows after a step.
type shows struct {
	columns []float64
	frames  []byte
}

// run replays the actions. Entry k of the result is the state after k steps.
func (g *replay) run(ctx context.Context) (out []shows, err error) {
	if g.recorded() {
		rows, err := g.table(g.starts)
		if err != nil {
			return nil, err
		}
		to, err := g.table(g.goalsOf(g.starts))
		if err != nil {
			return nil, err
		}
		if _, err = g.world.Begin(g.slots, g.Columns(), rows, to, true); err != nil {
			return nil, err
		}
	} else if _, err := g.world.Reset(g.slots, g.seeds); err != nil {
		return nil, err
	}
	never := slices.Repeat([]int{g.rules.Steps()}, len(g.slots)) // no step ends the replay
	for k := 0; ; k++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var s shows
		if s.frames, s.columns, err = g.world.See(g.slots); err != nil {
			return nil, err
		}
		if out = append(out, s); k == g.rules.Steps() {
			return out, nil
		}
		one := make([][]float64, len(g.slots))
		for i, a := range g.actions {
			one[i] = a[k*g.dim : (k+1)*g.dim]
		}
		ran, err := g.world.Run(g.slots, one, never)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(ran, func(r Ran) bool { return r.Ended == EndedNotFinite }); i >= 0 {
			return nil, fmt.Errorf("%s after step %d of row %d of the gate (hint: is the action within the world's bounds?)", EndedNotFinite, k+1, i)
		}
	}
}

// differs returns what of two runs is not equal, "" if everything is.
func (g *replay) differs(a, b []shows) string {
	width := len(a[0].columns) / len(g.slots)
	for k := range a {
		for i, v := range a[k].columns {
			if u := b[k].columns[i]; u != v && !(math.IsNaN(u) && math.IsNaN(v)) {
				return fmt.Sprintf("%s after %d steps: %g and %g", g.columnAt(i%width), k, v, u)
			}
		}
		if !slices.Equal(a[k].frames, b[k].frames) {
			return fmt.Sprintf("the frames after %d steps", k)
		}
	}
	return ""
}

// columnAt returns the name of the world's column with the number at an index.
func (g *replay) columnAt(i int) string {
	for _, c := range g.world.Columns {
		if i < c.Width {
			return "column " + c.Name
		}
		i -= c.Width
	}
	return "a column"
}

// compare compares what the world showed with the recording.
func (g *replay) compare(seen []shows) (gate results.ReplayGate, levels float64, err error) {
	gate = results.ReplayGate{Rows: len(g.slots), Success: g.world.Success}
	size, edge := len(seen[0].frames)/len(g.slots), g.FrameSize()
	scale := dataset.NewResizer(g.world.FrameSize, edge)
	stored, drawn := make([]byte, edge*edge*3), make([]byte, edge*edge*3)
	width, restored, followed, worst := len(seen[0].columns)/len(g.slots), 0, 0, map[string]float64{}
	for i, s := range g.starts {
		passed, near := true, true
		for k := range seen {
			row := g.fileRow(s) + k
			for _, c := range g.both {
				x := c.excess(seen[k].columns[width*i:], c.recorded[i][k*c.Width:])
				passed, near = passed && x <= 1, near && x <= nearby
				worst["column "+c.Name] = math.Max(worst["column "+c.Name], x*replayTolerance)
			}
			if err := g.Frame(row, stored); err != nil {
				return gate, 0, fmt.Errorf("reading the frame of row %d: %w", row, err)
			}
			scale.Resize(drawn, seen[k].frames[size*i:][:size])
			diff := meanDifference(stored, drawn)
			passed, near = passed && diff <= MaxReplayError, near && diff <= MaxRenderError
			levels, gate.Levels = levels+diff/float64(len(g.starts)*len(seen)), math.Max(gate.Levels, diff)
			if k == 0 && near {
				restored++
			}
		}
		if passed {
			gate.Passed++
		}
		if near {
			followed++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(worst)) { // of equal ones always the same
		if worst[name] > gate.Worst {
			gate.Worst, gate.Column = worst[name], name
		}
	}
	gate.Worst, gate.Levels = twoDigits(gate.Worst), twoDigits(gate.Levels)
	switch {
	case 2*restored < gate.Rows:
		err = errors.New("set_state does not restore the recorded states")
	case 2*followed < gate.Rows && !g.world.Nondeterministic:
		err = errors.New("recorded actions do not lead from recorded states to the recorded ones")
	default:
		return gate, levels, nil
	}
	return gate, levels, fmt.Errorf("replay gate of %s: %w: %s (hint: set_state has to set all of the state, velocities and goal included; observe= and frame= have to show what was recorded, and leave out what set_state cannot set)", g.world.ID, err, gate)
}

// twoDigits returns a number with 2 digits, because the last bits of a difference depend on the
// processor and cells hold it.
func twoDigits(v float64) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64)
	if err != nil {
		panic("eval: a formatted number: " + err.Error())
	}
	return out
}

// excess returns the largest difference of a column in a state from the recorded one, in units
// of the tolerance. Values that are unknown are not compared.
func (c shared) excess(shown, recorded []float64) (most float64) {
	for k := range c.Width {
		a, b := shown[c.at+k], recorded[k]
		if math.IsNaN(a) || math.IsNaN(b) {
			continue
		}
		tolerance := c.tolerance[k]
		if c.DType == "float32" || c.DType == "float16" { // what a recording can hold
			tolerance = math.Max(tolerance, 1e-6*math.Abs(b))
		}
		diff := math.Abs(a - b)
		if turn := math.Abs(math.Remainder(diff, 2*math.Pi)); diff > math.Pi && c.tolerance[k] < 1e-3 { // angles that differ by turns are equal
			diff = turn
		}
		most = math.Max(most, diff/tolerance)
	}
	return most
}

// meanDifference returns the mean absolute difference of two frames in grey levels.
func meanDifference(a, b []byte) float64 {
	sum := 0
	for i, v := range a {
		if v > b[i] {
			sum += int(v - b[i])
		} else {
			sum += int(b[i] - v)
		}
	}
	return float64(sum) / float64(len(a))
}
