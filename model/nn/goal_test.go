package nn

import (
	"math"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// A layer that attends to the goal is compared with complete attention to its single
// token: queries, keys, values and a softmax.
func TestGoalAttention(t *testing.T) {
	const n, frames, dim = 3, 2, 4
	dev, r := ref.New(), stream(8)
	var s Set
	b := &goalBlock{Block: newGoalBlock(&s, "b.", GoalConfig{Dim: dim, Heads: 2, HeadDim: 3, MLP: 5}), goal: NewLayerNorm(&s, "c", dim, innerEps)}
	ready(dev, &s, r)
	p := &Pass{Dev: dev, Arena: device.NewArena(dev)}
	x, goal := random(dev, r, n*frames, dim), random(dev, r, n, dim)
	got := values(dev, b.forward(p, x, goal))

	each := p.Zero(n*frames, dim) // the goal, for each frame
	dev.AddRepeated(each, b.goal.Forward(p, goal), p.Zero(1, dim))
	q, kv, width := b.att.query().Forward(p, b.before.Forward(p, x)), b.att.keys().Forward(p, each), b.att.width()
	k, v := split(kv, width)
	att := p.Mat(n*frames, width)
	dev.Attention(att, device.Mat{}, q, k, v, device.Heads{Seqs: n * frames, Len: 1, Heads: 2, Dim: 3})
	b.att.Out.Into(p, x, att, device.Epilogue{Add: true})
	b.feed(p, x)
	for i, want := range values(dev, x) {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("number %d is %g, want %g", i, got[i], want)
		}
	}
}
