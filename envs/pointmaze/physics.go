package pointmaze

import "math"

// profile is how a version of MuJoCo computes contacts (docs/sources.md#pointmaze-contacts).
type profile struct {
	inverseWeight float64 // of the ball, in the regularisation of a contact
	margin        float64 // contacts act from this distance on
	shallow       bool    // a centre inside a wall counts as if it lay on the nearest face
}

// Up to 2.3.7 MuJoCo takes the mean of the inverse mass over three axes, of
// which the ball moves along two; since 3.5 the margins of both bodies add up.
// The depth of a centre inside a wall came to count within 3.x (3.0.0 does not
// count it, 3.3.7 does).
var profiles = map[string]profile{
	profile21: {2 / (3 * mass), 0.002, true},
	profile30: {1 / mass, 0.002, false},
	profile35: {1 / mass, 0.004, false},
}

// MuJoCo's soft contact at its default parameters: solref (0.02, 1), solimp
// (0.9, 0.95, 0.001, 0.5, 2).
const (
	impedanceLow  = 0.9
	impedanceHigh = 0.95
	impedanceBand = 0.001
	timeConstant  = 0.02
	stiffness     = 1 / (impedanceHigh * impedanceHigh * timeConstant * timeConstant)
	resistance    = 2 / (impedanceHigh * timeConstant)
)

// wallHalf is half a wall's side, wallHeight half its height.
const (
	wallHalf   = 0.5
	wallHeight = 0.2
)

// contact is a constraint n·a >= aref on the acceleration, as soft as r.
type contact struct {
	n       vec
	aref, r float64
}

// maxContacts: a ball is smaller than a cell, so it is near at most four of them.
const maxContacts = 4

// dampedMass makes the Euler step implicit in the damping.
const dampedMass = mass + timestep*damping

// substep advances the ball by one step of the simulation under motors u.
func (p *profile) substep(q, v, u vec) (vec, vec) {
	var near [maxContacts]contact
	smooth := u.times(gear).sub(v.times(damping))
	force := contactForce(p.contacts(q, v, &near), smooth.times(1/mass))
	v = v.add(smooth.add(force).times(1 / dampedMass).times(timestep))
	return q.add(v.times(timestep)), v
}

// contacts finds the walls within the margin of the ball.
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

// fromWall is the direction away from a wall and the distance of the ball's
// surface, for a ball at c from the wall's centre. A ball whose centre is in
// the wall is driven out by the nearest face; where that is the top or the bottom, which do not
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

// contact makes the constraint of a wall at distance d in direction -n.
func (p *profile) contact(n vec, d float64, v vec) contact {
	imp := impedance((p.margin - d) / impedanceBand)
	return contact{
		n:    n,
		aref: -resistance*n.dot(v) - stiffness*imp*(d-p.margin),
		r:    max(1e-15, (1-imp)/imp*p.inverseWeight),
	}
}

// impedance rises along two parabolas over a depth x of 0..1.
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

// contactForce solves for the acceleration a that minimises
//
//	m/2 |a - free|² + Σ min(0, n·a - aref)²/(2r)
//
// over the contacts and returns their force on the ball. Each set of active
// contacts is tried; the right one is that whose solution agrees with it, and where
// rounding leaves none, the one that disagrees least.
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

// tryActive solves with the contacts of the bit set active and says by how much
// the solution contradicts the choice.
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
