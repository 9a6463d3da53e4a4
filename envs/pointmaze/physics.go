package pointmaze

import "math"

// profile describes how a version of MuJoCo computes contacts
// (docs/sources.md#pointmaze-contacts).
type profile struct {
	inverseWeight float64 // of the ball, in the regularisation of a contact (body_invweight0)
	margin        float64 // distance in metres at which contacts become active
	shallow       bool    // the depth of a centre inside a wall is limited to the radius
}

// profiles are the known ones, by the value of the switch. Up to 2.3.7, MuJoCo averages the
// inverse mass over three axes, of which the ball moves along two. Since 3.5, the margins of
// both bodies add up. The full depth of a centre inside a wall counts since some 3.x version
// (not in 3.0.0, but in 3.3.7).
var profiles = map[string]profile{
	profile21: {2 / (3 * mass), 0.002, true},
	profile30: {1 / mass, 0.002, false},
	profile35: {1 / mass, 0.004, false},
}

// Parameters of MuJoCo's soft contacts at their defaults: solref (0.02, 1), solimp (0.9,
// 0.95, 0.001, 0.5, 2). stiffness and resistance follow from solref.
const (
	impedanceLow  = 0.9
	impedanceHigh = 0.95
	impedanceBand = 0.001
	timeConstant  = 0.02
	stiffness     = 1 / (impedanceHigh * impedanceHigh * timeConstant * timeConstant)
	resistance    = 2 / (impedanceHigh * timeConstant)
)

// Half sizes of a wall, horizontally and vertically, in metres.
const (
	wallHalf   = 0.5
	wallHeight = 0.2
)

// contact is a soft constraint n·a >= aref on the acceleration a. r is its regularisation:
// the larger, the softer.
type contact struct {
	n       vec
	aref, r float64
}

// maxContacts is the maximum number of walls in reach: a ball is smaller than a cell, so it
// is near at most four cells.
const maxContacts = 4

// dampedMass makes the Euler step implicit in the damping force, as MuJoCo's is.
const dampedMass = mass + timestep*damping

// substep advances the ball by one physics step with motor controls u.
func (p *profile) substep(q, v, u vec) (vec, vec) {
	var near [maxContacts]contact
	smooth := u.times(gear).sub(v.times(damping))
	force := contactForce(p.contacts(q, v, &near), smooth.times(1/mass))
	v = v.add(smooth.add(force).times(1 / dampedMass).times(timestep))
	return q.add(v.times(timestep)), v
}

// contacts returns the constraints of the walls within the margin of the ball, in near.
func (p *profile) contacts(q, v vec, near *[maxContacts]contact) []contact {
	at := toWorld(q)
	reach := radius + p.margin
	found := near[:0]
	for w := cell(at.x - reach); w <= cell(at.x+reach); w++ {
		for h := cell(at.y - reach); h <= cell(at.y+reach); h++ {
			if !isWall(w, h) {
				continue
			}
			n, d := fromWall(at.sub(vec{float64(w + 1), float64(h + 1)}))
			if p.shallow {
				d = max(d, -radius)
			}
			if d < p.margin && n != (vec{}) {
				found = append(found, p.contact(n, d, v))
			}
		}
	}
	return found
}

// fromWall returns the direction away from a wall and the distance of the ball's surface
// from it, for a ball at c relative to the wall's centre. If the ball's centre is inside the
// wall, the nearest face pushes it out. If that is the top or bottom face, which does not
// push along the floor, n is zero.
func fromWall(c vec) (n vec, d float64) {
	out := c.sub(c.clamp(-wallHalf, wallHalf))
	if d = math.Sqrt(out.dot(out)); d > 1e-15 {
		return out.times(1 / d), d - radius
	}
	depth := math.Inf(1)
	for _, face := range [4]struct {
		n     vec
		depth float64
	}{{vec{-1, 0}, wallHalf + c.x}, {vec{1, 0}, wallHalf - c.x}, {vec{0, -1}, wallHalf + c.y}, {vec{0, 1}, wallHalf - c.y}} {
		if face.depth < depth {
			n, depth = face.n, face.depth
		}
	}
	if depth > wallHeight {
		n, depth = vec{}, wallHeight
	}
	return n, -depth - radius
}

// contact returns the constraint of a wall at distance d in direction -n.
func (p *profile) contact(n vec, d float64, v vec) contact {
	imp := impedance((p.margin - d) / impedanceBand)
	return contact{
		n:    n,
		aref: -resistance*n.dot(v) - stiffness*imp*(d-p.margin),
		r:    max(1e-15, (1-imp)/imp*p.inverseWeight),
	}
}

// impedance is MuJoCo's d(r) for the relative depth x in [0, 1]: two parabolas.
func impedance(x float64) float64 {
	s := 1.0
	switch {
	case x <= 0.5:
		s = 2 * x * x
	case x < 1:
		s = 1 - 2*(1-x)*(1-x)
	}
	return impedanceLow + (impedanceHigh-impedanceLow)*s
}

// contactForce minimises
//
//	m/2 |a - free|² + Σ min(0, n·a - aref)²/(2r)
//
// over the acceleration a, where the sum is over the contacts, and returns their force on
// the ball. MuJoCo solves this convex problem iteratively. With at most four contacts it can
// be solved exactly: for each set of active contacts the problem is linear, and the right
// set is the one consistent with its solution. If rounding leaves none that is consistent,
// the least inconsistent one is used.
func contactForce(cs []contact, free vec) vec {
	var force vec
	least := math.Inf(1)
	for active := 0; active < 1<<len(cs) && least > 0; active++ {
		f, wrong := tryActive(cs, active, free)
		if wrong < least {
			force, least = f, wrong
		}
	}
	return force
}

// tryActive solves with the contacts in the bit set active. wrong is the violation of
// consistency: an active contact that pulls, or an inactive one that is violated.
func tryActive(cs []contact, active int, free vec) (force vec, wrong float64) {
	xx, xy, yy := mass, 0.0, mass
	b := free.times(mass)
	for i, c := range cs {
		if active>>i&1 == 1 {
			w := 1 / c.r
			xx, xy, yy = xx+w*c.n.x*c.n.x, xy+w*c.n.x*c.n.y, yy+w*c.n.y*c.n.y
			b = b.add(c.n.times(w * c.aref))
		}
	}
	det := xx*yy - xy*xy
	a := vec{(yy*b.x - xy*b.y) / det, (xx*b.y - xy*b.x) / det}
	for i, c := range cs {
		excess := c.n.dot(a) - c.aref
		if active>>i&1 == 1 {
			wrong = max(wrong, excess)
			force = force.sub(c.n.times(excess / c.r))
		} else {
			wrong = max(wrong, -excess)
		}
	}
	return force, wrong
}
