package policy

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/envs"
)

// room is an Env that only reports an observation.
type room struct {
	envs.Env
	obs                [10]float64
	spec               envs.Spec
	horizontal, narrow bool // the wall; the first door
}

func (r *room) Spec() *envs.Spec { return &r.spec }

func (r *room) Observe(column string, dst []float64) error {
	switch column {
	case "observation":
		copy(dst, r.obs[:])
	case "variation.wall.axis":
		dst[0] = 1
		if r.horizontal {
			dst[0] = 0
		}
	case "variation.agent.radius":
		dst[0] = 7
	case "variation.door.size":
		copy(dst, []float64{14, 14, 14})
		if r.narrow {
			dst[0] = 7
		}
	default:
		return errors.New("no column " + column)
	}
	return nil
}

// Directions of the noiseless expert, from the rule in docs/sources.md#two-room-data.
func TestDoorExpert(t *testing.T) {
	d := math.Sqrt2 / 2
	for _, c := range []struct {
		name               string
		obs                [10]float64
		dx, dy             float64
		horizontal, narrow bool
	}{
		{"same room: to the target", [10]float64{20, 20, 50, 60, 112, 49}, 0.6, 0.8, false, false},
		{"other room: to the door", [10]float64{82, 19, 200, 19, 112, 49}, d, d, false, false},
		{"other room, from the right", [10]float64{142, 79, 20, 30, 112, 49}, -d, -d, false, false},
		{"at the door: to the target", [10]float64{106, 49, 136, 89, 112, 49}, 0.6, 0.8, false, false},
		{"10.5 from the door: to the target", [10]float64{101.5, 49, 101.5 + 30, 49 + 40, 112, 49}, 0.6, 0.8, false, false},
		{"a little further: to the door", [10]float64{101.4, 49, 131, 89, 112, 49}, 1, 0, false, false},
		{"nearest of two doors", [10]float64{100, 150, 200, 20, 112, 20, 112, 150}, 1, 0, false, false},
		{"on the target", [10]float64{50, 60, 50, 60, 112, 49}, 0, 0, false, false},
		{"on the wall's centre counts as left", [10]float64{112, 100, 60, 100, 112, 49}, -1, 0, false, false},
		{"horizontal wall: to the door", [10]float64{19, 82, 19, 200, 49, 112}, d, d, true, false},
		{"horizontal wall, same room", [10]float64{20, 20, 200, 20, 49, 112}, 1, 0, true, false},
		{"door of a horizontal wall at its end", [10]float64{30, 72, 30, 200, 0, 112}, -0.6, 0.8, true, false},
		{"the nearer door is too small", [10]float64{72, 120, 200, 20, 112, 150, 112, 90}, 0.8, -0.6, false, true},
		{"no door fits: to the wall before the target", [10]float64{72, 120, 200, 150, 112, 20}, 0.8, 0.6, false, true},
	} {
		p := NewDoorExpert(0)
		got := make([]float64, 2)
		e := &room{obs: c.obs, horizontal: c.horizontal, narrow: c.narrow}
		if err := errors.Join(p.Reset(e, rand.New(rand.NewPCG(1, 1))), p.Act(e, got)); err != nil {
			t.Fatal(err)
		}
		if math.Abs(got[0]-c.dx) > 1e-6 || math.Abs(got[1]-c.dy) > 1e-6 {
			t.Errorf("%s: %v, want (%g, %g)", c.name, got, c.dx, c.dy)
		}
		for _, v := range got {
			if v != float64(float32(v)) {
				t.Errorf("%s: %v is no float32", c.name, v)
			}
		}
	}
	blind := &blindRoom{}
	if err := NewDoorExpert(0).Act(blind, make([]float64, 2)); err == nil {
		t.Error("an Env without observation is no error")
	}
	if err := NewDoorExpert(0).Reset(blind, nil); err == nil {
		t.Error("an Env without a wall is no error")
	}
}

type blindRoom struct{ envs.Env }

func (blindRoom) Observe(string, []float64) error { return errors.New("nothing to see") }

// At noise 2, P(clipped) of a component whose mean is 0 is 2 Φ(-1/2) = 0.617.
func TestDoorExpertNoise(t *testing.T) {
	p, got, clipped := NewDoorExpert(2), make([]float64, 2), 0
	if err := p.Reset(&room{}, rand.New(rand.NewPCG(2, 2))); err != nil {
		t.Fatal(err)
	}
	const n = 20000
	for range n {
		if err := p.Act(&room{obs: [10]float64{50, 60, 50, 60, 112, 49}}, got); err != nil {
			t.Fatal(err)
		}
		for _, v := range got {
			if math.Abs(v) == 1 {
				clipped++
			}
		}
	}
	if f := float64(clipped) / (2 * n); math.Abs(f-0.617) > 0.012 {
		t.Errorf("%.3f of the components are clipped, want 0.617", f)
	}
}

func TestUniform(t *testing.T) {
	e := &room{spec: envs.Spec{ActionLow: []float64{-1, 2}, ActionHigh: []float64{1, 6}, ActionDType: "float32"}}
	p, a := NewUniform(), make([]float64, 2)
	if err := p.Reset(e, rand.New(rand.NewPCG(3, 3))); err != nil {
		t.Fatal(err)
	}
	const n = 20000
	var sum, sq [2]float64
	for range n {
		if err := p.Act(e, a); err != nil {
			t.Fatal(err)
		}
		for i, v := range a {
			if v != float64(float32(v)) || v < e.spec.ActionLow[i] || v > e.spec.ActionHigh[i] {
				t.Fatalf("action %v", a)
			}
			sum[i] += v
			sq[i] += v * v
		}
	}
	for i, want := range [2][2]float64{{0, 2 / math.Sqrt(12)}, {4, 4 / math.Sqrt(12)}} {
		mean := sum[i] / n
		if sd := math.Sqrt(sq[i]/n - mean*mean); math.Abs(mean-want[0]) > 0.04 || math.Abs(sd-want[1]) > 0.03 {
			t.Errorf("component %d: mean %.3f, sd %.3f, want %.3f", i, mean, sd, want)
		}
	}
}
