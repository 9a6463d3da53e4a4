package envs

// Description is what a task says of itself, as JSON: all of its Spec but functions.
type Description struct {
	Name     string              `json:"name"`
	ID       string              `json:"id"` // of the original environment
	Title    string              `json:"title"`
	Action   ActionDescription   `json:"action"`
	Columns  []ColumnDescription `json:"columns"`
	State    []string            `json:"state_columns"`
	Goal     []string            `json:"goal_columns"`
	Q        []QDescription      `json:"q"` // the first is the default
	Switches []SwitchDescription `json:"switches"`
	Factors  []FactorDescription `json:"factors"`
	Policies []string            `json:"policies"` // the first is the default
	MaxSteps int                 `json:"max_steps"`
	Success  string              `json:"success"`
	Source   string              `json:"source"`
}

// ActionDescription is the space of actions.
type ActionDescription struct {
	Width int       `json:"width"`
	DType string    `json:"dtype"`
	Low   []float64 `json:"low"`
	High  []float64 `json:"high"`
}

// ColumnDescription is a Column.
type ColumnDescription struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Width int    `json:"width"`
	Into  bool   `json:"into,omitempty"` // of the step into a row
	Doc   string `json:"doc"`
}

// QDescription is a Q.
type QDescription struct {
	Name  string   `json:"name"`
	Parts []string `json:"parts"`
}

// SwitchDescription is a Switch.
type SwitchDescription struct {
	Name   string   `json:"name"`
	Values []string `json:"values"` // the first is the default
	Doc    string   `json:"doc"`
}

// FactorDescription is a Factor: what may vary.
type FactorDescription struct {
	Name    string       `json:"name"`
	DType   string       `json:"dtype"`
	Low     float64      `json:"low"`
	High    float64      `json:"high"`
	Ranges  [][2]float64 `json:"ranges,omitempty"` // of each number where they differ
	Init    []float64    `json:"init"`
	Sampled bool         `json:"sampled"` // every reset draws it unless it is fixed
	Doc     string       `json:"doc"`
}

// Describe is the description of a task.
func (s *Spec) Describe() Description {
	d := Description{Name: s.Name, ID: s.ID, Title: s.Title, Policies: s.Policies, MaxSteps: s.MaxSteps, State: s.StateColumns, Goal: s.GoalColumns,
		Action:  ActionDescription{s.ActionDim, s.ActionDType, s.ActionLow, s.ActionHigh},
		Success: s.Success, Source: s.Source, Columns: []ColumnDescription{}, Q: []QDescription{}, Switches: []SwitchDescription{}, Factors: []FactorDescription{}}
	for _, c := range s.Columns {
		d.Columns = append(d.Columns, ColumnDescription{c.Name, c.DType, c.Width, c.Into, c.Doc})
	}
	for _, q := range s.Qs {
		d.Q = append(d.Q, QDescription{q.Name, q.Parts})
	}
	for _, sw := range s.Switches {
		d.Switches = append(d.Switches, SwitchDescription(sw))
	}
	for _, f := range s.Factors {
		d.Factors = append(d.Factors, FactorDescription(f))
	}
	return d
}
