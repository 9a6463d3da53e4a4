package policy

import "math"

// teeParts are the bar and the stem of Push-T's T in its own frame, as centres and half
// sizes. The origin is the middle of the bar's outer edge; lengths are in pixels.
var teeParts = [2]struct{ middle, half place }{
	{place{0, 15}, place{60, 15}}, {place{0, 75}, place{15, 45}},
}

var teeCentre = place{0, 45} // centre of gravity

const (
	gyration    = 3000 // squared radius of gyration of the T, in square pixels
	agentRadius = 15
)

// tee is the pose of a T.
type tee struct {
	origin place
	angle  float64
}

// at converts a position from the T's frame to the table's.
func (t *tee) at(local place) place { return t.origin.plus(local.turned(t.angle), 1) }

// gap returns the distance of a position from the T, 0 inside.
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

// clear reports whether the agent can move straight without coming closer to the T than
// room, or than it is now if that is closer. It samples the path every 5 pixels.
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

// push is a way to push the T: a point on its border and the inward direction, both in its
// own frame.
type push struct{ at, in place }

// pushes are the candidates: points along all sides of the T.
var pushes = []push{
	{place{-50, 0}, place{0, 1}}, {place{-35, 0}, place{0, 1}}, {place{-18, 0}, place{0, 1}}, {place{0, 0}, place{0, 1}},
	{place{18, 0}, place{0, 1}}, {place{35, 0}, place{0, 1}}, {place{50, 0}, place{0, 1}},
	{place{-60, 15}, place{1, 0}}, {place{60, 15}, place{-1, 0}},
	{place{-38, 30}, place{0, -1}}, {place{-50, 30}, place{0, -1}}, {place{38, 30}, place{0, -1}}, {place{50, 30}, place{0, -1}},
	{place{-15, 55}, place{1, 0}}, {place{-15, 75}, place{1, 0}}, {place{-15, 95}, place{1, 0}}, {place{-15, 110}, place{1, 0}},
	{place{15, 55}, place{-1, 0}}, {place{15, 75}, place{-1, 0}}, {place{15, 95}, place{-1, 0}}, {place{15, 110}, place{-1, 0}},
	{place{-8, 120}, place{0, -1}}, {place{0, 120}, place{0, -1}}, {place{8, 120}, place{0, -1}},
}

// miss is the pose error of a T in its own frame: the displacement of the centre of gravity
// in pixels, and the angle in radians.
type miss struct {
	way  place
	turn float64
}

// miss returns the error of t with respect to a goal.
func (t *tee) miss(goal *tee) miss {
	return miss{t.at(teeCentre).to(goal.at(teeCentre)).turned(-t.angle),
		math.Remainder(goal.angle-t.angle, 2*math.Pi)}
}

// size returns the norm of the error. The squared radius of gyration makes angles
// commensurable with lengths, with the weight that a push gives them.
func (m miss) size() float64 { return math.Sqrt(m.way.dot(m.way) + gyration*m.turn*m.turn) }

// gain returns by how much a push reduces the error if it is made over the best distance,
// and that distance. A frictionless push moves the T along its direction and turns it by
// lever/gyration radians per pixel.
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
