package tworoom

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"scalewm/envs"
	"scalewm/envs/policy"
)

// everythingVaries are options with which every reset draws all factors.
func everythingVaries() envs.Options {
	o := envs.Options{"sampler": free}
	for _, f := range factors {
		o[f.Name] = envs.Sample
	}
	return o
}

// Every drawn world satisfies the constraints of docs/sources.md#two-room-reset and can be
// rebuilt from the columns of its factors.
func TestDrawnWorlds(t *testing.T) {
	o := everythingVaries()
	e, again := made(t, o), made(t, nil)
	if n := len(spec.Recorded(o)) - len(spec.Columns); n != len(factors)-2 {
		t.Errorf("%d columns of factors", n)
	}
	r := rand.New(rand.NewPCG(9, 9))
	horizontal, seen := 0, map[string][]float64{}
	for range 200 {
		if err := e.Reset(r); err != nil {
			t.Fatal(err)
		}
		l := e.s.look
		if !slices.ContainsFunc(l.doors, func(d door) bool { return float64(d.half) >= 1.1*float64(l.radius) }) || l.atWall(e.s.agent) {
			t.Fatalf("%+v, agent at %v", l, e.s.agent)
		}
		if !l.vertical {
			horizontal++
		}
		row := envs.Row{}
		for _, c := range spec.Recorded(o) {
			row[c.Name] = make([]float64, c.Width)
			if err := e.Observe(c.Name, row[c.Name]); err != nil {
				t.Fatal(err)
			}
			seen[c.Name] = append(seen[c.Name], row[c.Name][0])
		}
		if err := again.SetState(row); err != nil {
			t.Fatal(err)
		}
		if err := again.SetGoal(envs.Row{"state": row["goal_state"]}); err != nil {
			t.Fatal(err)
		}
		a, b := make([]byte, envs.FrameBytes), make([]byte, envs.FrameBytes)
		if err := e.Frame(a); err != nil {
			t.Fatal(err)
		}
		if err := again.Frame(b); err != nil || !bytes.Equal(a, b) || !slices.Equal(l.values, again.s.look.values) {
			t.Fatalf("a world made from its row is another (%v)", err)
		}
	}
	if horizontal < 60 || horizontal > 140 {
		t.Errorf("%d of 200 walls are horizontal", horizontal)
	}
	for _, f := range factors {
		if v := seen[f.Column().Name]; !f.Sampled && (slices.Min(v) < f.Low || slices.Max(v) > f.High || slices.Min(v) == slices.Max(v)) {
			t.Errorf("%s from %g to %g", f.Name, slices.Min(v), slices.Max(v))
		}
	}
}

// The expert finds the door for both orientations of the wall.
func TestExpertCrossesAHorizontalWall(t *testing.T) {
	e, p := made(t, envs.Options{"wall.axis": "0", "door.position": "150,0,0", "agent.position": "40,40", "target.position": "60,180"}), policy.NewDoorExpert(0)
	r := rand.New(rand.NewPCG(1, 1))
	if err := e.Reset(r); err != nil {
		t.Fatal(err)
	}
	if err := p.Reset(e, r); err != nil {
		t.Fatal(err)
	}
	a := make([]float64, 2)
	for range 90 {
		if err := p.Act(e, a); err != nil {
			t.Fatal(err)
		}
		if st, err := e.Step(a); err != nil {
			t.Fatal(err)
		} else if st.Terminated {
			return
		}
	}
	t.Errorf("after 90 steps the agent is at %v", e.s.agent)
}

func TestBadFactors(t *testing.T) {
	for _, c := range []struct {
		o    envs.Options
		says string
	}{
		{envs.Options{"agent.colour": "0,0,0"}, "agent.color"},
		{envs.Options{"agent.color": "0,0"}, "does not have 3 numbers"},
		{envs.Options{"agent.color": "0,0,256"}, "256 is not from 0 to 255"},
		{envs.Options{"agent.color": "0,0,red"}, "is not a number"},
		{envs.Options{"agent.color": "0,0,1.5"}, "not a whole number"},
		{envs.Options{"agent.radius": "NaN"}, "NaN is not from 7 to 14"},
		{envs.Options{"wall.border_color": "0,0,0"}, "hint: one of sampler, collision, background.color"},
	} {
		if _, err := newEnv(c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.o, err, c.says)
		}
	}
	for _, c := range []struct {
		o    envs.Options
		says string
	}{
		{envs.Options{"agent.radius": "14"}, "agent.radius=14 does not fit"}, // a door of 14 < 1.1 x 14
		{envs.Options{"agent.position": "105,100"}, "agent.position=105,100 does not fit"},
		{envs.Options{"agent.speed": "10.5", "task.min_steps": "114"}, "target"},
	} {
		if err := made(t, c.o).Reset(rand.New(rand.NewPCG(1, 1))); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.o, err, c.says)
		}
	}
	e := made(t, nil)
	for column, v := range map[string][]float64{"variation.agent.radius": {20}, "variation.wall.color": {1, 2}, "variation.door.number": {1.5}} {
		if err := e.SetState(envs.Row{"state": {50, 50}, column: v}); err == nil || !strings.Contains(err.Error(), column) {
			t.Errorf("%s=%v: %v", column, v, err)
		}
	}
	if err := e.Observe("variation.agent.shape", make([]float64, 1)); err == nil {
		t.Error("a factor that is not there is shown")
	}
}
