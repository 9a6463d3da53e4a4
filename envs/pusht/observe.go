package pusht

import (
	"fmt"
	"math"
)

func (e *env) Observe(column string, dst []float64) error {
	c, ok := spec.Column(column)
	if !ok {
		return e.vary.Observe(e.s.look.values, column, dst)
	}
	if len(dst) != c.Width {
		return fmt.Errorf("pusht: column %s has %d numbers, not %d", column, c.Width, len(dst))
	}
	e.observe(column, dst)
	return nil
}

// observe writes a column whose name and width are right.
func (e *env) observe(column string, dst []float64) {
	s := &e.s
	a, b := &s.world.agent, &s.world.block
	switch column {
	case "state":
		v := e.vector()
		copy(dst, v[:])
	case "proprio":
		dst[0], dst[1], dst[2], dst[3] = a.p.x, a.p.y, a.v.x, a.v.y
	case "pos_agent":
		dst[0], dst[1] = a.p.x, a.p.y
	case "vel_agent":
		dst[0], dst[1] = a.v.x, a.v.y
	case "block_pose":
		dst[0], dst[1], dst[2] = b.origin.x, b.origin.y, b.a
	case "goal_pose":
		copy(dst, s.look.back.pose[:])
	case "goal_state":
		copy(dst, s.goal[:])
	case "goal_proprio":
		dst[0], dst[1], dst[2], dst[3] = s.goal[0], s.goal[1], s.goal[5], s.goal[6]
	case "n_contacts":
		dst[0] = math.Ceil(float64(s.world.points) / substeps)
	case "reward":
		dst[0] = s.reward
		if !s.stepped {
			dst[0] = math.NaN()
		}
	case "terminated":
		dst[0] = 0
		if s.terminated {
			dst[0] = 1
		}
	default:
		s.origin.observe(column, dst)
	}
}
