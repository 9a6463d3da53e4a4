package report

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"scalewm/eval/record"
)

// place is where a cell stands in the grid. The random floor has neither
// solver nor tier and stands in every block of its task.
type place struct {
	task, method string
	seed         int
	solver, tier string
	set          string
}

// grid finds cells by place.
type grid struct {
	cells  map[place]record.Cell
	places []place // in the order of the cells' IDs
	runs   map[string]record.Run
}

// Build computes the report of a folder. It fails where there is nothing to
// report or two protocols are mixed; everything less becomes a warning.
func Build(d *Data) (*Report, error) {
	if len(d.Cells) == 0 {
		return nil, errors.New("report: the folder holds no evaluation cells (hint: run `scalewm reproduce` or `scalewm eval` into it first)" + because(d.Problems))
	}
	protocol, err := oneProtocol(d.Cells)
	if err != nil {
		return nil, err
	}
	g, doubles := newGrid(d)
	r := &Report{Protocol: protocol, Training: d.Training, Clips: d.Clips, Success: d.Success, Origin: originOf(d)}
	r.Warnings = slices.Concat(r.Warnings, d.Problems, doubles, g.leaveOutTuning())
	for _, k := range g.blocks() {
		r.Blocks = append(r.Blocks, g.block(k[0], k[1]))
	}
	if len(r.Blocks) == 0 {
		return nil, errors.New("report: the folder holds cells of the random floor only (hint: evaluate a trained method, `scalewm eval --help`)")
	}
	adjust(r.Blocks)
	r.Lines, r.Aggregates = setLines(r.Blocks), aggregates(r.Blocks)
	r.Checks = append([]Check{checkRender(d.Gates)}, g.checks(r)...)
	r.Warnings = append(r.Warnings, warnings(r)...)
	return r, nil
}

func because(problems []string) string {
	if len(problems) == 0 {
		return ""
	}
	return "; unusable: " + strings.Join(problems, "; ")
}

func oneProtocol(cells []record.Cell) (string, error) {
	seen := map[string]bool{}
	for _, c := range cells {
		seen[c.Spec.Protocol] = true
	}
	ps := slices.Sorted(maps.Keys(seen))
	if len(ps) > 1 {
		return "", fmt.Errorf("report: the folder mixes the protocols %s, whose numbers do not compare (hint: keep one folder a protocol)", strings.Join(ps, " and "))
	}
	return ps[0], nil
}

// newGrid places the cells. Where two stand in one place (a model was trained
// again, say) the one measured last is kept, and the rest are counted.
func newGrid(d *Data) (*grid, []string) {
	g := &grid{cells: map[place]record.Cell{}, runs: d.Runs}
	stale := map[string]int{}
	heated := heatedTasks(d.Cells)
	for _, c := range d.Cells {
		for _, solver := range solversOf(c, heated) {
			p := place{c.Spec.Task, c.Spec.Method, c.Spec.TrainSeed, solver, c.Spec.Tier, c.Spec.Set}
			old, taken := g.cells[p]
			if taken {
				stale[methodName(p.method)+" on "+taskName(p.task)]++
			} else {
				g.places = append(g.places, p)
			}
			if !taken || d.Runs[c.ID].Started >= d.Runs[old.ID].Started {
				g.cells[p] = c
			}
		}
	}
	var warn []string
	for _, arm := range slices.Sorted(maps.Keys(stale)) {
		warn = append(warn, fmt.Sprintf("%s: %s left out, since a later one stands in the same place (task, seed, solver, tier, set) with other weights or settings", arm, count(stale[arm], "cell")))
	}
	return g, warn
}

// blocks lists the (task, solver) pairs that hold a method with a solver.
func (g *grid) blocks() [][2]string {
	seen := map[[2]string]bool{}
	for p := range g.cells {
		if p.method != random {
			seen[[2]string{p.task, p.solver}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b [2]string) int {
		if c := byOrder(taskOrder, a[0], b[0]); c != 0 {
			return c
		}
		return strings.Compare(a[1], b[1])
	})
}

// block gathers the arms of one task and solver and pairs them.
func (g *grid) block(task, solver string) Block {
	b := Block{Task: task, Solver: solver, Tiers: g.tiers(task, solver)}
	type arm struct {
		method string
		seed   int
	}
	arms, sets := map[arm]bool{}, map[string]bool{}
	for p := range g.cells {
		if p.task == task && (p.solver == solver || p.method == random) {
			arms[arm{p.method, p.seed}] = true
		}
		if p.task == task && p.solver == solver { // not of the floor alone
			sets[p.set] = true
		}
	}
	b.Sets = slices.Sorted(maps.Keys(sets))
	for _, a := range slices.SortedFunc(maps.Keys(arms), func(x, y arm) int {
		if c := byOrder(methodOrder, x.method, y.method); c != 0 {
			return c
		}
		return x.seed - y.seed
	}) {
		b.Arms = append(b.Arms, g.arm(&b, a.method, a.seed))
	}
	b.Pairs = g.pairs(&b)
	return b
}

// tiers lists the tiers of a block, most compute first.
func (g *grid) tiers(task, solver string) []Tier {
	found := map[string]Tier{}
	millis := map[string][]float64{}
	for _, p := range g.places {
		if p.task != task || p.solver != solver || p.method == random {
			continue
		}
		c := g.cells[p]
		s := c.Spec
		found[p.tier] = Tier{Name: s.Tier, Candidates: s.Candidates, Iterations: s.Iterations, Elites: s.Elites,
			Horizon: s.Horizon, Budget: s.Budget, GoalOffset: s.GoalOffset, Episodes: s.Episodes}
		if ms := g.runs[c.ID].PlanMillis; ms > 0 {
			millis[p.tier] = append(millis[p.tier], ms)
		}
	}
	var ts []Tier
	for n, t := range found {
		t.PlanMillis = median(millis[n])
		ts = append(ts, t)
	}
	sort.Slice(ts, func(i, j int) bool {
		if a, b := ts[i].Rollouts(), ts[j].Rollouts(); a != b {
			return a > b
		}
		return ts[i].Name < ts[j].Name
	})
	return ts
}

// at finds a cell; the random floor is found under every solver and tier.
func (g *grid) at(p place) (record.Cell, bool) {
	if p.method == random {
		p.solver, p.tier = "", ""
	}
	c, ok := g.cells[p]
	return c, ok
}

// arm scores one trained model (or floor) at every tier it has.
func (g *grid) arm(b *Block, method string, seed int) Arm {
	a := Arm{Method: method, Seed: seed, Scores: map[string]Score{}}
	weights := map[string]bool{}
	for _, t := range b.Tiers {
		var cells []record.Cell
		for _, set := range b.Sets {
			if c, ok := g.at(place{b.Task, method, seed, b.Solver, t.Name, set}); ok {
				cells = append(cells, c)
				weights[c.Spec.Weights] = true
			}
		}
		if len(cells) > 0 {
			a.Scores[t.Name] = scoreOf(t.Name, cells)
		}
	}
	a.Weights = slices.Sorted(maps.Keys(weights))
	a.Mean = meanScore(b.Tiers, a.Scores)
	return a
}
