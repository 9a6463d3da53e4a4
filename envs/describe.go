package envs

// Description is a task's Spec as JSON, without its functions.
type Description struct {
	Name     string            `json:"name"`
	ID       string            `json:"id"` // of the reference implementation
	Title    string            `json:"title"`
	Action   ActionDescription `json:"action"`
	Columns  []Column          `json:"columns"`
	State    []string          `json:"state_columns"`
	Goal     []string          `json:"goal_columns"`
	Q        []Q               `json:"q"` // the first is the default
	Switches []Switch          `json:"switches"`
	Factors  []Factor          `json:"factors"`
	Policies []string          `json:"policies"` // the first is the default
	MaxSteps int               `json:"max_steps"`
	Success  string            `json:"success"`
	Source   string            `json:"source"`
}

// ActionDescription describes the action space.
type ActionDescription struct {
	Width int       `json:"width"`
	DType string    `json:"dtype"`
	Low   []float64 `json:"low"`
	High  []float64 `json:"high"`
}

// Describe returns the description of a task. Empty lists are [] in its JSON, not null.
func (s *Spec) Describe() Description {
	return Description{s.Name, s.ID, s.Title, ActionDescription{s.ActionDim, s.ActionDType, s.ActionLow, s.ActionHigh},
		listed(s.Columns), s.StateColumns, s.GoalColumns, listed(s.Qs), listed(s.Switches), listed(s.Factors), s.Policies, s.MaxSteps, s.Success, s.Source}
}

// listed returns a copy of s that is never nil.
func listed[T any](s []T) []T { return append([]T{}, s...) }
