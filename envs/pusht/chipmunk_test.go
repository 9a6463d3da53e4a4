//go:build chipmunk

package pusht

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"scalewm/envs/envtest"
)

// oracle is Chipmunk's C library in a separate process.
type oracle struct {
	in  io.Writer
	out *bufio.Reader
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	in, out := envtest.Oracle{Build: []string{"-ffp-contract=off", "testdata/chipmunk.c", "-lchipmunk", "-lm"}, Package: "libchipmunk-dev"}.Start(t)
	return &oracle{in, bufio.NewReader(out)}
}

// seen is the state that both report after a line.
type seen struct {
	agentX, agentY, x, y, angle float64
	points                      int
}

func (o *oracle) ask(t *testing.T, kind string, v ...float64) (s seen) {
	t.Helper()
	line := kind
	for _, x := range v {
		line += fmt.Sprintf(" %x", x)
	}
	if _, err := fmt.Fprintln(o.in, line); err != nil {
		t.Fatal(err)
	}
	for {
		answer, err := o.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if rest, ok := strings.CutPrefix(answer, "= "); ok { // the library also prints a greeting
			if _, err := fmt.Sscan(rest, &s.agentX, &s.agentY, &s.x, &s.y, &s.angle, &s.points); err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
}

func (e *env) seen() seen {
	w := &e.s.world
	return seen{w.agent.p.x, w.agent.p.y, w.block.origin.x, w.block.origin.y, w.block.a, w.points}
}

// 200 episodes of 100 steps around the block, each from a random state in a new space,
// compared bit for bit with Debian's Chipmunk 7.0.3.
func TestChipmunk(t *testing.T) {
	o, r := newOracle(t), rand.New(rand.NewPCG(12, 13))
	touched, rows, table := 0, 0, made(t, nil).s.look
	for ep := range 200 {
		setup, start := table.drawState(r), table.drawState(r)
		start[5], start[6] = 100*r.NormFloat64(), 100*r.NormFloat64()
		if ep%5 == 4 { // into the walls
			start[2], start[3] = 512*r.Float64(), 512*r.Float64()
		}
		e := at(t, nil, start[:]...)
		e.begin(origin{setup: setup, start: start})
		if want, got := o.ask(t, "E", append(setup[:5], start[:]...)...), e.seen(); got != want {
			t.Fatalf("episode %d: %+v, want %+v", ep, got, want)
		}
		for n := range 100 {
			v := e.vector()
			var target vec
			for k, to := range []*float64{&target.x, &target.y} {
				*to = math.Min(math.Max(v[k]+200*r.Float64()-100, v[k+2]-100), v[k+2]+100)
			}
			e.s.world.points = 0
			e.s.world.follow(target)
			want, got := o.ask(t, "S", target.x, target.y), e.seen()
			if got != want {
				t.Fatalf("episode %d, step %d: %+v, want %+v", ep, n, got, want)
			}
			rows++
			if got.points > 0 {
				touched++
			}
		}
	}
	t.Logf("%d steps equal, %d with contact", rows, touched)
	if touched < rows/4 {
		t.Errorf("contact in %d of %d steps", touched, rows)
	}
}
