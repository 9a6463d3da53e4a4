package tworoom

import (
	"fmt"

	"scalewm/envs"
	"scalewm/envs/tworoom/disc"
)

// The switch "collision" and its values.
const (
	collision = "collision"
	official  = "official"
	swept     = "swept"
)

// sweep is collide for collision=swept. The rule computes in float64. Its result is rounded to
// float32, like every position.
func (l *look) sweep(from, next point) point {
	end, _ := l.disc.Move(from.wide(), next.wide())
	return point{float32(end[0]), float32(end[1])}
}

// wide returns the point in float64.
func (p point) wide() disc.Point { return disc.Point{float64(p.x), float64(p.y)} }

// Floor returns the floor of a row for package disc: its walls, doors and the agent's radius.
// Factors for which the row has no column have their initial value.
func Floor(row envs.Row) (*disc.Geometry, error) {
	v, err := spec.Variation(nil)
	if err != nil {
		return nil, err
	}
	values, err := v.Read(row, v.Start())
	if err != nil {
		return nil, fmt.Errorf("tworoom: reading the floor of a row: %w", err)
	}
	return newLook(v, values).disc, nil
}

// Floor returns the current floor for package disc.
func (e *env) Floor() *disc.Geometry { return e.s.look.disc }
