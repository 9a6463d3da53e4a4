package pipeline

import (
	"fmt"
	"strings"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/analysis"
	"scalewm/eval/plan"
	"scalewm/model"
)

// Grid is what a reproduction covers: the product of its axes, of which methods
// that do not plan take part in tasks and sets only.
type Grid struct {
	Preset  Preset // of the data sets and trainings; its caps hold for the axes below
	Tasks   []envs.Task
	Methods []model.Method
	Seeds   []int64 // of the trainings
	// Qs and ScaleWeights vary the methods whose loss has a term that sees the task
	// state: which state, and the weight of the correlation; none is the preset's.
	Qs           []string
	ScaleWeights []float64

	Protocol     dataset.Protocol
	Solvers      []string
	Tiers        []eval.Tier
	Sets         []string
	Episodes     int // of a set
	Temperature  eval.Temperature
	Clip         plan.Clip
	PlannerNoise int  // see eval.Job
	ActionClip   bool // see eval.Job
	Pool         eval.Pool

	Analyses []string          // of each checkpoint
	Rollouts analysis.Settings // of the analysis of that name
}

// sets are those that a task is evaluated on.
func (g *Grid) sets(task string) []string {
	return g.Sets[:atMost(len(g.Sets), g.Preset.Eval.SetsAtMost[task])]
}

// arm is one line of the grid: a method, or a variant of it, that is trained on a
// task with a seed.
type arm struct {
	task   envs.Task
	method model.Method
	seed   int64
	variant
}

// name is the arm in a step's ID: "tworoom lewm s3072", or "tworoom random".
func (a arm) name() string {
	words := []string{a.task.Spec.Name, a.label()}
	if a.method.Plans() {
		words = append(words, fmt.Sprintf("s%d", a.seed))
	}
	return strings.Join(words, " ")
}

// arms lists the grid's lines of one task. What does not plan has no seed.
func (g *Grid) arms(task envs.Task) []arm {
	var out []arm
	for _, m := range g.Methods {
		seeds := g.Seeds
		if !m.Plans() {
			seeds = seeds[:1]
		}
		for _, v := range g.variants(task, m) {
			for _, s := range seeds {
				out = append(out, arm{task, m, s, v})
			}
		}
	}
	return out
}

// kinds are the kinds of steps: of each task, of each arm of it, and of the whole
// grid. Each lists its steps, which may be none; they follow one another in the
// order of this table. A new kind is a file with its type and a line here.
var kinds = struct {
	task, arm []func(*Workspace, arm) []Step
	grid      []func(*Workspace, Graph) []Step // from the steps before
}{
	task: []func(*Workspace, arm) []Step{collectSteps, tuneSteps},
	arm:  []func(*Workspace, arm) []Step{trainSteps, evaluateSteps, analyseSteps},
	grid: []func(*Workspace, Graph) []Step{reportSteps},
}

// Graph lists the steps of the workspace's grid. It depends on the grid alone.
func (w *Workspace) Graph() Graph {
	var out Graph
	listed := map[string]bool{}
	add := func(kinds []func(*Workspace, arm) []Step, a arm) {
		for _, steps := range kinds {
			for _, s := range steps(w, a) {
				if !listed[s.ID()] {
					out, listed[s.ID()] = append(out, s), true
				}
			}
		}
	}
	for _, t := range w.Grid.Tasks {
		add(kinds.task, arm{task: t})
		for _, a := range w.Grid.arms(t) {
			add(kinds.arm, a)
		}
	}
	for _, steps := range kinds.grid {
		out = append(out, steps(w, out)...)
	}
	return out
}

// atMost is n, or the cap where there is one that is lower.
func atMost(n, limit int) int {
	if limit > 0 {
		return min(n, limit)
	}
	return n
}
