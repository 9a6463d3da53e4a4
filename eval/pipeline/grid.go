package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval"
	"scalewm/eval/analysis"
	"scalewm/eval/results"
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

	results.Rules
	Axes
	Episodes int // of a set

	Analyses []string          // of each checkpoint
	Rollouts analysis.Settings // of the analysis of that name
}

// sets are those that a task is evaluated on.
func (g *Grid) sets(task string) []string {
	return g.Sets[:atMost(len(g.Sets), g.Preset.Eval.SetsAtMost[task])]
}

// episodes are those of a set of a task.
func (g *Grid) episodes(task string) int { return atMost(g.Episodes, g.Preset.Eval.AtMost[task]) }

// Check is a RequestError where preset and tasks rule a result out whatever is collected: clips longer than
// episodes, fewer clips than a batch, fewer starts than a set, blocks that are not those of the evaluation's plans.
func (g *Grid) Check() error {
	const maxSet = 50_000 // episodes of a cell, in safefile.MaxCell
	if g.Preset.Train.QColumns != "" {
		return Requestf("train.q_columns is for data sets without a task, which only `scalewm train` takes (hint: leave it out)")
	}
	for _, t := range g.Tasks {
		name, rows := t.Spec.Name, t.Spec.MaxSteps+1 // of an episode, with the row of the reset
		collected := g.Preset.Collect.EpisodesOf(name)
		drawn := collected
		if g.HeldOut() {
			drawn = len(dataset.HeldOut("", collected))
		}
		most := min(maxSet, drawn*max(rows-g.GoalOffset, 0))
		named := !slices.ContainsFunc(g.Sets, func(s string) bool { return !strings.HasSuffix(s, ".json") }) // which say what they hold
		if n := g.episodes(name); n > most && !named {
			return Requestf("eval.episodes is %d, and the %d episodes of %s that can be drawn from have at most %d starts for a set (hint: fewer episodes a set, or a larger collect.episodes; a set has at most %d)", n, drawn, name, most, maxSet)
		}
		for _, m := range g.Methods {
			if !m.Plans() {
				continue
			}
			r, err := g.Preset.recipe(model.Method{Name: m.Name, Family: m.Family}, t.Spec.ActionDim, nil)
			if err != nil {
				return err
			}
			f, _ := model.FamilyOf(m.Family) // as recipe found it
			section, batch, info := f.Section, "train.batch", r.Model.Info()
			if g.Preset.Models[section].Training().Batch > 0 {
				batch = section + ".batch"
			}
			clip := info.ClipFrames() * info.FrameSkip
			switch clips := (collected - collected/10) * (rows - clip + 1); { // a tenth is held out
			case info.FrameSkip != eval.Block:
				return Requestf("%s.frame_skip is %d, and evaluations plan in blocks of %d steps (hint: %s.frame_skip=%d; `scalewm train` takes others)", section, info.FrameSkip, eval.Block, section, eval.Block)
			case clip > rows:
				return Requestf("%s.history is %d: a clip of %d frames that are %d rows apart has %d rows, and an episode of %s at most %d (hint: history is at most %d)", section, info.History, info.ClipFrames(), info.FrameSkip, clip, name, rows, rows/info.FrameSkip-1)
			case r.Train.Batch > clips:
				return Requestf("%s is %d, and %d episodes of %s have at most %d clips to train on (hint: a smaller batch, or a larger collect.episodes)", batch, r.Train.Batch, collected, name, clips)
			}
		}
	}
	return nil
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
	words := []string{a.task.Spec.Name, a.label().String()}
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
