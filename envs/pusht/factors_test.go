package pusht

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"scalewm/envs"
	"scalewm/envs/raster"
)

// dataset/replay compares drawn worlds with recordings bit for bit. This test rebuilds a
// drawn world from its columns, including disc and drawn goal.
func TestDrawnWorlds(t *testing.T) {
	o := envs.Options{}
	for _, f := range factors {
		o[f.Name] = envs.Sample
	}
	e, again := made(t, o), made(t, nil)
	if n := len(spec.Recorded(o)) - len(spec.Columns); n != len(factors)-3 {
		t.Errorf("%d columns of factors", n)
	}
	r := rand.New(rand.NewPCG(9, 9))
	for range 40 {
		if err := e.Reset(r); err != nil {
			t.Fatal(err)
		}
		row := envs.Row{}
		for _, c := range spec.Recorded(o) {
			row[c.Name] = make([]float64, c.Width)
			if err := e.Observe(c.Name, row[c.Name]); err != nil {
				t.Fatal(err)
			}
		}
		if g := row["goal_pose"]; !slices.Equal(g, row["goal_state"][2:5]) || !slices.Equal(g[:2], row["variation.goal.position"]) {
			t.Fatalf("the goal %v is drawn at %v", row["goal_state"], g)
		}
		if err := again.Restart(row, true); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			a := []float64{2*r.Float64() - 1, 2*r.Float64() - 1}
			step(t, e, a...)
			step(t, again, a...)
		}
		if e.vector() != again.vector() || !bytes.Equal(frame(t, e), frame(t, again)) {
			t.Fatal("a world made from its row is another")
		}
	}
}

func TestFixedFactors(t *testing.T) {
	e := made(t, envs.Options{"agent.start_position": "60,70", "block.start_position": "300,310", "block.angle": "-1.5",
		"agent.velocity": "100,0", "agent.scale": "60", "background.color": "211,211,211", "rendering.render_goal": "0"})
	if err := e.Reset(rand.New(rand.NewPCG(1, 1))); err != nil {
		t.Fatal(err)
	}
	if want := (vector{60, 70, 300, 310, -1.5, 100, 0}); e.s.origin.start != want {
		t.Errorf("starts at %v, want %v", e.s.origin.start, want)
	}
	// 0.375 x 60 = 22.5 px; Python rounds halves to even, so 22 are drawn.
	if r := e.s.world.agent.radius; r != 22.5 {
		t.Errorf("radius %g", r)
	}
	// On a table of the walls' colour, without a goal, only the walls are invisible.
	e = at(t, envs.Options{"background.color": "211,211,211", "rendering.render_goal": "0"}, 20, 250, 300, 300, 0, 0, 0)
	grey := raster.RGB(211, 211, 211)
	for x, want := range map[int]bool{5: true, 9: false, 30: false, 60: true} {
		frame(t, e)
		if got := e.pen.canvas.Pix[250*window+x] == grey; got != want {
			t.Errorf("column %d is grey: %v, want %v", x, got, want)
		}
	}
}

// The lighter fill by its rule: a fifth more, at most 255, rounded.
func TestPaint(t *testing.T) {
	if p := newPaint([]float64{119, 213, 3}); p.edge != raster.RGB(119, 213, 3) || p.fill != raster.RGB(143, 255, 4) {
		t.Errorf("%06x", p)
	}
}

func TestBadFactors(t *testing.T) {
	for _, c := range []struct {
		o    envs.Options
		says string
	}{
		{envs.Options{"block.shape": "3"}, "hint: one of numeric_mode, "}, // not supported
		{envs.Options{"agent.scale": "61"}, "61 is not from 20 to 60"},
		{envs.Options{"goal.position": "256"}, "does not have 2 numbers"},
		{envs.Options{"goal.angle": "north"}, "is not a number"},
	} {
		if _, err := newEnv(c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.o, err, c.says)
		}
	}
	e := made(t, nil)
	row := envs.Row{"state": make([]float64, stateWidth), "variation.goal.angle": {math.NaN()}}
	for what, err := range map[string]error{"setting": e.SetState(row), "restarting": e.Restart(row, true)} {
		if err == nil || !strings.Contains(err.Error(), "variation.goal.angle: NaN") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
