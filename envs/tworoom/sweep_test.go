package tworoom

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"scalewm/envs"
	"scalewm/envs/envtest"
	"scalewm/envs/tworoom/disc"
)

// sweptWorld is a world with swept collisions under its own name.
type sweptWorld struct {
	*env
	spec *envs.Spec
}

func (w sweptWorld) Spec() *envs.Spec { return w.spec }

func TestSweptConformance(t *testing.T) {
	own := *spec
	own.Name, own.Switches = "tworoom-swept", spec.Switches[:1]
	lookup, err := envs.Lookup(spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	envs.Register(envs.Task{Spec: &own, Policy: lookup.Policy, New: func(o envs.Options) (envs.Env, error) {
		with := envs.Options{collision: swept}
		maps.Copy(with, o)
		e, err := newEnv(with)
		return sweptWorld{e, &own}, err
	}})
	envtest.Run(t, own.Name)
}

// The default of the switch is not recorded, so that data sets without it stay equal.
func TestCollisionIsImplied(t *testing.T) {
	for _, o := range []envs.Options{nil, {collision: official}} {
		if got, err := spec.Resolve(o); err != nil || len(got) != 1 || got["sampler"] != constrained {
			t.Errorf("%v is recorded as %v (%v)", o, got, err)
		}
	}
	if got, err := spec.Resolve(envs.Options{collision: swept}); err != nil || got[collision] != swept {
		t.Errorf("swept is recorded as %v (%v)", got, err)
	}
}

// A swept agent stops 1e-4 twice in front of the face at x = 100, and slides through the door's
// side (docs/sources.md#swept-disc), where the official rule puts it back to 99.5 or lets it pass.
func TestSweptStep(t *testing.T) {
	for _, c := range []struct {
		o    envs.Options
		want point
	}{{envs.Options{collision: swept}, point{99.9998, 112}}, {nil, point{99.5, 112}}} {
		e := made(t, c.o)
		if err := e.SetState(envs.Row{"state": {97, 112}}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Step([]float64{3, 0}); err != nil { // clipped to one step of 5 px
			t.Fatal(err)
		}
		if e.s.agent != c.want {
			t.Errorf("%v: at %v, want %v", c.o, e.s.agent, c.want)
		}
	}
}

// The rule of a world and the floor that Floor returns for its row are the same for all walls,
// and positions are float32 numbers.
func TestFloorOfARow(t *testing.T) {
	e := made(t, envs.Options{collision: swept, "wall.axis": envs.Sample, "wall.thickness": envs.Sample, "door.number": envs.Sample,
		"door.position": envs.Sample, "door.size": envs.Sample, "agent.radius": envs.Sample, "agent.speed": envs.Sample})
	r := rand.New(rand.NewPCG(5, 5))
	blocked := 0
	for range 30 {
		if err := e.Reset(r); err != nil {
			t.Fatal(err)
		}
		row := envs.Row{}
		for _, f := range factors {
			if !f.Sampled {
				v := make([]float64, len(f.Init))
				if err := e.Observe(f.Column().Name, v); err != nil {
					t.Fatal(err)
				}
				row[f.Column().Name] = v
			}
		}
		floor, err := Floor(row)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(floor.Solids(), e.Floor().Solids()) || !slices.Equal(floor.ClearDoors(), e.Floor().ClearDoors()) {
			t.Fatalf("floor %v of %v", floor.Solids(), row)
		}
		for range 40 {
			from := e.s.agent
			a := []float64{2*r.Float64() - 1, 2*r.Float64() - 1}
			if _, err := e.Step(a); err != nil {
				t.Fatal(err)
			}
			to := point{from.x + float32(float32(a[0])*e.s.look.speed), from.y + float32(float32(a[1])*e.s.look.speed)}
			end, contacts := floor.Move(from.wide(), to.wide())
			if e.s.agent != (point{float32(end[0]), float32(end[1])}) {
				t.Fatalf("%v to %v: at %v, the floor says %v", from, to, e.s.agent, end)
			}
			blocked += contacts
		}
	}
	if blocked < 20 {
		t.Errorf("only %d contacts", blocked)
	}
}

func TestFloorDefaults(t *testing.T) {
	floor, err := Floor(envs.Row{"state": {1, 2}})
	if err != nil || !slices.Equal(floor.Solids(), disc.Canonical().Solids()) || !slices.Equal(floor.ClearDoors(), disc.Canonical().ClearDoors()) {
		t.Errorf("%v, %v", floor, err)
	}
	if _, err := Floor(envs.Row{"variation.wall.thickness": {math.NaN()}}); err == nil {
		t.Error("a thickness of NaN is taken")
	}
}
