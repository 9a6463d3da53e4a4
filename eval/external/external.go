// Package external evaluates a model that is implemented in another program, for instance
// in Python.
//
// New returns a Model together with the eval.Arm and eval.Agent to evaluate it with. The
// caller runs the evaluation in one goroutine. In another one it receives each call of the
// model as a Question from Questions, has the other program compute it, and passes the
// result to Answer. This inverts the control flow: the other program needs no server and no
// callbacks, and stays in charge of its own threads.
//
// The package does not depend on the language of that program nor on how questions reach
// it; cmd/libscalewm connects it to Python.
package external

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unsafe"

	"scalewm/dataset"
	"scalewm/dataset/safefile"
	"scalewm/eval"
	"scalewm/eval/plan"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
)

// Description is how the other program describes its model.
type Description struct {
	Name      string `json:"name"`
	Weights   string `json:"weights"` // SHA-256 of its weights: identifies it among models of the same name
	Code      string `json:"code"`    // hash of its code; "" if it has no code of its own
	TrainSeed int    `json:"train_seed"`
	Kind      string `json:"kind"`       // results.PythonWorld, PythonCost or PythonPolicy, or model.Random without a model
	Acts      bool   `json:"acts"`       // a policy answers observations, and not starts and goals with plans
	Proposal  bool   `json:"proposal"`   // it also provides the solver's initial mean
	FrameSize int    `json:"frame_size"` // edge of its frames in pixels
	Patches   int    `json:"patches"`    // P of a world model: latent vectors of a frame
	Dim       int    `json:"dim"`        // D of a world model: width of a latent vector
	// ActionMean and ActionStd are the moments by which its training z-scored actions;
	// nil if unknown.
	ActionMean []float64 `json:"action_mean"`
	ActionStd  []float64 `json:"action_std"`
}

// check returns an error if the description fits no model for a task whose actions
// have actionDim numbers. Names become parts of file names and of reports, hence the
// limits.
func (s Description) check(actionDim int) error {
	if err := safefile.CheckName(s.Name); err != nil || s.Name == "" || strings.ContainsAny(s.Name, "@=") {
		return fmt.Errorf("the model's name %q is not valid (hint: letters and digits, and after the first one also _ - .)", s.Name)
	}
	if s.Kind == model.Random {
		return nil
	}
	for _, m := range model.Methods() {
		if strings.EqualFold(s.Name, m.Name) || strings.EqualFold(s.Name, m.Title) {
			return fmt.Errorf("the model's name %q is the name of a built-in method (hint: choose another)", s.Name)
		}
	}
	if err := safefile.CheckName(s.Weights); err != nil || s.Weights == "" {
		return fmt.Errorf("the hash of the model's weights is %q, which is not valid (hint: the SHA-256 of what it was loaded from)", s.Weights)
	}
	if err := safefile.CheckName(s.Code); err != nil {
		return fmt.Errorf("the hash of the model's code is %q (hint: hexadecimal digits)", s.Code)
	}
	switch s.Kind {
	case results.PythonWorld:
		if s.Patches < 1 || s.Dim < 1 || s.Patches > maxLatent/s.Dim {
			return fmt.Errorf("latents of %d x %d numbers (hint: from 1 to %d in all)", s.Patches, s.Dim, maxLatent)
		}
	case results.PythonCost, results.PythonPolicy:
	default:
		return fmt.Errorf("a model of kind %q (hint: %s, %s or %s)", s.Kind, results.PythonWorld, results.PythonCost, results.PythonPolicy)
	}
	if s.FrameSize < 1 || s.FrameSize > maxFrame {
		return fmt.Errorf("frames of %d pixels (hint: their edge, from 1 to %d)", s.FrameSize, maxFrame)
	}
	if n := len(s.ActionMean); n != len(s.ActionStd) || n != 0 && n != actionDim {
		return fmt.Errorf("actions that were scaled by %d means and %d deviations (hint: the task has %d)", n, len(s.ActionStd), actionDim)
	}
	if s.Proposal && s.Kind == results.PythonPolicy {
		return fmt.Errorf("a proposal seeds a search, and a policy makes plans without one (hint: leave the proposal out, or give a world model or a cost)")
	}
	return nil
}

// Limits on sizes that the other program gives, so that a wrong description is an
// error and not an allocation of gigabytes.
const (
	maxLatent = 1 << 20 // numbers of one latent, P*D
	maxFrame  = 1 << 10 // pixels of a frame's edge
)

// Question is one call of the model. Want names the function, In holds its arguments and
// Out the shape of the float32 answer. Letters of shapes are those of package device; S is
// the edge of a frame in pixels, and N the number of values of an action. Only the
// answer to act may have another shape: (E, N), or fewer blocks than H. The questions of a
// world (see World) are answered with the arrays of Outs instead.
//
//	Want     In                                       answer
//	encode   frames (n, S, S, 3)                      latents (n, P*D)
//	rollout  latents (E, P*D), candidates (E, C, H, A)  last latents (E, C, P*D)
//	begin    starts and goals (E, S, S, 3)            empty; the costs that follow are of these
//	cost     candidates (E, C, H, A)                  costs (E, C)
//	plan     starts and goals (E, S, S, 3)            plans (E, H, A), z-scored
//	propose  as plan                                  initial means (E, H, A), z-scored
//	reset    ids (E)                                  empty; before the first act of these episodes
//	act      the fields of eval.Observation in order  actions (E, N) or blocks (E, k, A), z-scored
type Question struct {
	Call   string  `json:"want"`
	In     []Array `json:"in"`
	Out    []int   `json:"out"`
	answer []float32
	open   bool // the answer may have another length, which the caller checks

	// Of the questions of a world.
	Outs    []Array  `json:"outs,omitempty"`
	Columns []column `json:"columns,omitempty"` // of the rows in In
	Gate    bool     `json:"gate,omitempty"`    // the rows are those of the replay gate
}

// Array is an argument of a Question. Bytes holds its elements in row-major order and
// native byte order.
type Array struct {
	DType string `json:"dtype"` // as NumPy names it
	Shape []int  `json:"shape"`
	Bytes []byte `json:"-"`
}

// Model is a model in another program. The evaluation calls it as an eval.Model; the
// goroutine that drives the other program uses Questions and Answer.
type Model struct {
	ctx       context.Context
	info      model.Info
	dev       host
	questions chan *Question
	answers   chan struct{}
	err       error // why the first question got no answer; all later calls return it
}

// New returns the model that s describes for a task whose actions have actionDim
// numbers and whose blocks have that many env steps, and the arm and agent to evaluate it
// with. Plans are searched on dev. When ctx ends, the model asks no more questions and the
// evaluation fails with the context's cause.
func New(ctx context.Context, dev device.Device, s Description, actionDim, block int) (*Model, eval.Arm, eval.Agent, error) {
	if err := s.check(actionDim); err != nil {
		return nil, eval.Arm{}, eval.Agent{}, err
	}
	x := &Model{ctx: ctx, questions: make(chan *Question), answers: make(chan struct{})}
	x.info = model.Info{Kind: "python", Patches: max(s.Patches, 1), Dim: s.Dim, History: 1, FrameSize: s.FrameSize, ActionWidth: block * actionDim, FrameSkip: block}
	x.dev = host{dev, x}
	a := eval.Arm{Method: s.Name, Weights: s.Weights, TrainSeed: s.TrainSeed, Python: s.Kind, Code: s.Code, Actions: dataset.Moments{Mean: s.ActionMean, Std: s.ActionStd}}
	var agent eval.Agent
	switch s.Kind {
	case model.Random:
		a = eval.Arm{Method: model.Random}
	case results.PythonWorld:
		agent.World = world{x}
	case results.PythonCost:
		agent.Cost = costs{x}
	case results.PythonPolicy:
		agent.Policy = planner{x, "plan"}
		if s.Acts {
			agent.Policy = policy{x}
		}
	}
	if s.Proposal {
		agent.Proposal = planner{x, "propose"}
		a.Python += results.WithProposal
	}
	return x, a, agent, nil
}

// Questions returns the channel on which the evaluation's questions arrive. There is
// never more than one at a time: the next comes after the answer to the last.
func (x *Model) Questions() <-chan *Question { return x.questions }

// Answer answers q, which must be the last question received. Without q.Outs, there is at
// most one answer, which holds the bytes of float32 numbers of shape q.Out, in native byte
// order. A wrong length is an error and leaves the question open.
func (x *Model) Answer(q *Question, answers ...[]byte) error {
	if len(q.Outs) > 0 || len(answers) > 1 {
		return x.answerArrays(q, answers)
	}
	var answer []byte
	if len(answers) == 1 {
		answer = answers[0]
	}
	if q.open && len(answer) <= 4*cap(q.answer) {
		q.answer = q.answer[:len(answer)/4]
	}
	if want := 4 * len(q.answer); len(answer) != want {
		return fmt.Errorf("answering %q with %d bytes, not %d: float32 of shape %v", q.Call, len(answer), want, q.Out)
	}
	copy(bytesOf(q.answer), answer)
	x.answered()
	return nil
}

// answerArrays copies the answers to the arrays of a question.
func (x *Model) answerArrays(q *Question, answers [][]byte) error {
	if len(answers) != len(q.Outs) {
		return fmt.Errorf("answering %q with %d arrays, not %d", q.Call, len(answers), len(q.Outs))
	}
	for i, a := range q.Outs {
		if len(answers[i]) != len(a.Bytes) {
			return fmt.Errorf("answering %q with %d bytes, not %d: %s of shape %v", q.Call, len(answers[i]), len(a.Bytes), a.DType, a.Shape)
		}
	}
	for i, a := range q.Outs {
		copy(a.Bytes, answers[i])
	}
	x.answered()
	return nil
}

// answered lets the evaluation continue after an answer.
func (x *Model) answered() {
	select {
	case x.answers <- struct{}{}:
	case <-x.ctx.Done():
	}
}

// ask sends a question and waits for its answer. After the first failure it returns
// that error at once.
func (x *Model) ask(want string, answer []float32, shape []int, in ...Array) error {
	return x.put(&Question{Call: want, In: in, Out: shape, answer: answer})
}

// put sends a question that the caller keeps, and waits for its answer.
func (x *Model) put(q *Question) error {
	if x.err != nil {
		return x.err
	}
	select {
	case x.questions <- q:
	case <-x.ctx.Done():
		x.err = context.Cause(x.ctx)
		return x.err
	}
	select {
	case <-x.answers:
	case <-x.ctx.Done():
		x.err = context.Cause(x.ctx)
	}
	return x.err
}

// Info implements eval.Model.
func (x *Model) Info() model.Info { return x.info }

// Device implements eval.Model.
func (x *Model) Device() device.Device { return x.dev }

// PredictorCalls implements model.World. It counts one call per block, as if the
// model predicted step by step; what it really does is unknown.
func (x *Model) PredictorCalls(h int) int { return h }

// Free implements model.World. The model has no memory on the device.
func (x *Model) Free() {}

// frames returns the array of the frames in b.
func (x *Model) frames(b []byte) Array {
	n := len(b) / x.info.FrameBytes()
	return Array{"uint8", []int{n, x.info.FrameSize, x.info.FrameSize, 3}, b}
}

// numbers returns the array of a matrix on the device.
func (x *Model) numbers(m device.Mat, shape ...int) Array {
	v := make([]float32, m.Len())
	x.dev.Download(v, m)
	return Array{"float32", shape, bytesOf(v)}
}

// fill asks a question and uploads its answer to a matrix on the device.
func (x *Model) fill(dst device.Mat, want string, shape []int, in ...Array) error {
	v := make([]float32, dst.Len())
	err := x.ask(want, v, shape, in...)
	x.dev.Upload(dst, v)
	return err
}

// world is an external world model. Its methods return no errors; host.Err does.
type world struct{ *Model }

// Encode implements model.World.
func (w world) Encode(dst device.Mat, frames device.Bytes, n int) {
	w.fill(dst, "encode", []int{n, w.info.Patches * w.info.Dim}, w.frames(frames.(pixels)[:n*w.info.FrameBytes()]))
}

// Rollout implements model.World.
func (w world) Rollout(dst, start, candidates device.Mat, h int) {
	latent := w.info.Patches * w.info.Dim
	e := start.Len() / latent
	c := candidates.Rows / e
	w.fill(dst, "rollout", []int{e, c, latent}, w.numbers(start, e, latent), w.numbers(candidates, e, c, h, w.info.ActionWidth))
}

// costs is an external model that computes the costs of plans.
type costs struct{ *Model }

// Cost implements eval.CostModel.
func (c costs) Cost(starts, goals []byte) (plan.Cost, error) {
	s := c.frames(starts)
	return cost{c.Model, s.Shape[0]}, c.ask("begin", nil, []int{}, s, c.frames(goals))
}

// cost is the cost of plans for the episodes of the last question "begin".
type cost struct {
	*Model
	episodes int
}

// Costs implements plan.Cost.
func (c cost) Costs(dst, candidates device.Mat) error {
	n := candidates.Rows / c.episodes
	return c.fill(dst, "cost", []int{c.episodes, n}, c.numbers(candidates, c.episodes, n, candidates.Cols/c.info.ActionWidth, c.info.ActionWidth))
}

// planner is an external model that outputs plans of starts and goals.
type planner struct {
	*Model
	want string
}

// Reset implements eval.Policy. A planner keeps no state.
func (p planner) Reset([]int) error { return nil }

// Act implements eval.Policy.
func (p planner) Act(_ context.Context, o eval.Observation) ([]float32, error) {
	z := make([]float32, len(o.IDs)*o.Horizon*p.info.ActionWidth)
	return z, p.ask(p.want, z, []int{len(o.IDs), o.Horizon, p.info.ActionWidth}, p.frames(o.Frames), p.frames(o.Goals))
}

// policy is an external model that answers observations.
type policy struct{ *Model }

// Reset implements eval.Policy.
func (p policy) Reset(ids []int) error { return p.ask("reset", nil, []int{}, integers(ids)) }

// Act implements eval.Policy.
func (p policy) Act(_ context.Context, o eval.Observation) ([]float32, error) {
	n, dim := len(o.IDs), len(o.Low)
	vector := func(v []float64, shape ...int) Array { return Array{"float64", shape, bytesOf(v)} }
	q := &Question{Call: "act", Out: []int{n, o.Horizon, p.info.ActionWidth}, answer: make([]float32, n*o.Horizon*p.info.ActionWidth), open: true,
		In: []Array{integers(o.IDs), p.frames(o.Frames), p.frames(o.Goals), integers(o.Step), integers(o.Left),
			vector(o.Previous, n, dim), {"float32", []int{n, dim}, bytesOf(o.PreviousZ)},
			vector(o.Actions.Mean, dim), vector(o.Actions.Std, dim), vector(o.Low, dim), vector(o.High, dim), {"uint64", []int{n}, bytesOf(o.Noise)}}}
	err := p.put(q)
	return q.answer, err
}

// integers returns an array of int64.
func integers(v []int) Array {
	x := make([]int64, len(v))
	for i := range x {
		x[i] = int64(v[i])
	}
	return Array{"int64", []int{len(x)}, bytesOf(x)}
}

// host is the device of the search with two changes. Frames stay in main memory,
// where the other program reads them. And a failure of the other program is an error
// of the device, because model.World reports errors that way.
type host struct {
	device.Device
	model *Model
}

// pixels are frames in main memory.
type pixels []byte

func (p pixels) Len() int { return len(p) }

// Kind returns the kind of the device with "python+" before its backend, so that
// cells say that another program predicted.
func (h host) Kind() device.Kind {
	k := h.Device.Kind()
	k.Backend = "python+" + k.Backend
	return k
}

func (h host) AllocBytes(n int) device.Bytes { return make(pixels, n) }

func (h host) UploadBytes(dst device.Bytes, src []byte) { copy(dst.(pixels), src) }

func (h host) Free(b device.Block) {
	if _, ours := b.(pixels); !ours {
		h.Device.Free(b)
	}
}

func (h host) Err() error { return cmp.Or(h.model.err, h.Device.Err()) }

// bytesOf returns the memory of x without copying.
func bytesOf[T any](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}
