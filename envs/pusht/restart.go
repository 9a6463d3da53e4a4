package pusht

import (
	"fmt"

	"scalewm/envs"
)

// origin says how a world came to row 0 of its episode. The block's velocities
// that are left from one set-state act in the next one, so that the exact world needs
// all set-states since the space was made.
type origin struct {
	mode        int    // 0, 1 or 2 as in the column restart_mode
	setup       vector // where the space was made; its velocities are not used
	goal, start vector
	eval        vector // mode 2 only
}

// unknownOrigin marks a world that was set in the middle of an episode.
const unknownOrigin = -1

// begin makes a new world and repeats the set-states of its origin.
func (e *env) begin(o origin) {
	e.s = state{world: world{room: e.s.world.room}, look: e.s.look, goal: e.s.goal, origin: o}
	e.s.world.agent.radius = e.s.look.radius
	e.s.world.reset(o.setup.pose())
	if o.mode >= 1 {
		e.set(&o.goal)
	}
	if o.mode >= 0 {
		e.set(&o.start)
	}
	if o.mode >= 2 {
		e.set(&o.eval)
	}
}

// observe writes one of the columns restart_*.
func (o *origin) observe(column string, dst []float64) {
	switch column {
	case "restart_mode":
		dst[0] = float64(o.mode)
	case "restart_setup_pose":
		copy(dst, o.setup[:5])
	case "restart_goal_state":
		copy(dst, o.goal[:])
	case "restart_start_state":
		copy(dst, o.start[:])
	}
}

// Restart repeats the set-states that the row's restart columns record. Without
// them row 0 is a new space with both bodies at the row's pose. A later row is
// never enough: the contacts of the steps before it are not in it.
func (e *env) Restart(row envs.Row, first bool) error {
	if !first {
		return envs.ErrNotExact
	}
	if err := e.adopt(row); err != nil {
		return fmt.Errorf("pusht: restarting: %w", err)
	}
	if _, ok := row["restart_mode"]; !ok {
		return e.restartPlain(row)
	}
	o, err := readOrigin(row)
	if err == nil {
		e.begin(o)
	}
	return err
}

// readOrigin reads the columns of the row's restart mode.
func readOrigin(row envs.Row) (o origin, err error) {
	mode, _, err := row.First([]string{"restart_mode"}, 1)
	if err != nil {
		return o, fmt.Errorf("pusht: restarting: %w", err)
	}
	if mode[0] == unknownOrigin {
		return o, envs.ErrNotExact
	}
	o.mode = int(mode[0])
	if float64(o.mode) != mode[0] || o.mode < 0 || o.mode > 2 {
		return o, fmt.Errorf("pusht: restarting: restart_mode is %g (hint: 0, 1 or 2)", mode[0])
	}
	for _, c := range []struct {
		name   string
		since  int // the first mode that needs it
		widths []int
		dst    *vector
	}{
		{"restart_setup_pose", 0, []int{5}, &o.setup},
		{"restart_goal_state", 1, []int{7, 5}, &o.goal},
		{"restart_start_state", 0, []int{7, 5}, &o.start},
		{"restart_eval_state", 2, []int{7, 5}, &o.eval},
	} {
		if o.mode >= c.since {
			if err := readPose(row, c.name, c.widths, c.dst); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}

// readPose reads a pose, with velocities if it is long enough to have them.
func readPose(row envs.Row, name string, widths []int, dst *vector) error {
	v, ok := row[name]
	if !ok {
		return fmt.Errorf("pusht: restarting: the row has no column %s", name)
	}
	for _, w := range widths {
		if len(v) != w {
			continue
		}
		if _, _, err := row.First([]string{name}, w); err != nil {
			return fmt.Errorf("pusht: restarting: %w", err)
		}
		copy(dst[:], v)
		return nil
	}
	return fmt.Errorf("pusht: restarting: column %s has %d numbers, not %d", name, len(v), widths[0])
}

// restartPlain makes a new space with both bodies at the row's pose and
// velocities, without the sub-step of a set-state.
func (e *env) restartPlain(row envs.Row) error {
	v, err := read(row, spec.StateColumns)
	if err != nil {
		return err
	}
	pose := v
	if p, ok := row["block_pose"]; ok && len(p) == 3 && p[2]-p[2] == 0 {
		pose[4] = p[2] // not wrapped, so that its sine has the same last bits
	}
	e.begin(origin{mode: unknownOrigin, setup: pose})
	w := &e.s.world
	w.agent.v = vec{v[5], v[6]}
	for _, left := range []struct {
		column string
		to     []*float64
	}{
		{"restart_block_velocity", []*float64{&w.block.v.x, &w.block.v.y}},
		{"restart_block_angular_velocity", []*float64{&w.block.w}},
		{"restart_block_bias_velocity", []*float64{&w.block.vBias.x, &w.block.vBias.y}},
		{"restart_block_angular_bias_velocity", []*float64{&w.block.wBias}},
	} {
		x, ok := row[left.column]
		if ok && len(x) != len(left.to) {
			return fmt.Errorf("pusht: restarting: column %s has %d numbers, not %d", left.column, len(x), len(left.to))
		}
		for i, v := range x {
			*left.to[i] = v
		}
	}
	return nil
}
