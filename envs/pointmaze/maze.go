package pointmaze

import (
	"math"
	"math/rand/v2"
)

// vec is a pair of coordinates in the plane of the maze, in metres.
type vec struct{ x, y float64 }

func (a vec) add(b vec) vec            { return vec{a.x + b.x, a.y + b.y} }
func (a vec) sub(b vec) vec            { return vec{a.x - b.x, a.y - b.y} }
func (a vec) times(f float64) vec      { return vec{a.x * f, a.y * f} }
func (a vec) dot(b vec) float64        { return a.x*b.x + a.y*b.y }
func (a vec) clamp(lo, hi float64) vec { return vec{min(max(a.x, lo), hi), min(max(a.y, lo), hi)} }

// maze is the map; '#' is a wall. x increases downwards, y to the right. Cell (w, h) is the
// unit square centred at (w+1, h+1) in world coordinates.
var maze = [5]string{
	"#####",
	"#   #",
	"### #",
	"#   #",
	"#####",
}

// toWorld returns the world position of a ball with qpos q.
func toWorld(q vec) vec { return vec{q.x + bodyAt, q.y + bodyAt} }

// cell returns the index of the cell that contains a world coordinate. For a coordinate far
// outside, or NaN, it returns an index outside the maze, which also avoids an integer
// conversion that would overflow.
func cell(world float64) int {
	if world > -100 && world < 100 {
		return int(math.Floor(world - 0.5))
	}
	return -1
}

// isWall reports whether cell (w, h) is a wall. Cells outside the maze are free.
func isWall(w, h int) bool {
	return w >= 0 && w < len(maze) && h >= 0 && h < len(maze) && maze[w][h] == '#'
}

// walled reports whether a point of the world is inside a wall.
func walled(p vec) bool { return isWall(cell(p.x), cell(p.y)) }

// largestStart is the maximum velocity of a start, per axis, in m/s.
const largestStart = 5.2262554

// drawStart draws the random state of the reference implementation's wrapper: a free position with room for the
// ball, and a velocity, both uniform. Positions inside the U's inner wall are drawn again.
func drawStart(r *rand.Rand) (q, v vec) {
	uniform := func(lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }
	for {
		q = vec{uniform(0.5, 3.1), uniform(0.5, 3.1)}
		if q.x <= 1.1 || q.x >= 2.5 || q.y >= 2.5 {
			break
		}
	}
	return q, vec{uniform(-largestStart, largestStart), uniform(-largestStart, largestStart)}
}
