// Package results defines what evaluations and analyses write down, and reads it back:
// the spec of a cell ([Spec], [AnalysisSpec]), its rows and results, and its measured
// times.
//
// The evaluation code writes cells; package infer and the report read a folder of them
// as [Contents], by [Load]. [Folder] owns the names of all files in a results folder,
// [Arm] the names of arms, and [Settings] the table of the settings of an evaluation. The
// package neither computes results nor compares them.
//
// A spec determines a result: its canonical JSON is hashed to the name of the cell's file.
// Adding a field without omitempty, or changing what a value means, would therefore
// rename every existing cell.
package results

import (
	"encoding/json"
	"errors"
	"fmt"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile"
)

// Kind is the cell kind of an evaluation (dataset/cell).
const Kind = "eval"

// Schema is the version of Spec that this program writes. Cells of other versions are
// errors, because their fields may have other meanings.
const Schema = 2

// Names of the solvers.
const (
	CEM     = "cem"
	ICEM    = "icem"
	MPPI    = "mppi"
	Descent = "gd" // gradient descent; not in the default grid
	// StockMPPI names the table of MPPI at the stock temperature in reports on folders that
	// have MPPI at a tuned temperature too. No cell has it.
	StockMPPI = "mppi-stock"
)

// MPPI's temperature (docs/sources.md#mppi-temperature). StockTemperature is the default of
// stable-worldmodel, which the paper uses for DINO-WM in every table. Other temperatures are
// tuned on TuningSet, so tables with a tuned temperature leave that set out.
const (
	StockTemperature = 0.5
	TuningSet        = "s101"
)

// Values of fields of a Spec, and the words for values that a Spec leaves empty.
const (
	RawClip      = "raw"       // Clip: z-scored actions to the task's raw bounds, as published
	FullPool     = "full"      // Pool: all valid starts
	MinusOnePool = "minus-one" // Pool as published, "" in a Spec: all valid starts but the last
	DefaultQ     = "full"      // Q: the task state that presets train with
)

// Spec determines an evaluation cell: one arm on one set at one tier. The hash of its
// canonical JSON is the cell's id. The table in fields.go of package infer says what role
// each field has in comparisons (place, arm or setting).
type Spec struct {
	Schema    int    `json:"schema"`
	Task      string `json:"task"`
	Method    string `json:"method"` // in the table of package model, or the name of a model in Python
	TrainSeed int    `json:"train_seed"`
	Weights   string `json:"weights"` // SHA-256 of the weights file, "" for random
	// Recipe is a hash of the training recipe and the geometry. All tasks, methods and
	// seeds of a preset have the same one. Q is the task state that the method's loss was
	// computed from, and LossWeight the weight of that loss term. Each is absent if the
	// checkpoint does not record it or the method has none.
	Recipe     string  `json:"recipe,omitempty"`
	Q          string  `json:"q,omitempty"`
	LossWeight float64 `json:"loss_weight,omitempty"`
	Backbone   string  `json:"backbone,omitempty"` // SHA-256 of a frozen encoder's weights; absent for trained encoders
	// Python is the kind of a model in Python, followed by WithProposal if another object
	// proposed the solver's initial mean. It is absent for checkpoints.
	Python string `json:"python,omitempty"`
	// Code is a hash of the source of a model in Python, which may change while the weights
	// stay the same. It is absent for checkpoints, and in cells that earlier versions wrote.
	Code       string `json:"code,omitempty"`
	Data       string `json:"data"`   // fingerprint of the data set
	Solver     string `json:"solver"` // "" for random and for policies, which do not search
	Tier       string `json:"tier"`   // as Solver
	Candidates int    `json:"candidates"`
	Iterations int    `json:"iterations"`
	Elites     int    `json:"elites"` // 0 for gd, whose candidates are restarts
	// Actions is "checkpoint" if actions are scaled by the moments of the checkpoint's
	// training data, and those differ from the data set's. It is absent otherwise.
	Actions  string `json:"actions,omitempty"`
	Set      string `json:"set"`      // such as s101
	SetHash  string `json:"set_hash"` // fingerprint of the drawn episodes
	Episodes int    `json:"episodes"`
	Rules           // only the settings that apply to the arm, see Rules.Of
}

// Kinds of models in Python, see Spec.Python.
const (
	PythonWorld  = "world"  // encodes frames and predicts latents
	PythonCost   = "cost"   // returns the costs of candidate plans
	PythonPolicy = "policy" // returns a plan, without a search of ours
	WithProposal = "-proposal"
)

// UnmarshalJSON returns an error for a spec of another schema, and for texts that are not
// valid names: they become parts of paths, tables and pages, and the file may come from
// anybody.
func (s *Spec) UnmarshalJSON(b []byte) error {
	type plain Spec
	if err := json.Unmarshal(b, (*plain)(s)); err != nil {
		return err
	}
	if s.Schema != Schema {
		return fmt.Errorf("it has schema %d, and this program reads schema %d (hint: use the program that wrote it, or delete the file and evaluate again)", s.Schema, Schema)
	}
	return safefile.CheckNames(s)
}

// Row is the outcome of one episode.
type Row struct {
	Episode        int     `json:"episode"`    // index in the set
	Trajectory     int     `json:"trajectory"` // episode of the data set
	Start          int     `json:"start"`      // row within it
	Success        bool    `json:"success"`
	Steps          int     `json:"steps"` // first successful env step (from 1), else the budget
	Replans        int     `json:"replans"`
	PredictorCalls int     `json:"forwards"` // over all plans: one per candidate and block, or per plan of a policy or proposal
	PlannerSeed    uint32  `json:"planner_seed"`
	PreSolved      bool    `json:"pre_solved"` // the start already meets the goal
	NaNCosts       int     `json:"nan_costs"`  // costs over all plans that were NaN or +Inf
	PlanCost       float64 `json:"plan_cost"`  // reported cost of the first plan
	// Diverged says why the simulation ended the episode, which then failed.
	Diverged string `json:"diverged,omitempty"`
}

// Result is the part of a cell file that the Spec determines.
type Result struct {
	Device string `json:"device"` // device.Kind
	Rows   []Row  `json:"rows"`
}

// Cell is a cell that was read from a store. ID is the name of its file.
type Cell struct {
	ID     string
	Spec   Spec
	Result Result
}

// Check returns an error that wraps cell.ErrTorn if no evaluation of the cell's spec could
// have its rows: a wrong number of episodes, an episode twice, more steps than the budget,
// more costs than were computed. A limit that the spec lacks (0) is not checked.
func (c Cell) Check() error {
	s, seen := c.Spec, map[int]bool{}
	if n := len(c.Result.Rows); n == 0 || s.Episodes != 0 && n != s.Episodes {
		return fmt.Errorf("%w: it has the rows of %d episodes, and its set %d", cell.ErrTorn, n, s.Episodes)
	}
	if min(s.Budget, s.Candidates, s.Iterations, s.Elites, s.Horizon) < 0 {
		return fmt.Errorf("%w: its spec has a negative number", cell.ErrTorn)
	}
	for _, r := range c.Result.Rows {
		costs := float64(s.Candidates) * float64(s.Iterations)
		why := ""
		switch {
		case min(r.Episode, r.Trajectory, r.Start, r.Steps, r.Replans, r.PredictorCalls, r.NaNCosts) < 0:
			why = "has a negative number"
		case seen[r.Episode]:
			why = "appears twice"
		case s.Episodes != 0 && r.Episode >= s.Episodes:
			why = fmt.Sprintf("is not in the set, which has %d", s.Episodes)
		case s.Budget != 0 && (r.Steps < 1 || r.Steps > s.Budget):
			why = fmt.Sprintf("has %d steps, and its budget is %d", r.Steps, s.Budget)
		case r.Success && r.Diverged != "":
			why = "succeeded and diverged"
		case costs > 0 && float64(r.NaNCosts) > costs*float64(r.Replans):
			why = fmt.Sprintf("has %d costs that are not finite, of %g", r.NaNCosts, costs*float64(r.Replans))
		}
		if why != "" {
			return fmt.Errorf("%w: episode %d %s", cell.ErrTorn, r.Episode, why)
		}
		seen[r.Episode] = true
	}
	return nil
}

// Read reads a cell of a store and checks its rows.
func Read(store cell.Store, id string) (Cell, error) {
	c := Cell{ID: id}
	if err := store.Load(id, &c.Spec, &c.Result); err != nil {
		return c, err
	}
	return c, c.checkAt(store.Path(id))
}

func (c Cell) checkAt(path string) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("reading cell %s: %w (hint: delete the file and run the command that made it again)", path, err)
	}
	return nil
}

// Run is the content of <id>.run.json next to a cell: times, host, date and version. It
// differs between equal evaluations, so it is not part of the cell, and no comparison
// reads it. Times are in seconds unless the name says otherwise.
type Run struct {
	Started    string  `json:"started"`
	Host       string  `json:"host"`
	Seconds    float64 `json:"seconds"`
	Encode     float64 `json:"encode_seconds"`
	Plan       float64 `json:"plan_seconds"`
	Simulate   float64 `json:"simulate_seconds"`
	Render     float64 `json:"render_seconds"`
	PlanMillis float64 `json:"plan_ms"`         // one episode's plan, amortised over the batch
	Episode    float64 `json:"episode_seconds"` // of wall time, amortised over the batch
	Workers    int     `json:"workers"`
	Version    string  `json:"version"`
}

// Hits returns the number of successful episodes.
func (r Result) Hits() (n int) {
	for _, row := range r.Rows {
		if row.Success {
			n++
		}
	}
	return n
}

// Rate returns the share of successful episodes in percent, 0 if there are none.
func (r Result) Rate() float64 { return 100 * float64(r.Hits()) / float64(max(len(r.Rows), 1)) }

// Double returns an episode that has two rows, as only a damaged cell has.
func (r Result) Double() (episode int, found bool) {
	seen := map[int]bool{}
	for _, row := range r.Rows {
		if seen[row.Episode] {
			return row.Episode, true
		}
		seen[row.Episode] = true
	}
	return 0, false
}

// Gate is the render gate of a task: the comparison of frames drawn on this machine with
// those stored in the data set (docs/sources.md#render-gate). It depends on the renderer of
// the machine, so it is stored next to the cells and not in them.
type Gate struct {
	Task  string  `json:"task"`
	Data  string  `json:"data"`  // fingerprint of the data set
	Error float64 `json:"error"` // mean absolute difference in levels (0 to 255)
	Limit float64 `json:"limit"`
}

// ParseGate reads a Gate from JSON. It returns an error if a text is not a valid name.
func ParseGate(b []byte) (g Gate, err error) {
	if err := json.Unmarshal(b, &g); err != nil {
		return g, err
	}
	if g.Task == "" {
		return g, errors.New("it names no task")
	}
	return g, safefile.CheckNames(g)
}

// Passed reports whether the drawn frames are close enough to the recorded ones.
func (g Gate) Passed() bool { return g.Error <= g.Limit }
