package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed paper.json
var paperJSON []byte

// PaperTable is one table of the paper's appendix "Full planning results".
type PaperTable struct {
	Label string     `json:"label"` // of the LaTeX source
	Line  int        `json:"line"`  // where the label stands in it
	Task  string     `json:"task"`
	Rows  []PaperRow `json:"rows"`
}

// PaperRow is a method under a solver: success in percent, mean and SD over
// evaluation sets at T1 to T5, and the printed average of the five.
type PaperRow struct {
	Solver  string     `json:"solver"`
	Method  string     `json:"method"`
	Mean    [5]float64 `json:"mean"`
	SD      [5]float64 `json:"sd"`
	Average float64    `json:"average"`
}

// Paper is the published results.
type Paper struct {
	Source   string            `json:"source"`
	Titles   map[string]string `json:"titles"` // of its methods
	Sets     map[string]int    `json:"sets"`   // evaluation sets, by solver
	Tiers    [5]string         `json:"tiers"`
	SetTests []PaperSetTest    `json:"set_tests"`
	Tallies  []PaperTally      `json:"tallies"`
	Tables   []PaperTable      `json:"tables"` // in the order of the paper's tasks
	Analyses []PaperAnalysis   `json:"analyses"`

	Selection []PaperSelection `json:"selection"`
	Costs     []PaperCost      `json:"costs"`
	Seeds     []PaperSeed      `json:"seeds"`
}

// PaperAnalysis is what the paper measures of a method's checkpoint on a task.
type PaperAnalysis struct {
	Task     string    `json:"task"`
	Method   string    `json:"method"`
	Spearman float64   `json:"spearman"` // of distances
	RollErr  float64   `json:"rollerr"`
	Tau      float64   `json:"tau"`
	TauP     float64   `json:"tau_p"`  // of its difference against the baseline, over starts; 0 where it is not said
	Linear   float64   `json:"linear"` // R2 from all components, mean over the state
	MLP      float64   `json:"mlp"`
	Top      []float64 `json:"top"`       // R2 from the first 2, 4 and 8 components
	LinearBy []float64 `json:"linear_by"` // as Linear, of each number of the full state
	MLPBy    []float64 `json:"mlp_by"`
}

// PaperSelection is the success with smaller and larger supervised states, percent.
type PaperSelection struct {
	Task   string  `json:"task"`
	Method string  `json:"method"`
	Half   float64 `json:"half"`
	Full   float64 `json:"full"`
}

// PaperCost is what training and planning took; 0 where it is not said.
type PaperCost struct {
	Method      string  `json:"method"`
	Batch       int     `json:"batch"`
	StepsPerSec float64 `json:"steps_per_second"`
	T1          float64 `json:"t1"` // seconds of a plan
	T2          float64 `json:"t2"`
	Sum         float64 `json:"sum"` // over the five tiers
}

// PaperSeed is the success of another training seed: averages over tiers of CEM, iCEM
// and, where it was run, MPPI.
type PaperSeed struct {
	Task    string    `json:"task"`
	Method  string    `json:"method"`
	Seed    int       `json:"seed"`
	Average []float64 `json:"average"`
}

// PaperSetTest is the significance of the difference of two methods on a task.
type PaperSetTest struct {
	Task  string  `json:"task"`
	A     string  `json:"a"`
	B     string  `json:"b"`
	Cells int     `json:"cells"`
	Sets  int     `json:"sets"`
	Mean  float64 `json:"mean"` // A - B, points
	P     float64 `json:"p"`
}

// PaperTally counts where A leads B; the cells are nil where the paper does not say.
type PaperTally struct {
	A     string `json:"a"`
	B     string `json:"b"`
	Leads int    `json:"leads"`
	Of    int    `json:"of"`
	Up    *int   `json:"up"`
	Down  *int   `json:"down"`
	Tied  *int   `json:"tied"`
}

// published are the paper's numbers.
var published = func() (p Paper) {
	if err := json.Unmarshal(paperJSON, &p); err != nil {
		panic(fmt.Sprintf("report: the embedded paper.json: %v", err))
	}
	return p
}()

// row finds the published row of a task, solver and method.
func (p Paper) row(task, solver, method string) (PaperRow, string, bool) {
	for _, t := range p.Tables {
		for _, r := range t.Rows {
			if t.Task == task && r.Solver == solver && r.Method == method {
				return r, t.Label, true
			}
		}
	}
	return PaperRow{}, "", false
}

// analysis finds what was published of a method's checkpoint.
func (p Paper) analysis(task, method string) (PaperAnalysis, bool) {
	for _, a := range p.Analyses {
		if a.Task == task && a.Method == method {
			return a, true
		}
	}
	return PaperAnalysis{}, false
}

// at is the published mean and SD at a tier.
func (p Paper) at(r PaperRow, tier string) (mean, sd float64, ok bool) {
	for i, t := range p.Tiers {
		if t == tier {
			return r.Mean[i], r.SD[i], true
		}
	}
	return 0, 0, false
}
