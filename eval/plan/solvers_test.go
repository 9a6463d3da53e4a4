package plan_test

import (
	"context"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"scalewm/eval/plan"
	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// solvers returns all solvers with small budgets. Every option is set in at least one
// of them.
func solvers() map[string]plan.Solver {
	return map[string]plan.Solver{
		"CEM":  plan.CEM{Candidates: 33, Iterations: 5, Elites: 4},
		"iCEM": plan.ICEM{Candidates: 33, Iterations: 5, Elites: 6},
		"iCEM with everything": plan.ICEM{Candidates: 33, Iterations: 5, Elites: 6, NoiseBeta: new(0.5), Momentum: new(0.3), Keep: new(2),
			ReturnElite: true},
		"MPPI":     plan.MPPI{Candidates: 33, Iterations: 5, Elites: 4, Temperature: 20},
		"MPPI all": plan.MPPI{Candidates: 33, Iterations: 5, Elites: 33, Temperature: 20},
		"gradient": plan.Gradient{Candidates: 12, Iterations: 5},
	}
}

// TestBatchInvariance checks that an episode's plan has the same bits alone, in a
// batch of seven, and at another position of the batch.
func TestBatchInvariance(t *testing.T) {
	ts, ks := targets(7), keys(7)
	for name, d := range devices(t) {
		for label, s := range solvers() {
			t.Run(name+"/"+label, func(t *testing.T) {
				batch := func(es ...int) ([]float64, plan.Plan) {
					b := &bowl{d: d, nanAbove: 1.5}
					var k []uint64
					for _, e := range es {
						b.target, k = append(b.target, ts[e]), append(k, ks[e])
					}
					p := problem(b, k, 1)
					p.Low, p.High = []float64{-1, -2}, []float64{1, 1.5}
					found := solve(t, d, s, p)
					return actions(d, found), found
				}
				all, whole := batch(0, 1, 2, 3, 4, 5, 6)
				shuffled, _ := batch(3, 1, 6)
				for e := range 7 {
					alone, one := batch(e)
					if !slices.Equal(alone, all[e*testWidth:(e+1)*testWidth]) || one.Cost[0] != whole.Cost[e] || one.NaNs[0] != whole.NaNs[e] {
						t.Errorf("episode %d plans differently alone and among seven", e)
					}
				}
				if !slices.Equal(shuffled[2*testWidth:], all[6*testWidth:]) {
					t.Error("episode 6 plans differently in another place of the batch")
				}
			})
		}
	}
}

// TestPlansAreBetter checks that a solver's plan costs much less than the mean
// action, and that the cost it reports is lower too.
func TestPlansAreBetter(t *testing.T) {
	d := ref.New()
	for name, s := range map[string]plan.Solver{"CEM": plan.CEM{}, "iCEM": plan.ICEM{}, "MPPI": plan.MPPI{}, "gradient": plan.Gradient{Iterations: 90}} {
		b := &bowl{d: d, target: targets(3), nanAbove: math.Inf(1)}
		found := solve(t, d, s, problem(b, keys(3), 0))
		x := actions(d, found)
		for e := range 3 {
			start, end := b.cost(e, make([]float64, testWidth)), b.cost(e, x[e*testWidth:(e+1)*testWidth])
			if end > 0.25*start || found.Cost[e] > start {
				t.Errorf("%s, episode %d: cost %g from %g, reported %g", name, e, end, start, found.Cost[e])
			}
		}
	}
}

// TestZeroValues checks that zero values are the documented numbers
// (docs/sources.md#planner-common and the following sections).
func TestZeroValues(t *testing.T) {
	d := ref.New()
	for name, pair := range map[string][2]plan.Solver{
		"iCEM":     {plan.ICEM{}, plan.ICEM{Candidates: 300, Iterations: 30, Elites: 30, VarScale: 1, NoiseBeta: new(2.0), Momentum: new(0.1), Keep: new(5)}},
		"MPPI":     {plan.MPPI{}, plan.MPPI{Candidates: 300, Iterations: 30, Elites: 30, VarScale: 1, Temperature: 0.5}},
		"gradient": {plan.Gradient{}, plan.Gradient{Candidates: 100, Iterations: 30, VarScale: 1, Rate: 0.1}},
	} {
		b := &bowl{d: d, target: targets(1), nanAbove: math.Inf(1)}
		zero := actions(d, solve(t, d, pair[0], problem(b, keys(1), 0)))
		if b.calls != 30 || !slices.Equal(zero, actions(d, solve(t, d, pair[1], problem(b, keys(1), 0)))) {
			t.Errorf("%s: the zero value runs %d iterations and is not the published one", name, b.calls)
		}
	}
}

// Options that no verb sets must be documented, since only readers of the
// documentation find them.
func TestOptionsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/planners.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, solver := range []plan.Solver{plan.CEM{}, plan.ICEM{}, plan.MPPI{}, plan.Gradient{}} {
		for _, option := range reflect.VisibleFields(reflect.TypeOf(solver)) {
			if !strings.Contains(string(page), "`"+option.Name+"`") {
				t.Errorf("docs/planners.md has no %T.%s", solver, option.Name)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	d := ref.New()
	b := &bowl{d: d, target: targets(1), nanAbove: math.Inf(1)}
	ok := problem(b, keys(1), 0)
	change := func(f func(*plan.Problem)) plan.Problem {
		p := ok
		f(&p)
		return p
	}
	blind := struct{ plan.Cost }{b}
	cases := []struct {
		name, says string
		solver     plan.Solver
		p          plan.Problem
	}{
		{"one elite has no unbiased deviation", "1 elites", plan.CEM{Candidates: 10, Elites: 1}, ok},
		{"more elites than candidates", "11 elites", plan.ICEM{Candidates: 10, Elites: 11}, ok},
		{"no candidates", "-1 candidates", plan.MPPI{Candidates: -1}, ok},
		{"width of broken blocks", "21 numbers in 5 blocks", plan.CEM{}, change(func(p *plan.Problem) { p.Width = 21 })},
		{"no episodes", "0 episodes", plan.ICEM{}, change(func(p *plan.Problem) { p.Episodes = 0 })},
		{"bounds of another task", "3 lower and 3 upper", plan.ICEM{}, change(func(p *plan.Problem) { p.Low, p.High = make([]float64, 3), make([]float64, 3) })},
		{"one bound", "2 lower and 0 upper", plan.ICEM{}, change(func(p *plan.Problem) { p.Low = make([]float64, 2) })},
		{"momentum", "momentum 2", plan.ICEM{Momentum: new(2.0)}, ok},
		{"noise", "beta NaN", plan.ICEM{NoiseBeta: new(math.NaN())}, ok},
		{"temperature", "temperature -1", plan.MPPI{Temperature: -1}, ok},
		{"a cost without gradients", "gradients: false", plan.Gradient{}, change(func(p *plan.Problem) { p.Cost = blind })},
		{"rate", "rate -1", plan.Gradient{Rate: -1}, ok},
	}
	for _, tc := range cases {
		_, err := tc.solver.Solve(context.Background(), d, tc.p)
		if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: error %v, want one with %q and a hint", tc.name, err, tc.says)
		}
	}
}

// With every solver on every device, an episode without a finite cost is blind, and
// the other episode of the batch is not.
func TestBlind(t *testing.T) {
	for name, d := range devices(t) {
		for label, s := range solvers() {
			b := &halfBlind{bowl{d: d, target: targets(2), nanAbove: math.Inf(1)}}
			p := problem(&b.bowl, keys(2), 0)
			p.Cost = b
			found := solve(t, d, s, p)
			costs := 33 * 5 // candidates x iterations
			if label == "gradient" {
				costs = 12 * 5
			}
			if !slices.Equal(found.Blind, []bool{true, false}) || !slices.Equal(found.NaNs, []int{costs, 0}) {
				t.Errorf("%s on %s: blind %v, counted %v of %d", label, name, found.Blind, found.NaNs, costs)
			}
		}
	}
}

// halfBlind is a bowl without a finite cost for the first episode: NaN and +Inf
// alternate.
type halfBlind struct{ bowl }

func (h *halfBlind) Costs(dst, candidates device.Mat) error {
	err := h.bowl.Costs(dst, candidates)
	h.spoil(dst)
	return err
}

func (h *halfBlind) CostGrads(dst, grad, candidates device.Mat) error {
	err := h.bowl.CostGrads(dst, grad, candidates)
	h.spoil(dst)
	return err
}

func (h *halfBlind) spoil(costs device.Mat) {
	v := make([]float64, costs.Cols)
	for i := range v {
		v[i] = []float64{math.NaN(), math.Inf(1)}[i%2]
	}
	h.d.Upload64(costs.RowRange(0, 1), v)
}
