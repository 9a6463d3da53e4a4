package policy

import "math"

// The T of Push-T in its own frame, in pixels from the middle of the bar's
// outer edge: bar and stem as half sizes about a middle.
var teeParts = [2]struct{ middle, half place }{
	{place{0, 15}, place{60, 15}}, {place{0, 75}, place{15, 45}},
}

var teeCentre = place{0, 45} // of gravity

const (
	gyration    = 3000 // squared radius of gyration of the T
	agentRadius = 15
)

// tee is a T somewhere.
type tee struct {
	origin place
	angle  float64
}

func (t *tee) at(local place) place { return t.origin.plus(local.turned(t.angle), 1) }

// gap is how far a place is from the T, 0 inside.
func (t *tee) gap(p place) float64 {
	local := t.origin.to(p).turned(-t.angle)
	best := math.Inf(1)
	for _, part := range teeParts {
		d := part.middle.to(local)
		out := place{max(math.Abs(d.x)-part.half.x, 0), max(math.Abs(d.y)-part.half.y, 0)}
		best = min(best, out.size())
	}
	return best
}

// clear says whether the agent can go straight without coming nearer to the T
// than room, or than it is now.
func (t *tee) clear(from, to place, room float64) bool {
	way := from.to(to)
	n := math.Ceil(way.size() / 5)
	room = min(room, t.gap(from)-0.5)
	for i := 1.0; i <= n; i++ {
		if t.gap(from.plus(way, i/n)) < room {
			return false
		}
	}
	return true
}

// push is a way to push the T: a place on its border and the direction inwards,
// both in its own frame.
type push struct{ at, in place }

var pushes = []push{
	{place{-50, 0}, place{0, 1}}, {place{-35, 0}, place{0, 1}}, {place{-18, 0}, place{0, 1}}, {place{0, 0}, place{0, 1}},
	{place{18, 0}, place{0, 1}}, {place{35, 0}, place{0, 1}}, {place{50, 0}, place{0, 1}},
	{place{-60, 15}, place{1, 0}}, {place{60, 15}, place{-1, 0}},
	{place{-38, 30}, place{0, -1}}, {place{-50, 30}, place{0, -1}}, {place{38, 30}, place{0, -1}}, {place{50, 30}, place{0, -1}},
	{place{-15, 55}, place{1, 0}}, {place{-15, 75}, place{1, 0}}, {place{-15, 95}, place{1, 0}}, {place{-15, 110}, place{1, 0}},
	{place{15, 55}, place{-1, 0}}, {place{15, 75}, place{-1, 0}}, {place{15, 95}, place{-1, 0}}, {place{15, 110}, place{-1, 0}},
	{place{-8, 120}, place{0, -1}}, {place{0, 120}, place{0, -1}}, {place{8, 120}, place{0, -1}},
}

// miss is how far a T is from where it should be, in its own frame: of the
// centre of gravity in pixels and of the angle.
type miss struct {
	way  place
	turn float64
}

func (t *tee) miss(goal *tee) miss {
	return miss{t.at(teeCentre).to(goal.at(teeCentre)).turned(-t.angle),
		math.Remainder(goal.angle-t.angle, 2*math.Pi)}
}

// size weighs a turn by the radius of gyration, as a push does.
func (m miss) size() float64 { return math.Sqrt(m.way.dot(m.way) + gyration*m.turn*m.turn) }

// gain is how much less a miss is after the best distance of a push, and that
// distance. A frictionless push moves the T along its direction and turns it by
// lever/gyration a pixel.
func (p push) gain(m miss) (gain, far float64) {
	arm := teeCentre.to(p.at)
	lever := arm.x*p.in.y - arm.y*p.in.x
	along := m.way.dot(p.in) + m.turn*lever
	if along <= 0 {
		return 0, 0
	}
	far = along / (1 + lever*lever/gyration)
	now := m.size()
	return now - math.Sqrt(max(now*now-along*far, 0)), far
}
