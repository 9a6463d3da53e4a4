package pusht

import (
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/envs"
	"scalewm/envs/policy"
)

// moments accumulates the statistics that are known of the published data set.
type moments struct {
	episodes, rows, solved, near float64
	actions                      float64
	actionSum, actionSquares     [2]float64
	sum, squares                 [6]float64 // of q
}

func (m *moments) episode(t *testing.T, e *env, p envs.Policy, r *rand.Rand) {
	t.Helper()
	if err := e.Reset(r); err != nil {
		t.Fatal(err)
	}
	if err := p.Reset(e, r); err != nil {
		t.Fatal(err)
	}
	m.episodes++
	a, q := make([]float64, 2), make([]float64, 6)
	for n, done := 0, false; ; n++ {
		v := e.vector()
		m.rows++
		if math.Hypot(v[2]-plain.pose[0], v[3]-plain.pose[1]) < 100 {
			m.near++
		}
		spec.Qs[0].Of(envs.Row{"state": v[:]}, q)
		for i, x := range q {
			m.sum[i] += x
			m.squares[i] += x * x
		}
		if done {
			m.solved++
			return
		}
		if n == spec.MaxSteps {
			return
		}
		if err := p.Act(e, a); err != nil {
			t.Fatal(err)
		}
		m.actions++
		for i, x := range a {
			m.actionSum[i] += x
			m.actionSquares[i] += x * x
		}
		done = step(t, e, a...).Terminated
	}
}

func deviation(sum, squares, n float64) float64 { return math.Sqrt(squares/n - sum*sum/n/n) }

// The moments of docs/sources.md#push-t-data: actions 0.2019 and 0.2002, mean length 125; the
// block within 100 px of the drawn goal in half of the rows at least, its place
// spread as DINO-WM says (52.7, 57.5; the converted set 71.6, 73.4).
func TestExpertIsLikeThePublishedSet(t *testing.T) {
	e, p := made(t, nil), policy.NewPusher()
	var m moments
	for i := range 400 {
		m.episode(t, e, p, rand.New(rand.NewPCG(uint64(i), 10)))
	}
	near := func(what string, got, want, tol float64) {
		if !(math.Abs(got-want) <= tol) {
			t.Errorf("%s is %.3f, want %.3f ± %g", what, got, want, tol)
		}
	}
	near("mean length", m.rows/m.episodes, 125, 6)
	for i := range 2 {
		near("deviation of the actions", deviation(m.actionSum[i], m.actionSquares[i], m.actions), 0.2, 0.015)
		near("mean action", m.actionSum[i]/m.actions, 0, 0.01)
		near("deviation of the block", deviation(m.sum[2+i], m.squares[2+i], m.rows), 60, 12)
		near("mean place of the block", m.sum[2+i]/m.rows, 256, 15)
	}
	if m.solved < 0.9*m.episodes || m.near < 0.6*m.rows {
		t.Errorf("%g of %g solved, %.2f of the rows near the goal", m.solved, m.episodes, m.near/m.rows)
	}
}

// The weak policy keeps its target within 100 px of the block, per axis, and
// meets the block often.
func TestWeakPolicyStaysNear(t *testing.T) {
	e, p := made(t, nil), policy.NewWeakPusher()
	touched, steps := 0, 0
	a := make([]float64, 2)
	for i := range 20 {
		r := rand.New(rand.NewPCG(uint64(i), 11))
		if err := e.Reset(r); err != nil {
			t.Fatal(err)
		}
		if err := p.Reset(e, r); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if err := p.Act(e, a); err != nil {
				t.Fatal(err)
			}
			v := e.vector()
			for k := range a {
				if off := math.Abs(v[k] + 100*a[k] - v[k+2]); off > 100.001 && math.Abs(a[k]) < 1 {
					t.Fatalf("target %g px from the block", off)
				}
			}
			step(t, e, a...)
			steps++
			if e.s.world.points > 0 {
				touched++
			}
		}
	}
	if touched < steps/5 {
		t.Errorf("contact in %d of %d steps", touched, steps)
	}
}
