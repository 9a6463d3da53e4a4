package replay

import (
	"math"
	"slices"

	"scalewm/envs"
)

// goal is where a recording holds its goal: a column of the file and the name under
// which the task takes it. Without a column the recording has no goal.
type goal struct{ column, as string }

// findGoal looks for goal_NAME of the task's goal columns, then for their other names.
func findGoal(s *envs.Spec, width map[string]int) goal {
	for _, name := range s.GoalColumns {
		if _, ok := width["goal_"+name]; ok {
			return goal{"goal_" + name, name}
		}
	}
	for _, name := range s.GoalAliases {
		if _, ok := width[name]; ok {
			return goal{name, s.GoalColumns[0]}
		}
	}
	return goal{}
}

// of is the goal of an episode, from its first row, as SetGoal takes it.
func (g goal) of(r *recorded) envs.Row {
	if g.column == "" {
		return nil
	}
	v := r.at(g.column, 0)
	if slices.ContainsFunc(v, math.IsNaN) {
		return nil
	}
	return envs.Row{g.as: v}
}
