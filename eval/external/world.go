package external

import (
	"fmt"
	"math"
	"slices"

	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval"
)

// WorldDescription is how the other program describes a world that it simulates.
type WorldDescription struct {
	Name        string            `json:"name"` // of the task, in names of files and tables
	ID          string            `json:"id"`   // such as gymnasium:Pendulum-v1
	Hash        string            `json:"hash"` // of its settings and of the user's code
	Success     string            `json:"success"`
	Versions    map[string]string `json:"versions"`
	Columns     []column          `json:"columns"`    // what it shows of its state
	FrameSize   int               `json:"frame_size"` // edge of its frames in pixels
	Low         []float64         `json:"low"`
	High        []float64         `json:"high"`
	ActionDType string            `json:"action_dtype"`
	Judges      bool              `json:"judges"` // it says without a step whether a goal is met
	Draws       bool              `json:"draws"`  // it draws goals, so that it needs no data set
	// Nondeterministic says that the same actions may lead to other states.
	Nondeterministic bool `json:"nondeterministic"`
}

// column is an envs.Column with the shape that the other program needs.
type column struct {
	Name   string `json:"name"`
	DType  string `json:"dtype"`
	Width  int    `json:"width"`
	Matrix bool   `json:"matrix,omitempty"`
}

// maxWidth bounds the numbers of a world's state and actions.
const maxWidth = 1 << 20

// Task returns the task of the world. It is in no registry, and its New is nil.
func (d WorldDescription) Task() (envs.Task, error) {
	width := 0
	for _, c := range d.Columns {
		if c.Width < 0 || c.Width > maxWidth-width {
			return envs.Task{}, fmt.Errorf("the world's column %q has %d numbers", c.Name, c.Width)
		}
		width += c.Width
	}
	switch {
	case d.Name == "" || safefile.CheckName(d.Name) != nil:
		return envs.Task{}, fmt.Errorf("the task's name %q is not valid (hint: letters and digits, and after the first one also _ - .)", d.Name)
	case slices.Contains(envs.Names(), d.Name):
		return envs.Task{}, fmt.Errorf("the task's name %q is that of a built-in task (hint: task= is the name of yours)", d.Name)
	case d.FrameSize < 1 || d.FrameSize > maxFrame:
		return envs.Task{}, fmt.Errorf("the world's frames have %d pixels (hint: their edge, from 1 to %d)", d.FrameSize, maxFrame)
	case len(d.Low) < 1 || len(d.Low) != len(d.High) || len(d.Low) > maxWidth:
		return envs.Task{}, fmt.Errorf("the world's actions have %d lower and %d upper bounds", len(d.Low), len(d.High))
	}
	for i := range d.Low {
		if !(d.Low[i] <= d.High[i]) || math.IsInf(d.High[i]-d.Low[i], 0) {
			return envs.Task{}, fmt.Errorf("action %d of the world is between %g and %g", i, d.Low[i], d.High[i])
		}
	}
	return envs.Task{Spec: &envs.Spec{Name: d.Name, ID: d.ID, Title: d.Name, ActionDim: len(d.Low), ActionLow: d.Low, ActionHigh: d.High, ActionDType: d.ActionDType,
		GoalDistance: envs.Euclidean, Success: d.Success, MaxSteps: envs.DefaultMaxSteps}}, nil
}

// World returns the world of a description, whose questions have the same channel as the
// model's.
//
//	Want         In                                                      Outs
//	world.begin  slots (E), start and goal rows (E, widths of Columns)   met (E)
//	world.reset  slots (E), seeds (E)                                    met (E), hashes of start and goal (E), their frames (E, S, S, 3)
//	world.run    slots (E), actions (E, K, N), steps (E), counts (E)     steps taken (E), met (E), why it ended (E)
//	world.see    slots (E)                                               frames (E, S, S, 3), and for the replay gate columns (E, widths)
//
// met is uint8. Of the K actions of an episode, the first `steps` are executed, up to the first
// step from `counts` on after which the goal is met.
func (x *Model) World(d WorldDescription) *eval.World {
	w := &eval.World{Outside: outside{x, d}, ID: d.ID, Hash: d.Hash, Success: d.Success, Versions: d.Versions, FrameSize: d.FrameSize, Judges: d.Judges,
		DrawsGoals: d.Draws, Nondeterministic: d.Nondeterministic}
	for _, c := range d.Columns {
		w.Columns = append(w.Columns, envs.Column{Name: c.Name, DType: c.DType, Width: c.Width})
	}
	return w
}

type outside struct {
	*Model
	about WorldDescription
}

// Begin implements eval.Outside.
func (o outside) Begin(slots []int, columns []envs.Column, start, goal []float64, gate bool) ([]bool, error) {
	n := len(slots)
	q := &Question{Call: "world.begin", Gate: gate, In: []Array{integers(slots), floats(start, n, len(start)/n), floats(goal, n, len(goal)/n)}}
	for _, c := range columns {
		q.Columns = append(q.Columns, column{c.Name, c.DType, c.Width, c.Matrix})
	}
	met := make([]uint8, n)
	q.Outs = []Array{{"uint8", []int{n}, met}}
	err := o.put(q)
	return booleans(met), err
}

// Reset implements eval.Outside.
func (o outside) Reset(slots, seeds []int) (eval.Begun, error) {
	n := len(slots)
	met, b := make([]uint8, n), eval.Begun{Start: make([]uint64, n), Goal: make([]uint64, n)}
	first, last := o.pictures(n), o.pictures(n)
	b.Frames, b.Goals = first.Bytes, last.Bytes
	err := o.put(&Question{Call: "world.reset", In: []Array{integers(slots), integers(seeds)},
		Outs: []Array{{"uint8", []int{n}, met}, {"uint64", []int{n}, bytesOf(b.Start)}, {"uint64", []int{n}, bytesOf(b.Goal)}, first, last}})
	b.Met = booleans(met)
	return b, err
}

// Run implements eval.Outside.
func (o outside) Run(slots []int, actions [][]float64, counts []int) ([]eval.Ran, error) {
	n, dim, most := len(slots), len(o.about.Low), 0
	steps := make([]int, n)
	for i, a := range actions {
		steps[i] = len(a) / dim
		most = max(most, steps[i])
	}
	table := make([]float64, n*most*dim)
	for i, a := range actions {
		copy(table[i*most*dim:], a)
	}
	taken, met, ended := make([]int64, n), make([]uint8, n), make([]uint8, n)
	err := o.put(&Question{Call: "world.run", In: []Array{integers(slots), floats(table, n, most, dim), integers(steps), integers(counts)},
		Outs: []Array{{"int64", []int{n}, bytesOf(taken)}, {"uint8", []int{n}, met}, {"uint8", []int{n}, ended}}})
	out := make([]eval.Ran, n)
	for i := range out {
		if taken[i] < 0 || taken[i] > int64(steps[i]) {
			return nil, fmt.Errorf("the world took %d of %d steps", taken[i], steps[i])
		}
		out[i] = eval.Ran{Steps: int(taken[i]), Met: met[i] != 0, Ended: eval.Ended(ended[i])}
	}
	return out, err
}

// Frames implements eval.Outside.
func (o outside) Frames(slots []int) ([]byte, error) {
	px := o.pictures(len(slots))
	return px.Bytes, o.put(&Question{Call: "world.see", In: []Array{integers(slots)}, Outs: []Array{px}})
}

// See implements eval.Outside.
func (o outside) See(slots []int) (frames []byte, columns []float64, err error) {
	width := 0
	for _, c := range o.about.Columns {
		width += c.Width
	}
	n := len(slots)
	columns = make([]float64, n*width)
	px := o.pictures(n)
	return px.Bytes, columns, o.put(&Question{Call: "world.see", In: []Array{integers(slots)}, Outs: []Array{px, floats(columns, n, width)}})
}

// pictures returns an array for n frames of the world.
func (o outside) pictures(n int) Array {
	s := o.about.FrameSize
	return Array{"uint8", []int{n, s, s, 3}, make([]byte, n*s*s*3)}
}

func floats(v []float64, shape ...int) Array { return Array{"float64", shape, bytesOf(v)} }

func booleans(v []uint8) []bool {
	out := make([]bool, len(v))
	for i := range v {
		out[i] = v[i] != 0
	}
	return out
}

var _ eval.Outside = outside{}
