// Package results holds the types of an evaluation that is written down: the
// spec of a cell, its rows and its measured times. Runner, analyses, statistics
// and report share them; it knows nothing of how they come about.
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

// Schema is the version of Spec. Cells of other versions are not read.
const Schema = 2

// Names of the planners.
const (
	CEM     = "cem"
	ICEM    = "icem"
	MPPI    = "mppi"
	Descent = "gd" // outside the default grid
	// StockMPPI is the table of MPPI at the stock temperature, where a folder has MPPI at a chosen one too.
	StockMPPI = "mppi-stock"
)

// Of MPPI's temperature (docs/sources.md#mppi-temperature): the original's default, which
// DINO-WM has in every table, and the set that the others are chosen on. Tables of a chosen
// temperature are of the other sets.
const (
	StockTemperature = 0.5
	TuningSet        = "s101"
)

// Words that a Spec holds, or that stand for what it leaves empty.
const (
	RawClip      = "raw"       // Clip of iCEM as published: the task's own bounds
	FullPool     = "full"      // Pool of all valid starts
	MinusOnePool = "minus-one" // Pool as published, "" in a Spec: without the last one
	DefaultQ     = "full"      // the task state that presets train with
)

// Spec determines an evaluation cell: one arm on one set at one tier. Its
// canonical JSON names the cell's file. What each field is to a comparison (a
// place, the arm, a setting) says the table of package infer.
type Spec struct {
	Schema    int    `json:"schema"`
	Task      string `json:"task"`
	Method    string `json:"method"` // of the table in package model, or the name of a model in Python
	TrainSeed int    `json:"train_seed"`
	Weights   string `json:"weights"` // SHA-256 of the weights file, "" for random
	// Recipe is a hash of the training recipe and the geometry, equal for all tasks,
	// methods and seeds of a preset; Q is the task state that the method's loss saw and
	// LossWeight the weight of the term that saw it. Each is absent where the
	// checkpoint does not say or has none.
	Recipe     string  `json:"recipe,omitempty"`
	Q          string  `json:"q,omitempty"`
	LossWeight float64 `json:"loss_weight,omitempty"`
	Backbone   string  `json:"backbone,omitempty"` // SHA-256 of a frozen encoder's weights; absent where the encoder learnt
	// Python says what a model in Python is, with WithProposal behind it where another one made
	// the solver's first mean; absent for checkpoints.
	Python string `json:"python,omitempty"`
	// Code is a hash of the code of a model in Python, which can change while the weights stay;
	// absent for checkpoints, and in cells of programs that did not record it.
	Code       string `json:"code,omitempty"`
	Data       string `json:"data"`   // fingerprint of the data set
	Solver     string `json:"solver"` // "" for random and for policies, which do not search
	Tier       string `json:"tier"`   // as Solver
	Candidates int    `json:"candidates"`
	Iterations int    `json:"iterations"`
	Elites     int    `json:"elites"` // 0 for gd, whose candidates are restarts
	// Actions is "checkpoint" where plans are scaled by the moments of its training
	// and these are not the data set's own; absent elsewhere.
	Actions  string `json:"actions,omitempty"`
	Set      string `json:"set"`      // s101
	SetHash  string `json:"set_hash"` // fingerprint of the drawn episodes
	Episodes int    `json:"episodes"`
	Rules           // those that the arm has (Rules.Of)
}

// What a model in Python is, see Spec.
const (
	PythonWorld  = "world"  // encodes frames and predicts latents
	PythonCost   = "cost"   // judges plans
	PythonPolicy = "policy" // makes plans, without a search
	WithProposal = "-proposal"
)

// UnmarshalJSON refuses a spec of another schema, whose fields could mean anything,
// and a text that is no name: what a spec says becomes a part of paths, tables and
// pages.
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
	PredictorCalls int     `json:"forwards"` // one a candidate and block, and one a plan of a policy or proposal, over all plans (NFE)
	PlannerSeed    uint32  `json:"planner_seed"`
	PreSolved      bool    `json:"pre_solved"` // the start already meets the goal
	NaNCosts       int     `json:"nan_costs"`  // costs over all plans that were NaN or +Inf
	PlanCost       float64 `json:"plan_cost"`  // reported cost of the first plan
	// Diverged says why the simulation ended the episode, which then failed.
	Diverged string `json:"diverged,omitempty"`
}

// Result is what a cell file holds beside its Spec.
type Result struct {
	Device string `json:"device"` // device.Kind
	Rows   []Row  `json:"rows"`
}

// Cell is a finished cell as the report reads it.
type Cell struct {
	ID     string
	Spec   Spec
	Result Result
}

// Check returns an error, which wraps cell.ErrTorn, if no evaluation of the cell's spec has its rows. A number that
// the spec lacks bounds nothing.
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
			why = "stands there twice"
		case s.Episodes != 0 && r.Episode >= s.Episodes:
			why = fmt.Sprintf("is none of the set's %d", s.Episodes)
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

// Read reads a cell of a store, whose rows are checked.
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

// Run goes to <id>.run.json: times, host and date, which no comparison reads.
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

// Hits is the number of successful rows.
func (r Result) Hits() (n int) {
	for _, row := range r.Rows {
		if row.Success {
			n++
		}
	}
	return n
}

// Rate is the share of successful rows, in percent.
func (r Result) Rate() float64 { return 100 * float64(r.Hits()) / float64(max(len(r.Rows), 1)) }

// Double finds an episode that stands in two rows, as only a damaged cell has.
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

// Gate is the verdict of comparing frames that were drawn here with the stored
// ones of a data set (docs/sources.md#render-gate). It depends on the machine that draws.
type Gate struct {
	Task  string  `json:"task"`
	Data  string  `json:"data"`  // fingerprint of the data set
	Error float64 `json:"error"` // mean absolute difference, levels a byte
	Limit float64 `json:"limit"`
}

// ParseGate reads the bytes of a verdict.
func ParseGate(b []byte) (g Gate, err error) {
	if err := json.Unmarshal(b, &g); err != nil {
		return g, err
	}
	if g.Task == "" {
		return g, errors.New("it names no task")
	}
	return g, safefile.CheckNames(g)
}

// Passed says whether the frames are those that were recorded.
func (g Gate) Passed() bool { return g.Error <= g.Limit }
