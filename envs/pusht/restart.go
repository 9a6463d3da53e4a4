package pusht

import (
	"fmt"

	"scalewm/envs"
)

// origin says how a world reached row 0 of its episode. Velocities of the block that are
// left over from one set-state act in the next one. To reproduce row 0 exactly, all
// set-states since the creation of the space must be repeated.
type origin struct {
	mode        int    // 0, 1 or 2 as in the column restart_mode, or unknownOrigin
	setup       vector // the pose at which the space was created; its velocities are not used
	goal, start vector // the states set by the reset
	eval        vector // the state set by an evaluation; mode 2 only
}

// unknownOrigin is the mode of a world that was set in the middle of an episode.
const unknownOrigin = -1

// begin creates a new world and repeats the set-states of its origin.
func (e *env) begin(o origin) {
	e.s = state{world: world{scratch: e.s.world.scratch}, look: e.s.look, goal: e.s.goal, origin: o}
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

// observe writes one of the restart_* columns.
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

// Restart repeats the set-states that the row's restart columns record. Without these
// columns, row 0 is a new space with both bodies at the row's pose. A later row always gives
// ErrNotExact, because a row does not contain the contacts of the previous steps.
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

// readOrigin reads the columns that the row's restart mode needs.
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
		since  int // the lowest mode that needs it
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

// readPose reads a pose, with velocities if the column has them, that is if its width is the
// first that matches among widths.
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

// restartPlain creates a new space with both bodies at the row's pose and velocities,
// without the physics step of a set-state. Optional columns give the block's velocities.
func (e *env) restartPlain(row envs.Row) error {
	v, err := read(row, spec.StateColumns)
	if err != nil {
		return err
	}
	pose := v
	// block_pose has the angle before wrapping, whose sine and cosine have the last bits
	// of the recorded world. The comparison is false for NaN and infinities.
	if p, ok := row["block_pose"]; ok && len(p) == 3 && p[2]-p[2] == 0 {
		pose[4] = p[2]
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
