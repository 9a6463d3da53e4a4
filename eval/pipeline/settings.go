package pipeline

import (
	"cmp"
	"context"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/results"
	"scalewm/model"
)

// Settings say how arms are evaluated, whichever arms they are, in the words of flags.
type Settings struct {
	Protocol    string `json:"protocol"` // "": the preset's, or else paper
	Solver      string `json:"solver"`   // with commas, as Tier and Sets
	Tier        string `json:"tier"`
	Sets        string `json:"sets"`
	Temperature string `json:"temperature"`
	Clip        string `json:"icem_clip"`
	Pool        string `json:"pool"`
	ActionClip  bool   `json:"action_clip"`
	// PlannerNoise is a number, 0: the published draws.
	PlannerNoise int `json:"planner_noise"`
}

// Into writes the settings into a grid.
func (s Settings) Into(g *Grid) error {
	parse := []func() error{
		func() (err error) {
			g.Protocol, err = dataset.ParseProtocol(cmp.Or(s.Protocol, g.Preset.Grid.Protocol, string(dataset.Paper)))
			return
		},
		func() (err error) { g.Tiers, err = eval.ParseTiers(s.Tier); return },
		func() (err error) { g.Sets, err = eval.ParseSets(s.Sets); return },
		func() (err error) { g.Solvers, err = eval.ParseSolvers(s.Solver); return },
		func() (err error) { g.Temperature, err = eval.ParseTemperature(s.Temperature); return },
		func() (err error) { g.Clip, err = eval.ParseClip(s.Clip); return },
		func() (err error) { g.Pool, err = eval.ParsePool(s.Pool); return },
	}
	g.ActionClip, g.PlannerNoise = s.ActionClip, s.PlannerNoise
	for _, p := range parse {
		if err := p(); err != nil {
			return Requestf("%v", err)
		}
	}
	if g.Pool == eval.Full && g.Protocol == dataset.Strict {
		return Requestf("--pool full chooses among the starts of protocol paper; strict draws from those in held-out episodes alone (hint: leave --pool out, or give --protocol paper)")
	}
	for _, solver := range g.Solvers {
		for _, t := range g.Tiers {
			if _, err := t.For(solver); err != nil {
				return Requestf("%v", err)
			}
		}
	}
	return nil
}

// Evaluation is what one evaluation of one arm on a task is asked for, in the words of
// the flags of `scalewm eval`.
type Evaluation struct {
	Settings
	Task     string `json:"task"`
	Data     string `json:"data"`
	Out      string `json:"out"`
	Episodes int    `json:"episodes"`
	Batch    int    `json:"batch"`
	Workers  int    `json:"workers"`
	Fresh    bool   `json:"fresh"` // existing cells are replaced; no flag of the program
}

// Workspace is where the evaluation is made, so far of random actions.
func (e Evaluation) Workspace() (*Workspace, error) {
	if e.Episodes < 1 {
		return nil, Requestf("eval: --episodes %d: a set has at least one", e.Episodes)
	}
	if e.Task == dataset.NoTask {
		return nil, Requestf("eval: --task none has no simulator to act in (`scalewm analyse rank,spectrum,probe,dynamics` measures such a checkpoint)")
	}
	task, err := envs.Lookup(e.Task)
	if err != nil {
		return nil, Requestf("eval: %v", err)
	}
	w := &Workspace{Dir: e.Out, Data: e.Data, Batch: e.Batch, Workers: e.Workers, Fresh: e.Fresh}
	w.Grid = Grid{Tasks: []envs.Task{task}, Methods: []model.Method{model.MethodOf(model.Random)}, Seeds: []int64{0}, Episodes: e.Episodes}
	return w, e.Into(&w.Grid)
}

// Ready does what comes before the evaluations of a grid of one task: the data set's frames are
// compared with those that are drawn here, and MPPI's temperature is chosen where that is
// asked for and it may. Nothing is written to a folder of other results.
func (w *Workspace) Ready(ctx context.Context, mayChoose bool) (results.Gate, error) {
	gate, err := w.RenderGate(ctx, w.Grid.Tasks[0])
	if err == nil {
		err = w.UseChoice(ctx, w.Grid.Tasks[0], mayChoose)
	}
	return gate, err
}

// Evaluate makes the cells of the grid's arms that are there to be evaluated, and says which
// of them failed. It notes which cells it found and did not make.
func (w *Workspace) Evaluate(ctx context.Context) (scores []Score, failed []string, err error) {
	var steps Graph
	for _, s := range Of[*Evaluate](w.Graph()) {
		steps = append(steps, s)
	}
	failed, err = steps.Run(ctx, w.Listener)
	for _, s := range Of[*Evaluate](steps) {
		if note := s.reused(); note != "" {
			w.Listener.Note(note)
		}
	}
	return steps.Scores(), failed, err
}
