package pointmaze

import (
	"math"
	"math/rand/v2"
)

// vec is a pair of coordinates in the plane of the maze.
type vec struct{ x, y float64 }

func (a vec) add(b vec) vec            { return vec{a.x + b.x, a.y + b.y} }
func (a vec) sub(b vec) vec            { return vec{a.x - b.x, a.y - b.y} }
func (a vec) times(f float64) vec      { return vec{a.x * f, a.y * f} }
func (a vec) dot(b vec) float64        { return a.x*b.x + a.y*b.y }
func (a vec) clamp(lo, hi float64) vec { return vec{min(max(a.x, lo), hi), min(max(a.y, lo), hi)} }

// maze has x downwards and y to the right; '#' is a wall. Cell (w, h) is the
// square of side 1 round the world's point (w+1, h+1).
var maze = [5]string{
	"#####",
	"#   #",
	"### #",
	"#   #",
	"#####",
}

// toWorld is the place in the world of a ball at qpos q.
func toWorld(q vec) vec { return vec{q.x + bodyAt, q.y + bodyAt} }

// cell is the index of the cell that holds a world coordinate. A coordinate far
// outside, or NaN, gives a cell outside the maze.
func cell(world float64) int {
	if world > -100 && world < 100 {
		return int(math.Floor(world - 0.5))
	}
	return -1
}

func isWall(w, h int) bool {
	return w >= 0 && w < len(maze) && h >= 0 && h < len(maze) && maze[w][h] == '#'
}

// walled says whether a point of the world is inside a wall.
func walled(p vec) bool { return isWall(cell(p.x), cell(p.y)) }

// largestStart bounds the start's velocities.
const largestStart = 5.2262554

// drawStart is the random state of the original's wrapper: a free place (with
// room for the ball) and a velocity, both uniform.
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
