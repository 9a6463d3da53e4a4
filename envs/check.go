package envs

import (
	"fmt"
	"math"
	"strings"
)

// CheckAction says what is wrong with an action, so that every task refuses the
// same things in the same words: a wrong length, NaN and infinities.
func CheckAction(s *Spec, action []float64) error {
	if len(action) != s.ActionDim {
		return fmt.Errorf("task %s: an action has %d numbers, not %d", s.Name, s.ActionDim, len(action))
	}
	for i, v := range action {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("task %s: action[%d] is %g (hint: only the last row of an episode has no action)", s.Name, i, v)
		}
	}
	return nil
}

// First finds the first of the columns that the row has and checks that it
// holds width numbers.
func (r Row) First(columns []string, width int) (v []float64, name string, err error) {
	for _, name := range columns {
		v, ok := r[name]
		if !ok {
			continue
		}
		if len(v) != width {
			return nil, name, fmt.Errorf("column %s has %d numbers, not %d", name, len(v), width)
		}
		return v, name, nil
	}
	return nil, "", fmt.Errorf("the row has none of the columns %s", strings.Join(columns, ", "))
}
