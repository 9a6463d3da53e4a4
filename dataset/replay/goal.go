package replay

import (
	"math"

	"scalewm/envs"
)

// goal is where a recording says its goal: a column of the file and the name
// under which the task takes it. The zero goal: it does not.
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

func (g goal) known() bool { return g.column != "" }

// set gives the world the goal of the episode's first row.
func (g goal) set(e envs.Env, r *recorded) error {
	if !g.known() {
		return nil
	}
	v := r.at(g.column, 0)
	for _, x := range v {
		if math.IsNaN(x) {
			return nil
		}
	}
	return e.SetGoal(envs.Row{g.as: v})
}
