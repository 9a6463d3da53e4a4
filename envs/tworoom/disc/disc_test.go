package disc

import (
	"math"
	"math/rand/v2"
	"testing"
)

// near reports whether two points agree to the digits printed in docs/sources.md#swept-disc.
func near(a, b Point) bool { return math.Hypot(a[0]-b[0], a[1]-b[1]) < 2e-6 }

// The moves of docs/sources.md#swept-disc, computed there with CLEAR-LeWM's code. The many
// cases of eval/clear's TestReference are compared to 1e-9.
func TestMove(t *testing.T) {
	for _, c := range []struct {
		from, to, end Point
		contacts      int
	}{
		{Point{90, 100}, Point{120, 100}, Point{99.9998, 100}, 1},
		{Point{134, 100}, Point{110, 90}, Point{124.000192, 90.000038}, 1},
		{Point{95, 49}, Point{129, 49}, Point{129, 49}, 0},
		{Point{95, 40}, Point{129, 40}, Point{115.82482, 53.44676}, 1}, // slides round the corner
		{Point{25, 30}, Point{15, 20}, Point{21, 21}, 0},
		{Point{112, 49}, Point{112, 60}, Point{112, 55.9998}, 1},
		{Point{100, 100}, Point{100, 110}, Point{100, 99.9999}, 1}, // a disc exactly at a face
	} {
		if end, contacts := Canonical().Move(c.from, c.to); !near(end, c.end) || contacts != c.contacts {
			t.Errorf("%v to %v: %v with %d contacts, want %v with %d", c.from, c.to, end, contacts, c.end, c.contacts)
		}
		// The same floor with x and y exchanged.
		flat := New(false, 10, 7, [][2]float64{{49, 14}})
		swap := func(p Point) Point { return Point{p[1], p[0]} }
		if end, contacts := flat.Move(swap(c.from), swap(c.to)); !near(end, swap(c.end)) || contacts != c.contacts {
			t.Errorf("horizontal wall, %v to %v: %v with %d contacts", swap(c.from), swap(c.to), end, contacts)
		}
	}
}

// A disc that walks at random stays clear of walls, changes rooms through the door only, and
// each of its steps is a valid route.
func TestMoveKeepsClear(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	g := Canonical()
	p, crossings := Point{90, 49}, 0
	for range 100000 {
		to := Point{p[0] + 5*r.NormFloat64(), p[1] + 5*r.NormFloat64()}
		// Back to the door, so that most steps are near it.
		if math.Abs(p[0]-middle) > 25 || math.Abs(p[1]-49) > 25 {
			to = Point{p[0] + .1*(middle-p[0]), p[1] + .1*(49-p[1])}
		}
		end, _ := g.Move(p, to)
		if !g.Clear(end) {
			t.Fatalf("%v to %v: not clear at %v", p, to, end)
		}
		// The straight line between the ends of a slide round a corner may cut the corner by
		// little; CLEAR-LeWM calls such a step invalid too.
		if r := g.Route(p, end); r.Crossed() {
			crossings++
		} else if g.Crosses(p, end) {
			t.Fatalf("%v to %v: through the wall", p, end)
		}
		p = end
	}
	if crossings < 1000 {
		t.Errorf("only %d crossings", crossings)
	}
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		thickness, radius float64
		doors             [][2]float64
		solids            [][4]float64
		clear             [][2]float64
	}{
		{10, 7, [][2]float64{{49, 14}}, [][4]float64{{107, 117, 0, 35}, {107, 117, 63, 224}}, [][2]float64{{42, 56}}},
		// Merged where they touch, in any order, cut at the edges; too narrow for the disc; none.
		{7, 8, [][2]float64{{80, 10}, {60, 10}, {220, 9}, {5, 7}}, [][4]float64{{109, 115, 12, 50}, {109, 115, 90, 211}}, [][2]float64{{58, 82}}},
		{41, 7, [][2]float64{{100, 6}, {150, 0}}, [][4]float64{{92, 132, 0, 94}, {92, 132, 106, 224}}, nil},
		{10, 7, nil, [][4]float64{{107, 117, 0, 224}}, nil},
	} {
		g := New(true, c.thickness, c.radius, c.doors)
		solids, clear := g.Solids(), g.ClearDoors()
		if len(solids) != len(c.solids) || len(clear) != len(c.clear) {
			t.Errorf("doors %v: solids %v, clear %v", c.doors, solids, clear)
			continue
		}
		for i, s := range solids {
			if s != c.solids[i] {
				t.Errorf("doors %v: solids %v, want %v", c.doors, solids, c.solids)
			}
		}
		for i, d := range clear {
			if d != c.clear[i] {
				t.Errorf("doors %v: clear %v, want %v", c.doors, clear, c.clear)
			}
		}
		if low, high := g.Bounds(); low != 14+c.radius || high != 210-c.radius {
			t.Errorf("bounds %g, %g", low, high)
		}
	}
	if g := New(true, 10, 7, nil); !math.IsInf(g.Path(Point{60, 60}, Point{160, 60}), 1) || g.Path(Point{60, 60}, Point{60, 63}) != 3 {
		t.Error("there is a way through a wall without a door")
	}
}

func TestRoute(t *testing.T) {
	g := Canonical()
	for _, c := range []struct {
		from, to Point
		want     Route
	}{
		{Point{95, 49}, Point{129, 49}, Route{Valid: true, Crosses: 49}},
		{Point{90, 100}, Point{134, 100}, Route{Wall: true, Illegal: true, Crosses: 100}},
		{Point{95, 40}, Point{129, 40}, Route{Wall: true, Illegal: true, Crosses: 40}}, // in the opening, but not clear
		{Point{60, 60}, Point{70, 60}, Route{Valid: true, Crosses: math.NaN()}},
		{Point{60, 60}, Point{15, 60}, Route{Wall: true, Crosses: math.NaN()}},
		{Point{112, 49}, Point{120, 49}, Route{Valid: true, Crosses: math.NaN()}}, // a crossing counts where it arrives
		{Point{120, 49}, Point{112, 49}, Route{Valid: true, Crosses: 49}},
	} {
		got := g.Route(c.from, c.to)
		if got.Crosses != c.want.Crosses && !(math.IsNaN(got.Crosses) && math.IsNaN(c.want.Crosses)) {
			t.Errorf("%v to %v crosses at %g, want %g", c.from, c.to, got.Crosses, c.want.Crosses)
		}
		if got.Valid != c.want.Valid || got.Wall != c.want.Wall || got.Illegal != c.want.Illegal || got.Crossed() != (c.want.Valid && !math.IsNaN(c.want.Crosses)) {
			t.Errorf("%v to %v: %+v, want %+v", c.from, c.to, got, c.want)
		}
	}
	if g.Side(Point{111.9, 0}) != -1 || g.Side(Point{112, 0}) != 0 || g.Side(Point{113, 0}) != 1 {
		t.Error("sides")
	}
}

func BenchmarkMove(b *testing.B) {
	for b.Loop() {
		Canonical().Move(Point{95, 40}, Point{129, 40})
	}
}
