// Package disc moves a disc on the floor of Two-Room by continuous collision detection, and
// checks the routes that it takes. It is the rule of CLEAR-LeWM (docs/sources.md#swept-disc):
// the disc cannot pass through the dividing wall, slides along it, and needs a door that is as
// wide as itself.
//
// Everything is computed in float64 in that rule's order of operations, with explicit
// conversions so that no compiler may fuse a product and a sum: moves that begin exactly in
// contact depend on the last bit. Coordinates are pixels, x to the right and y downwards.
package disc

import (
	"cmp"
	"math"
	"slices"
)

// The floor (docs/sources.md#swept-disc). What may vary are the arguments of New.
const (
	size   = 224.0 // of the image
	border = 14.0  // width of the outer walls
	middle = 112.0 // coordinate of the dividing wall's centre line
)

// The tolerances of the rule, and the contacts that one move may have.
const (
	epsilon     = 1e-7
	gap         = 1e-4 // distance from a wall at which a contact leaves the disc
	clearMargin = 1e-6
	maxContacts = 4
)

// Point is a position x, y.
type Point = [2]float64

// box is an axis-aligned rectangle: the least and greatest x, y.
type box struct{ low, high Point }

// Geometry is a floor: its dividing wall, the openings in it and the radius of the disc.
// It is immutable, so that worlds and episodes can share it.
type Geometry struct {
	across, along int // axes at right angles to the dividing wall and along it
	radius        float64
	low, high     float64      // bounds of the disc's centre inside the outer walls
	solids        []box        // parts of the dividing wall, in the order of their place along it
	doors         [][2]float64 // openings that the disc fits through: places of its centre along the wall
}

// New returns the floor with a dividing wall at x = 112 if vertical is true, else at y = 112.
// The wall covers half of thickness, rounded down, on both sides of that line. A door is the
// place of its centre along the wall and half its width. Doors are cut off at the edges of the
// image, and doors that touch are one.
func New(vertical bool, thickness, radius float64, doors [][2]float64) *Geometry {
	g := &Geometry{across: 1, radius: radius, low: border + radius, high: size - border - radius}
	if vertical {
		g.across, g.along = 0, 1
	}
	half := math.Floor(math.Trunc(thickness) / 2)
	from := 0.0
	solid := func(to float64) {
		if to > from {
			var b box
			b.low[g.across], b.high[g.across] = middle-half, middle+half
			b.low[g.along], b.high[g.along] = from, to
			g.solids = append(g.solids, b)
		}
	}
	for _, d := range merged(doors) {
		solid(d[0])
		from = max(from, d[1])
		if d[1]-d[0] >= 2*radius {
			g.doors = append(g.doors, [2]float64{d[0] + radius, d[1] - radius})
		}
	}
	solid(size)
	return g
}

// Canonical returns the floor of the published data set.
func Canonical() *Geometry { return canonical }

var canonical = New(true, 10, 7, [][2]float64{{49, 14}})

// merged returns the openings along the wall in ascending order.
func merged(doors [][2]float64) (out [][2]float64) {
	ends := make([][2]float64, len(doors))
	for i, d := range doors {
		ends[i] = [2]float64{max(0, d[0]-d[1]), min(size, d[0]+d[1])}
	}
	slices.SortFunc(ends, func(a, b [2]float64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for _, e := range ends {
		if e[1] <= e[0] {
			continue
		}
		if n := len(out); n > 0 && e[0] <= out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], e[1])
		} else {
			out = append(out, e)
		}
	}
	return out
}

// Solids returns the solid parts of the dividing wall as least and greatest x, least and
// greatest y.
func (g *Geometry) Solids() [][4]float64 {
	var out [][4]float64
	for _, b := range g.solids {
		out = append(out, [4]float64{b.low[0], b.high[0], b.low[1], b.high[1]})
	}
	return out
}

// ClearDoors returns, for each opening that the disc fits through, the least and greatest
// place of its centre along the wall.
func (g *Geometry) ClearDoors() [][2]float64 { return slices.Clone(g.doors) }

// Bounds returns the least and greatest coordinate of the disc's centre inside the outer walls.
func (g *Geometry) Bounds() (low, high float64) { return g.low, g.high }

// Clear reports whether a disc at p touches no wall.
func (g *Geometry) Clear(p Point) bool {
	for _, v := range p {
		if v < g.low-epsilon || v > g.high+epsilon {
			return false
		}
	}
	for _, b := range g.solids {
		nearest := Point{clamp(p[0], b.low[0], b.high[0]), clamp(p[1], b.low[1], b.high[1])}
		if norm(sub(p, nearest)) < g.radius-clearMargin {
			return false
		}
	}
	return true
}

// Side returns the room in which p is: -1 for the smaller coordinates, 1 for the greater, and
// 0 on the centre line of the dividing wall.
func (g *Geometry) Side(p Point) int { return cmp.Compare(p[g.across], middle) }

// Crosses reports whether two points are in different rooms.
func (g *Geometry) Crosses(from, to Point) bool { return g.Side(from)*g.Side(to) < 0 }

// Path returns the length of the shortest way between two points: the straight line, or
// through the door that gives the shortest way if they are in different rooms. The way meets
// the centre line of the wall halfway between the points, or as near to that as the door
// allows. It is infinite if the disc fits through no door.
func (g *Geometry) Path(from, to Point) float64 {
	if !g.Crosses(from, to) {
		return norm(sub(to, from))
	}
	shortest := math.Inf(1)
	for _, d := range g.doors {
		var door Point
		door[g.across] = middle
		door[g.along] = clamp((from[g.along]+to[g.along])/2, d[0], d[1])
		shortest = min(shortest, norm(sub(from, door))+norm(sub(to, door)))
	}
	return shortest
}

// Route is the result of checking a straight segment.
type Route struct {
	Valid   bool    // neither Wall nor Illegal
	Wall    bool    // the disc touches a wall at an end of the segment or on it
	Illegal bool    // it crosses the centre line at a place where no door has room for it
	Crosses float64 // the place along the wall where it crosses the centre line; NaN if it does not
}

// Crossed reports whether the segment crosses the centre line where a door has room for the
// disc.
func (r Route) Crossed() bool { return !math.IsNaN(r.Crosses) && !r.Illegal }

// Route checks the straight segment between two points.
func (g *Geometry) Route(from, to Point) Route {
	h, hit := g.firstHit(from, to)
	r := Route{Crosses: g.crossing(from, to)}
	r.Wall = hit && h.time < 1-1e-6 || !g.Clear(from) || !g.Clear(to)
	r.Illegal = !math.IsNaN(r.Crosses) && !slices.ContainsFunc(g.doors, func(d [2]float64) bool {
		return d[0]-epsilon <= r.Crosses && r.Crosses <= d[1]+epsilon
	})
	r.Valid = !r.Wall && !r.Illegal
	return r
}

// crossing returns the place along the wall where a segment crosses the centre line, or NaN.
func (g *Geometry) crossing(from, to Point) float64 {
	delta := to[g.across] - from[g.across]
	if math.Abs(delta) <= epsilon {
		return math.NaN()
	}
	time := (middle - from[g.across]) / delta
	if !(epsilon < time && time <= 1+epsilon) {
		return math.NaN()
	}
	return from[g.along] + float64(time*(to[g.along]-from[g.along]))
}
