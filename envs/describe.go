package envs

// Description is what a task says of itself, as JSON: all of its Spec but functions.
type Description struct {
	Name     string            `json:"name"`
	ID       string            `json:"id"` // of the original environment
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

// ActionDescription is the space of actions.
type ActionDescription struct {
	Width int       `json:"width"`
	DType string    `json:"dtype"`
	Low   []float64 `json:"low"`
	High  []float64 `json:"high"`
}

// Describe is the description of a task. Lists that are empty are no nulls in its JSON.
func (s *Spec) Describe() Description {
	return Description{s.Name, s.ID, s.Title, ActionDescription{s.ActionDim, s.ActionDType, s.ActionLow, s.ActionHigh},
		listed(s.Columns), s.StateColumns, s.GoalColumns, listed(s.Qs), listed(s.Switches), listed(s.Factors), s.Policies, s.MaxSteps, s.Success, s.Source}
}

func listed[T any](s []T) []T { return append([]T{}, s...) }
