package eval

import (
	"fmt"
	"slices"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/model"
)

// Random is the method of uniform random actions, which are not trained and
// have neither solver nor tier.
const Random = model.Random

// Verb is what a unit does.
type Verb string

// The verbs in the order of the stairs.
const (
	Collect  Verb = "collect"
	Train    Verb = "train"
	TuneMPPI Verb = "tune"
	Evaluate Verb = "evaluate"
	Report   Verb = "report"
)

// Unit is one line of the work of a reproduction. Fields that its verb does not
// need are empty.
type Unit struct {
	Verb         Verb
	Task, Method string
	Seed         int64
	Solver, Tier string
	Sets         []string // a cell each
}

// Name says which unit it is: "tworoom lewm s3072 cem T1".
func (u Unit) Name() string {
	words := []string{u.Task, u.Method}
	if u.Method != "" && u.Method != Random {
		words = append(words, fmt.Sprintf("s%d", u.Seed))
	}
	words = append(words, u.Solver, u.Tier)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// Arm is the unit's checkpoint, as a folder's name.
func (u Unit) Arm() string { return fmt.Sprintf("%s-%s-s%d", u.Task, u.Method, u.Seed) }

// Grid is what a reproduction covers: the product of its axes, of which random
// actions take part in tasks and sets only.
type Grid struct {
	Tasks, Methods []string
	Seeds          []int64
	Solvers, Tiers []string
	Sets           map[string][]string // of each task
	Tuned          bool                // the temperature of mppi is chosen first
	Shard          cell.Shard
}

// arm is a line of the grid.
type arm struct {
	task, method string
	seed         int64
}

func (g Grid) arms() []arm {
	var out []arm
	for _, task := range g.Tasks {
		for _, m := range g.Methods {
			seeds := g.Seeds
			if m == Random {
				seeds = seeds[:1]
			}
			for _, s := range seeds {
				out = append(out, arm{task, m, s})
			}
		}
	}
	return out
}

// Units lists the work of this shard in an order in which it can be done. It
// depends on nothing but the grid. Arms are dealt out to shards in turn; where
// there are more shards than arms, the shards of an arm share its cells in
// turn. Each shard lists all that its cells need, so that shards can work in
// folders of their own; in a shared folder what one has made the others find.
func (g Grid) Units() []Unit {
	arms := g.arms()
	var out []Unit
	for _, task := range g.Tasks {
		var work []Unit
		for i, a := range arms {
			if a.task == task {
				work = append(work, g.work(a, g.share(i, len(arms)))...)
			}
		}
		if len(work) > 0 {
			out = append(out, Unit{Verb: Collect, Task: task})
			out = append(out, g.tune(task, work)...)
		}
	}
	if g.Shard.N <= 1 {
		out = append(out, Unit{Verb: Report})
	}
	return out
}

// share is the part of arm i's cells that this shard does; N is 0 for none.
func (g Grid) share(i, arms int) cell.Shard {
	n := max(g.Shard.N, 1)
	if n <= arms {
		if g.Shard.Has(i) {
			return cell.Shard{N: 1}
		}
		return cell.Shard{}
	}
	if g.Shard.I%arms != i {
		return cell.Shard{}
	}
	return cell.Shard{I: g.Shard.I / arms, N: (n - i + arms - 1) / arms}
}

// work lists an arm's training and its evaluations, as far as they are ours.
func (g Grid) work(a arm, ours cell.Shard) []Unit {
	if ours.N == 0 {
		return nil
	}
	u := Unit{Verb: Evaluate, Task: a.task, Method: a.method, Seed: a.seed}
	var out []Unit
	cells := 0
	add := func() {
		u.Sets = nil
		for _, set := range g.Sets[a.task] {
			if ours.Has(cells) {
				u.Sets = append(u.Sets, set)
			}
			cells++
		}
		if len(u.Sets) > 0 {
			out = append(out, u)
		}
	}
	if a.method == Random {
		add()
		return out
	}
	for _, u.Solver = range g.Solvers {
		for _, u.Tier = range g.Tiers {
			add()
		}
	}
	if len(out) == 0 {
		return nil
	}
	return append([]Unit{{Verb: Train, Task: a.task, Method: a.method, Seed: a.seed}}, out...)
}

// tune puts the choice of mppi's temperature, and the training that it needs,
// before the work of a task that plans with it.
func (g Grid) tune(task string, work []Unit) []Unit {
	if !g.Tuned || !slices.ContainsFunc(work, func(u Unit) bool { return u.Solver == MPPI }) {
		return work
	}
	first := Unit{Verb: Train, Task: task, Method: model.Baseline, Seed: g.Seeds[0]}
	rest := slices.DeleteFunc(work, func(u Unit) bool { return u.Verb == Train && u.Arm() == first.Arm() })
	choice := first
	choice.Verb = TuneMPPI
	return append([]Unit{first, choice}, rest...)
}
