//go:build libmujoco

package pointmaze

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/envs/envtest"
)

// oracle is MuJoCo's library in a separate process.
type oracle struct {
	in  io.Writer
	out io.Reader
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	in, out := envtest.Oracle{Build: []string{"testdata/mujoco.c", "-lmujoco"}, Args: []string{"testdata/maze.xml"}, Package: "libmujoco-dev"}.Start(t)
	return &oracle{in, out}
}

func (o *oracle) ask(t *testing.T, kind string, v ...float64) (s [4]float64) {
	t.Helper()
	line := kind
	for _, x := range v {
		line += fmt.Sprintf(" %x", x)
	}
	if _, err := fmt.Fprintln(o.in, line); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(o.out, &s[0], &s[1], &s[2], &s[3]); err != nil {
		t.Fatal(err)
	}
	return s
}

// 100 episodes of 100 steps of uniform actions against Debian's MuJoCo 2.2.2, each
// step from the state that the library reached.
func TestMuJoCo(t *testing.T) {
	o, r, e := newOracle(t), rand.New(rand.NewPCG(14, 15)), newEnv(profile21)
	worst, equal, rows := 0.0, 0, 0
	for range 100 {
		q, v := drawStart(r)
		s := o.ask(t, "E", q.x, q.y, v.x, v.y)
		for range 100 {
			e.put(vec{s[0], s[1]}, vec{s[2], s[3]})
			x, y := 2*r.Float64()-1, 2*r.Float64()-1
			step(t, e, x, y)
			s = o.ask(t, "S", x, y)
			d := 0.0
			for k, ours := range [4]float64{e.s.q.x, e.s.q.y, e.s.v.x, e.s.v.y} {
				d = max(d, math.Abs(ours-s[k]))
			}
			if rows++; d == 0 {
				equal++
			}
			worst = max(worst, d)
		}
	}
	t.Logf("%d steps: at most %.1e apart, %d equal", rows, worst, equal)
	if worst > 1e-12 {
		t.Errorf("a step is %g from MuJoCo's", worst)
	}
}
