package nn

import (
	"fmt"

	"scalewm/model/device"
)

// GoalConfig is the geometry of a GoalPredictor: Frames rows of the position table, Dim
// columns per token, Depth layers, Heads heads of HeadDim columns, MLP hidden columns,
// and Out numbers per frame.
type GoalConfig struct{ Frames, Dim, Depth, Heads, HeadDim, MLP, Out int }

// GoalPredictor is the transformer of stable-worldmodel's goal-conditioned policies at
// one token per frame and without dropout (docs/sources.md#gcbc). Layers that attend to
// the frames so far alternate with layers that attend to the goal. In the last layer a
// learned token of each frame attends to the frames so far.
type GoalPredictor struct {
	pos, goalPos *Param
	frames       []*Block     // layers 0, 2, 4, ...
	goals        []*goalBlock // layers 1, 3, 5, ...
	last         *tokenBlock
	norm         *LayerNorm
	out          *Linear

	// Saved for Backward: the shape of the sequences, and the input of out.
	seqs Seqs
	y    device.Mat
}

// NewGoalPredictor declares the layers' tensors in s, with names that begin with name.
// Depth must be at least 3, so that a layer attends to the goal.
func NewGoalPredictor(s *Set, name string, c GoalConfig) *GoalPredictor {
	r := &GoalPredictor{pos: s.Param(name+"pos_embedding", c.Frames, c.Dim, Normal(1), 1, c.Frames, c.Dim),
		goalPos: s.Param(name+"pos_embedding_goal", 1, c.Dim, Normal(1), 1, 1, c.Dim),
		norm:    NewLayerNorm(s, name+"transformer.norm", c.Dim, innerEps), out: NewLinear(s, name+"out_proj", c.Dim, c.Out, FanIn(c.Dim))}
	for i := range c.Depth {
		layer := fmt.Sprintf("%stransformer.layers.%d.", name, i)
		b := newGoalBlock(s, layer, c)
		switch {
		case i == c.Depth-1:
			tokens := s.Param(layer+"0.frame_tokens", c.Frames, c.Dim, Normal(0.02), 1, c.Frames, c.Dim)
			r.last = &tokenBlock{Block: b, tokens: tokens}
		case i%2 == 0:
			r.frames = append(r.frames, b)
		default:
			r.goals = append(r.goals, &goalBlock{Block: b, goal: NewLayerNorm(s, layer+"0.norm_c", c.Dim, innerEps)})
		}
	}
	return r
}

// newGoalBlock declares what the layers have in common. The projection to queries is
// separate from that to keys and values in files.
func newGoalBlock(s *Set, layer string, c GoalConfig) *Block {
	att, mlp, inner := layer+"0.", layer+"1.net.", c.Heads*c.HeadDim
	init := FanIn(c.Dim).Weight
	b := &Block{before: NewLayerNorm(s, att+"norm", c.Dim, innerEps)}
	q, kv := s.Param(att+"to_q.weight", inner, c.Dim, init), s.Param(att+"to_kv.weight", 2*inner, c.Dim, init)
	b.att = withOutput(s, att, c.Dim, &Attention{QKV: &Linear{W: s.Join(3*inner, c.Dim, q, kv)}, Heads: c.Heads, Dim: c.HeadDim, Block: 1})
	b.after = NewLayerNorm(s, mlp+"0", c.Dim, innerEps)
	b.mlp = newFeedForward(s, mlp, c.Dim, c.MLP, 0)
	return b
}

// Forward returns Out numbers for each of h frames, (n*h) x Out, from their latents z,
// (n*h) x Dim, and goal, n x Dim. h is at most Frames. Frames attend to earlier ones and
// themselves. The number of steps left is not an input of this network.
func (r *GoalPredictor) Forward(p *Pass, z, goal, _ device.Mat) device.Mat {
	r.seqs = Seqs{Count: goal.Rows, Len: z.Rows / goal.Rows}
	x, g := p.Mat(z.Rows, z.Cols), p.Mat(goal.Rows, goal.Cols)
	p.Dev.Copy(x, z)
	p.Dev.CopyBlocks(x, r.seqs.Len, r.pos.Value, 0, r.seqs.Len, true)
	p.Dev.AddRepeated(g, goal, r.goalPos.Value)
	for i, b := range r.frames {
		b.Forward(p, x, r.seqs, All)
		if i < len(r.goals) {
			x = r.goals[i].forward(p, x, g)
		}
	}
	r.y = r.norm.Forward(p, r.last.forward(p, x, r.seqs))
	return r.out.Forward(p, r.y)
}

// Acting returns Forward: nothing can be computed before the frames are known.
func (r *GoalPredictor) Acting(*Pass) func(p *Pass, z, goal, left device.Mat) device.Mat {
	return r.Forward
}

// Backward adds the gradients of the parameters. Nothing needs those of the latents,
// which are constants in training.
func (r *GoalPredictor) Backward(p *Pass, dy device.Mat) {
	r.out.Grad(p, dy, r.y)
	dx, dgoal := p.Mat(r.y.Rows, r.y.Cols), p.Zero(r.seqs.Count, r.y.Cols)
	r.out.InputGrad(p, dx, dy, device.Epilogue{})
	r.norm.BackwardInto(p, dx, dx, false)
	r.last.backward(p, dx)
	for i := len(r.frames) - 1; i >= 0; i-- {
		if i < len(r.goals) {
			r.goals[i].backward(p, dx, dgoal, r.seqs)
		}
		r.frames[i].Backward(p, dx)
	}
	p.Dev.SumTable(r.pos.Grad.RowRange(0, r.seqs.Len), dx)
	p.Dev.SumTable(r.goalPos.Grad, dgoal)
}

// goalBlock is a layer whose frames attend to the goal. That is a single token, so that
// every softmax is 1 and the result is the goal's value, whatever the queries are. They
// and the keys are not computed. Their parameters, which files hold, have gradient 0.
type goalBlock struct {
	*Block
	goal *LayerNorm

	in, v device.Mat // saved for Backward: the normalised goal, and its value
}

// values is a view of the layer that computes the values.
func (b *goalBlock) values() *Linear { return b.att.QKV.rows(2*b.att.width(), b.att.width()) }

// forward returns the residual stream after the layer, from that before it and the goal,
// n x Dim.
func (b *goalBlock) forward(p *Pass, x, goal device.Mat) device.Mat {
	y := p.Mat(x.Rows, x.Cols)
	b.in = b.goal.Forward(p, goal)
	b.v = b.values().activations(p, b.in)
	p.Dev.AddRepeated(y, x, b.att.Out.Forward(p, b.v))
	b.feed(p, y)
	return y
}

// backward turns dx into the gradient before the layer, in place, and adds the goal's to
// dgoal.
func (b *goalBlock) backward(p *Pass, dx, dgoal device.Mat, s Seqs) {
	mark := p.Mark()
	b.feedGrad(p, dx)
	sum := p.Zero(s.Count, dx.Cols) // of the frames
	for t := range s.Len {
		p.Dev.Axpy(sum, 1, dx.Every(t, s.Len))
	}
	din := b.values().Backward(p, b.att.Out.Backward(p, sum, b.v), b.in)
	b.goal.BackwardInto(p, dgoal, din, true)
	p.Release(mark)
}

// tokenBlock is the last layer: the queries come from a token of each frame, the same for
// all sequences, and there is no residual stream.
type tokenBlock struct {
	*Block
	tokens *Param

	in device.Mat // saved for Backward: the normalised frames
}

// forward returns the layer's output, one row per frame, for the residual stream x.
func (b *tokenBlock) forward(p *Pass, x device.Mat, s Seqs) device.Mat {
	a, y := b.att, p.Mat(x.Rows, x.Cols)
	b.in = b.before.Forward(p, x)
	repeated := p.Mat(x.Rows, a.width())
	p.Dev.CopyBlocks(repeated, s.Len, a.query().Forward(p, b.tokens.Value.RowRange(0, s.Len)), 0, s.Len, false)
	a.q, a.kv = p.Activations(x.Rows, a.width()), a.keys().activations(p, b.in)
	p.Dev.Copy(a.q, repeated)
	a.seqs, a.token = s, All
	a.attend(p, y, device.Epilogue{})
	return b.mlp.Forward(p, b.after.Forward(p, y))
}

// backward turns dx, the gradient of the output, into that of the residual stream, in
// place.
func (b *tokenBlock) backward(p *Pass, dx device.Mat) {
	mark := p.Mark()
	a, queries := b.att, b.tokens.Grad.RowRange(0, b.att.seqs.Len)
	b.after.BackwardInto(p, dx, b.mlp.Backward(p, dx), false)
	dq, dkv := p.Activations(dx.Rows, a.width()), p.Activations(dx.Rows, 2*a.width())
	a.grad(p, dq, dkv, a.Out.Backward(p, dx, a.att))
	sum := p.Zero(queries.Rows, a.width()) // of the sequences
	p.Dev.SumTable(sum, dq)
	a.query().Grad(p, sum, b.tokens.Value.RowRange(0, queries.Rows))
	a.query().InputGrad(p, queries, sum, device.Epilogue{Add: true})
	b.before.BackwardInto(p, dx, a.keys().Backward(p, dkv, b.in), false)
	p.Release(mark)
}
