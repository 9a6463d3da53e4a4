package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/analysis"
	"scalewm/eval/protocol"
	"scalewm/model"
)

// Grid is what a reproduction covers: the product of its axes. Policies have no solvers and
// tiers; random actions vary with tasks and sets only.
type Grid struct {
	Preset  Preset // numbers of data sets and trainings; its at_most tables cap the axes below
	Tasks   []envs.Task
	Methods []model.Method
	Seeds   []int64 // training seeds; the first also makes films and tunes temperatures
	// Qs and ScaleWeights vary the methods with a loss term on the task state: which
	// state, and the weight of the correlation term. Empty means the preset's.
	Qs           []string
	ScaleWeights []float64
	// Proposals are policies whose plans begin the searches of further arms: those of their
	// encoders' methods.
	Proposals []model.Method

	protocol.Definition
	Axes
	TiersChosen bool // the user named the tiers: arms whose candidates are drawn have them all
	Episodes    int  // per set

	Analyses []string          // names of the analyses of each checkpoint
	Rollouts analysis.Settings // settings of the analysis "rollout"

	// Data has the files of existing data sets by task. The others are collected.
	Data map[string]string
	// Given are existing checkpoints. If it is not nil, no arm is trained.
	Given *Given

	// Also are further grids on the same data and trainings, see Further. Their evaluations
	// have a suffix in their IDs if the rules differ.
	Also   []Grid
	suffix string
}

// Worlds returns the methods of the grid's world models, including those that only encode
// for policies.
func (g *Grid) Worlds() (out []model.Method) {
	for _, m := range append(slices.Clone(g.Methods), g.Proposals...) {
		if m = (arm{method: m}).searcher().method.Latents(); m.HasModel() {
			out = append(out, m)
		}
	}
	return out
}

// sets returns the names of the sets on which a task is evaluated.
func (g *Grid) sets(task string) []string {
	return g.Sets[:atMost(len(g.Sets), g.Preset.Eval.SetsAtMost[task])]
}

// episodes returns the number of episodes in a set of a task.
func (g *Grid) episodes(task string) int { return atMost(g.Episodes, g.Preset.Eval.AtMost[task]) }

// Check returns a RequestError if the preset makes a result impossible on some task that
// is collected, whatever the episodes are: clips longer than episodes, fewer clips than a batch, fewer
// starts than a set, or a frame skip other than the evaluation's block. Without it a
// run would fail hours later, after collecting. A given checkpoint that belongs to no arm
// is an error too.
func (g *Grid) Check() error {
	const maxSet = 50_000 // episodes of a cell that fit in safefile.MaxCell
	if err := g.checkGiven(); err != nil {
		return err
	}
	if g.Preset.Train.QColumns != "" {
		return Requestf("train.q_columns is for data sets without a task, which only `scalewm train` accepts (hint: remove the key)")
	}
	for _, t := range g.Tasks {
		name, rows := t.Spec.Name, t.Spec.MaxSteps+1 // rows of the longest episode: the reset and all steps
		for _, m := range g.Methods {
			if len(t.Spec.Qs) == 0 && (m.Replaced.Metric == model.StateDistance || m.Replaced.Metric == model.ProbedState) {
				return Requestf("%s: the task %s has no task state q (hint: leave the method out; a task of your own gives Spec.Qs)", m.Arm(), name)
			}
		}
		if g.Data[name] != "" {
			continue // the file decides: opening it returns the error
		}
		collected := g.Preset.Collect.EpisodesOf(name)
		drawn := collected
		if g.HeldOut() {
			drawn = len(dataset.HeldOut("", collected))
		}
		most := min(maxSet, drawn*max(rows-g.GoalOffset, 0))
		// Sets that are all files contain their starts, so that none are drawn.
		named := !slices.ContainsFunc(g.Sets, func(s string) bool { return !strings.HasSuffix(s, ".json") })
		if n := g.episodes(name); n > most && !named {
			return Requestf("eval.episodes is %d, but the %d episodes of %s to draw from have at most %d starts for a set (hint: fewer episodes per set, or a larger collect.episodes; a set has at most %d)", n, drawn, name, most, maxSet)
		}
		for _, m := range g.Worlds() {
			r, err := g.Preset.recipe(model.Method{Name: m.Name, Family: m.Family}, t.Spec.ActionDim, nil)
			if err != nil {
				return err
			}
			f, _ := model.FamilyOf(m.Family) // as recipe found it
			section, batch, info := f.Section, "train.batch", r.Model.Info()
			if g.Preset.Models[section].Training().Batch > 0 {
				batch = section + ".batch"
			}
			for _, wrapped := range g.Methods {
				if err := eval.CheckMetric(wrapped.Replaced, info, (collected-collected/10)*rows); wrapped.Name == m.Name && err != nil {
					return Requestf("%s: %w", wrapped.Arm(), err)
				}
			}
			clip := info.ClipFrames() * info.FrameSkip
			// A tenth of the episodes is held out. Episodes may be shorter, so this is an
			// upper bound: Check must not reject what could work.
			switch clips := (collected - collected/10) * (rows - clip + 1); {
			case info.FrameSkip != g.Steps():
				return Requestf("%s.frame_skip is %d, but evaluations plan in blocks of %d steps (hint: %s.frame_skip=%d; `scalewm train` accepts others)", section, info.FrameSkip, g.Steps(), section, g.Steps())
			case clip > rows:
				return Requestf("%s.history is %d: a clip of %d frames that are %d rows apart has %d rows, but an episode of %s has at most %d (hint: history is at most %d)", section, info.History, info.ClipFrames(), info.FrameSkip, clip, name, rows, rows/info.FrameSkip-1)
			case r.Train.Batch > clips:
				return Requestf("%s is %d, but %d episodes of %s have at most %d clips to train on (hint: a smaller batch, or a larger collect.episodes)", batch, r.Train.Batch, collected, name, clips)
			}
		}
	}
	return nil
}

// arm is one line of the grid: a method or a variant of it, trained on a task with a
// seed.
type arm struct {
	task   envs.Task
	method model.Method
	seed   int64
	variant
}

// name returns the arm's part of a step's ID: "tworoom lewm s3072" or "tworoom
// random".
func (a arm) name() string {
	words := []string{a.task.Spec.Name, a.label().String()}
	if a.method.HasModel() {
		words = append(words, fmt.Sprintf("s%d", a.seed))
	}
	return strings.Join(words, " ")
}

// arms returns the arms of a task in the grid's order. Random actions have one arm, since
// there is nothing to seed.
func (g *Grid) arms(task envs.Task) []arm {
	var out []arm
	for _, m := range g.Methods {
		seeds := g.Seeds
		if !m.HasModel() {
			seeds = seeds[:1]
		}
		for _, v := range g.variants(task, m) {
			for _, s := range seeds {
				out = append(out, arm{task, m, s, v})
			}
		}
	}
	for _, p := range g.Proposals {
		for _, s := range g.Seeds {
			out = append(out, arm{task, p.Latents(), s, variant{proposal: p.Name}})
		}
	}
	return out
}

// kinds lists the constructors of steps: those called once per task, once per arm,
// and once for the grid. Each returns its steps, possibly none, and the graph
// contains them in the order of this table. A new kind of step is a file with its
// type and an entry here.
var kinds = struct {
	task, arm []func(*Workspace, arm) []Step
	// grid receives the graph so far, that is the steps of all tasks and arms.
	grid []func(*Workspace, Graph) []Step
}{
	task: []func(*Workspace, arm) []Step{collectSteps, tuneSteps},
	arm:  []func(*Workspace, arm) []Step{trainSteps, evaluateSteps, analyseSteps},
	grid: []func(*Workspace, Graph) []Step{reportSteps},
}

// Graph returns the steps of the workspace's grid. It depends on the grid alone and
// not on existing results, so that every machine of a cluster has the same graph. A
// step that several constructors return, such as the training that tuning needs,
// appears once, at its first position.
func (w *Workspace) Graph() Graph {
	var out Graph
	listed := map[string]bool{} // IDs in out
	add := func(w *Workspace, kinds []func(*Workspace, arm) []Step, a arm) {
		for _, steps := range kinds {
			for _, s := range steps(w, a) {
				if !listed[s.ID()] {
					out, listed[s.ID()] = append(out, s), true
				}
			}
		}
	}
	for _, t := range w.Grid.Tasks {
		for _, w := range w.grids() {
			if !slices.ContainsFunc(w.Grid.Tasks, func(o envs.Task) bool { return o.Spec == t.Spec }) {
				continue
			}
			add(w, kinds.task, arm{task: t})
			for _, a := range w.Grid.arms(t) {
				add(w, kinds.arm, a)
			}
		}
	}
	for _, steps := range kinds.grid {
		out = append(out, steps(w, out)...)
	}
	return out
}

// atMost returns n limited by limit, where 0 means no limit.
func atMost(n, limit int) int {
	if limit > 0 {
		return min(n, limit)
	}
	return n
}
