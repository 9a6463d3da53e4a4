package report

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/model"
)

// The claims of the paper, and what the folder's numbers say of each.

//go:embed claims.json
var claimsJSON []byte

// Claim is a sentence of the paper and how it is decided.
type Claim struct {
	ID    string `json:"id"`
	Claim string `json:"claim"`
	Where string `json:"where"` // in the paper
	Line  int    `json:"line"`  // of its LaTeX source,
	Mark  string `json:"mark"`  // which has these words
	// Measure names the numbers that decide it, those of A minus those of each B.
	Measure string     `json:"measure"`
	A       string     `json:"a"`
	B       []string   `json:"b"`
	Need    infer.Need `json:"need"`
	// Want is what the numbers shall be by task, "*" standing for all: "up", "down", "same" (within the
	// margin of 0), "> x", "< x", or a number, within the margin of it.
	Want   map[string]string `json:"want"`
	Margin float64           `json:"margin"`
	Make   string            `json:"make"` // flags of `reproduce` that make what is missing
}

// claims are those of the paper.
var claims = func() []Claim {
	var all struct {
		Claims []Claim `json:"claims"`
	}
	if err := json.Unmarshal(claimsJSON, &all); err != nil {
		panic(fmt.Sprintf("report: the embedded claims.json: %v", err))
	}
	return all.Claims
}()

// allows is the range that a claim wants of a task's numbers; false where it does not
// speak of the task.
func (c Claim) allows(task string) (r infer.Range, ok bool) {
	want, ok := c.Want[task]
	if !ok {
		if want, ok = c.Want["*"]; !ok {
			return r, false
		}
	}
	none := math.Inf(1)
	limit := func(sign string) float64 { x, _ := strconv.ParseFloat(strings.TrimPrefix(want, sign), 64); return x }
	switch {
	case want == "up":
		return infer.Range{Lo: 0, Hi: none}, true
	case want == "down":
		return infer.Range{Lo: -none, Hi: 0}, true
	case want == "same":
		return infer.Range{Lo: -c.Margin, Hi: c.Margin}, true
	case want[0] == '>':
		return infer.Range{Lo: limit("> "), Hi: none}, true
	case want[0] == '<':
		return infer.Range{Lo: -none, Hi: limit("< ")}, true
	}
	return infer.Range{Lo: limit("") - c.Margin, Hi: limit("") + c.Margin}, true
}

// part is one of the numbers that a claim is about.
type part struct {
	name string // a task, or more
	task string
	infer.Estimate
	n       string // what it is taken over
	missing bool
	at      string // anchor of the section that has it
	stand   infer.Verdict
}

// Finding is a claim and what the folder says of it.
type Finding struct {
	Claim
	Verdict infer.Verdict
	parts   []part
	unit    func(float64) string
}

// measure is how a kind of number is taken and written.
type measure struct {
	parts func(e evidence, c Claim, b string) []part
	unit  func(float64) string
}

func inPoints(x float64) string  { return signed(x) }
func inUnits(x float64) string   { return strings.Replace(fmt.Sprintf("%+.3f", x), "-", "−", 1) }
func inTimes(x float64) string   { return fmt.Sprintf("%.2f×", x) }
func plainUnit(x float64) string { return strings.Replace(fmt.Sprintf("%.3f", x), "-", "−", 1) }

// measures are all kinds of numbers that claims are about.
var measures = map[string]measure{
	"averages":           {evidence.averages, inPoints},
	"icem":               {evidence.underICEM, inPoints},
	"tiers":              {evidence.tiers, inPoints},
	"tasks":              {evidence.tasks, inPoints},
	"selection":          {evidence.selection, inPoints},
	"alignment":          {evidence.alignment, inUnits},
	"ranking":            {evidence.ranking, inUnits},
	"rollout error":      {evidence.rolloutError, inUnits},
	"worst component":    {evidence.worstComponent, plainUnit},
	"leading variance":   {ofCheckpoints(leadingVariance), inUnits},
	"leading components": {ofCheckpoints(leadingComponents), inUnits},
	"all components":     {ofCheckpoints(allComponents), inUnits},
	"training time":      {ratioOf(trainingTime), inTimes},
	"planning time":      {ratioOf(planningTime), inTimes},
	"planning work":      {ratioOf(planningWork), inTimes},
}

// evidence is what claims are decided by.
type evidence struct {
	*Group
	measured map[string][]*measured // by task
}

// findings decides the claims by the numbers of the first group.
func (r *Report) findings() (out []Finding) {
	e := evidence{&r.Groups[0], map[string][]*measured{}}
	for _, t := range published.Tables {
		e.measured[t.Task] = r.measuredOn(t.Task)
	}
	for _, c := range claims {
		m := measures[c.Measure]
		f := Finding{Claim: c, unit: m.unit}
		for _, b := range c.B {
			for _, p := range m.parts(e, c, b) {
				if len(c.B) > 1 {
					p.name += " against " + armTitle(b)
				}
				f.parts = append(f.parts, p)
			}
		}
		var stands []infer.Verdict
		for i := range f.parts {
			p := &f.parts[i]
			p.stand, p.missing = infer.Undecided, p.missing || math.IsNaN(p.Value) || math.IsInf(p.Value, 0)
			if allowed, _ := c.allows(p.task); !p.missing {
				p.stand = p.Stand(allowed, len(f.parts))
			}
			stands = append(stands, p.stand)
		}
		f.Verdict = c.Need.Decide(stands)
		out = append(out, f)
	}
	return out
}

// ofTasks are the tasks of the paper that a claim speaks of.
func (c Claim) ofTasks() (out []string) {
	for _, t := range published.Tables {
		if _, ok := c.allows(t.Task); ok {
			out = append(out, t.Task)
		}
	}
	return out
}

// difference is a part from a paired difference, which may be missing. Its interval covers the choice of
// episodes, and with several training seeds, whose differences are given too, their luck instead.
func difference(name, task, at string, d *infer.Difference, bySeed []float64) part {
	p := part{name: name, task: task, at: at, missing: d == nil}
	switch {
	case d == nil:
	case len(bySeed) > 1:
		p.Estimate, p.n = infer.MeanOf(bySeed), count(len(bySeed), "training seed")
	default:
		p.Estimate, p.n = infer.Estimate{Value: d.Diff, Lo: d.Lo, Hi: d.Hi}, count(d.N, "episode")
	}
	return p
}

// averages are the differences of every task and solver, averaged over tiers.
func (e evidence) averages(c Claim, b string) (out []part) {
	for _, task := range c.ofTasks() {
		for _, solver := range solversOf {
			out = append(out, e.average(task, solver, c.A, b))
		}
	}
	return out
}

func (e evidence) average(task, solver, a, b string) part {
	name := taskName(task) + ", " + solverNames[solver]
	for _, block := range e.Blocks {
		for _, p := range block.Pairs {
			if block.Task == task && block.Solver == solver && p.A == a && p.B == b {
				_, bySeed := seedPoints(map[string]*Block{solver: block}, []string{solver}, a, b)
				return difference(name, task, block.anchor()+"-paired", p.Mean, bySeed)
			}
		}
	}
	return difference(name, task, "", nil, nil)
}

func (e evidence) underICEM(c Claim, b string) (out []part) {
	for _, task := range c.ofTasks() {
		out = append(out, e.average(task, results.ICEM, c.A, b))
	}
	return out
}

// tiers are the differences at each tier, averaged over tasks and solvers, by set, and by training seed where
// all cells have the same several ones.
func (e evidence) tiers(c Claim, b string) (out []part) {
	for _, tier := range published.Tiers {
		var cells []map[string]float64
		bySeed := map[int][]float64{}
		for _, block := range e.Blocks {
			d := block.setDifferences(tier, c.A, b)
			if len(d) == 0 || !slices.Contains(solversOf, block.Solver) {
				continue
			}
			cells = append(cells, d)
			seeds, x := seedPoints(map[string]*Block{block.Solver: block}, []string{block.Solver}, c.A, b, block.Solver+" "+tier)
			for i, seed := range seeds {
				bySeed[seed] = append(bySeed[seed], x[i])
			}
		}
		p := part{name: tier, task: "*", missing: true, at: "everything"}
		if t, ok := infer.TestSets(cells); ok {
			p.missing, p.Estimate, p.n = false, infer.MeanOf(t.Points), count(len(t.Sets), "set")
			var x []float64
			for _, v := range bySeed {
				if len(v) == len(cells) {
					x = append(x, mean(v))
				}
			}
			if slices.Sort(x); len(x) > 1 {
				p.Estimate, p.n = infer.MeanOf(x), count(len(x), "training seed")
			}
			p.n += ", " + count(t.Cells, "cell")
		}
		out = append(out, p)
	}
	return out
}

// tasks are the differences over all cells of a task.
func (e evidence) tasks(c Claim, b string) (out []part) {
	for _, task := range c.ofTasks() {
		p := difference(taskName(task), task, "", nil, nil)
		for _, t := range e.SetTests {
			if t.Task == task && t.A == c.A && t.B == b {
				_, bySeed := seedPoints(tested(e.Blocks, task), solversOf, c.A, b)
				p = difference(taskName(task), task, "everything", t.Pooled, bySeed)
			}
		}
		out = append(out, p)
	}
	return out
}

// selection is the same with gradient descent as a fourth solver.
func (e evidence) selection(c Claim, b string) (out []part) {
	for _, task := range c.ofTasks() {
		of := tested(e.Blocks, task)
		t, _ := setTest(of, fourSolvers, c.A, b, infer.Options{})
		_, bySeed := seedPoints(of, fourSolvers, c.A, b)
		out = append(out, difference(taskName(task), task, "everything", t.Pooled, bySeed))
	}
	return out
}

// of lists what was measured of an arm on a task, a training seed and data set each, that has what is asked for.
func (e evidence) of(task, arm string, has func(*measured) bool) (out []*measured) {
	type place struct {
		seed int
		data string
	}
	seen := map[place]bool{}
	for _, m := range e.measured[task] {
		if p := (place{m.seed, m.data}); m.method == arm && has(m) && !seen[p] {
			seen[p] = true
			out = append(out, m)
		}
	}
	return out
}

// both lists the pairs of an arm's and another's checkpoints of equal training seeds on one
// data set, a pair a seed.
func (e evidence) both(task, a, b string, has func(*measured) bool) (out [][2]*measured) {
	seeds := map[int]bool{}
	for _, x := range e.of(task, a, has) {
		for _, y := range e.of(task, b, has) {
			if x.seed == y.seed && x.data == y.data && !seeds[x.seed] {
				seeds[x.seed] = true
				out = append(out, [2]*measured{x, y})
			}
		}
	}
	return out
}

// alignment is the difference of the rank correlations of one checkpoint each, or the
// mean over training seeds where there are several.
func (e evidence) alignment(c Claim, b string) (out []part) {
	for _, task := range c.ofTasks() {
		var diffs []infer.Estimate
		for _, x := range e.both(task, c.A, b, func(m *measured) bool { return len(m.Rank) > 0 }) {
			diffs = append(diffs, rho(x[0]).Minus(rho(x[1])))
		}
		out = append(out, overSeeds(task, "-geometry", diffs, "bootstrap of episodes"))
	}
	return out
}

func rho(m *measured) infer.Estimate {
	r := m.Rank[0] // against the full state
	return infer.Estimate{Value: float64(r.Spearman), Lo: float64(r.Lo), Hi: float64(r.Hi)}
}

// overSeeds is the mean over training seeds, or what there is of the only one.
func overSeeds(task, section string, x []infer.Estimate, of string) part {
	p := part{name: taskName(task), task: task, missing: len(x) == 0, at: task + section}
	switch len(x) {
	case 0:
	case 1:
		p.Estimate, p.n = x[0], "1 training seed"
		if of != "" {
			p.n += ", " + of
		}
	default:
		var values []float64
		for _, e := range x {
			values = append(values, e.Value)
		}
		p.Estimate, p.n = infer.MeanOf(values), count(len(x), "training seed")
	}
	return p
}

// ofCheckpoints takes a number of each checkpoint that has no interval of its own:
// training seeds give it one.
func ofCheckpoints(number func(*measured) float64) func(evidence, Claim, string) []part {
	return func(e evidence, c Claim, b string) (out []part) {
		for _, task := range c.ofTasks() {
			var diffs []infer.Estimate
			for _, x := range e.both(task, c.A, b, func(m *measured) bool { return !math.IsNaN(number(m)) }) {
				diffs = append(diffs, lone(number(x[0])-number(x[1])))
			}
			out = append(out, overSeeds(task, "-geometry", diffs, "no interval"))
		}
		return out
	}
}

// lone is a number without an interval.
func lone(x float64) infer.Estimate {
	return infer.Estimate{Value: x, Lo: math.NaN(), Hi: math.NaN()}
}

// leadingVariance is the share of the variance in the first 8 directions.
func leadingVariance(m *measured) float64 {
	if m.Spectrum == nil {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range m.Spectrum.Eigenvalues[:min(8, len(m.Spectrum.Eigenvalues))] {
		sum += v
	}
	return sum
}

// leadingComponents is R² from the first 2, 4 and 8 components, averaged.
func leadingComponents(m *measured) float64 {
	sum := 0.0
	for _, k := range probeSizes {
		sum += m.r2("ridge", k, "mean")
	}
	return sum / float64(len(probeSizes))
}

func allComponents(m *measured) float64 { return m.r2("ridge", 0, "mean") }

// worstComponent is the least R² of a component of the state, of either arm.
func (e evidence) worstComponent(c Claim, b string) (out []part) {
	for _, arm := range []string{c.A, b} {
		for _, task := range c.ofTasks() {
			var least []infer.Estimate
			for _, m := range e.of(task, arm, func(m *measured) bool { return m.Probe != nil }) {
				worst := math.Inf(1)
				for _, s := range m.Probe.Scores {
					if v := m.r2("ridge", 0, s.Component); s.Component != "mean" && v < worst { // NaN is not
						worst = v
					}
				}
				least = append(least, lone(worst))
			}
			p := overSeeds(task, "-geometry", least, "no interval")
			p.name += ", " + armTitle(arm)
			out = append(out, p)
		}
	}
	return out
}

// ranking is the difference of Kendall's τ, start by start.
func (e evidence) ranking(c Claim, b string) []part {
	return e.byStart(c, b, func(m *measured, i int) float64 { return m.Rollout.PerStart[i].Tau })
}

// rolloutError is the difference of the rollout error, each in units of its own latents'.
func (e evidence) rolloutError(c Claim, b string) []part {
	return e.byStart(c, b, func(m *measured, i int) float64 { return m.Rollout.PerStart[i].Error / m.Rollout.Scale })
}

// byStart pairs the starts of rollouts; of several training seeds each is a unit, with the mean of its starts.
func (e evidence) byStart(c Claim, b string, number func(m *measured, i int) float64) (out []part) {
	for _, task := range c.ofTasks() {
		var seeds []infer.Estimate
		starts := 0
		for _, x := range e.both(task, c.A, b, func(m *measured) bool { return m.Rollout != nil }) {
			var diffs []float64
			for i, s := range x[0].Rollout.PerStart {
				for j, t := range x[1].Rollout.PerStart {
					if s.Start == t.Start {
						diffs = append(diffs, number(x[0], i)-number(x[1], j))
					}
				}
			}
			if starts = len(diffs); starts > 0 {
				seeds = append(seeds, infer.MeanOf(diffs))
			}
		}
		out = append(out, overSeeds(task, "-predictions", seeds, count(starts, "start")))
	}
	return out
}

// ratioOf takes the ratio of what checkpoints cost, the mean over tasks.
func ratioOf(cost func(*measured) float64) func(evidence, Claim, string) []part {
	return func(e evidence, c Claim, b string) []part {
		var ratios []float64
		for _, task := range c.ofTasks() {
			for _, x := range e.both(task, c.A, b, func(m *measured) bool { return cost(m) > 0 }) {
				ratios = append(ratios, cost(x[0])/cost(x[1]))
				break // seeds cost the same
			}
		}
		p := part{name: "Mean over tasks", task: "*", missing: len(ratios) == 0, at: "cost"}
		if p.n = count(len(ratios), "task"); !p.missing {
			p.Estimate = infer.MeanOf(ratios)
			if len(ratios) == 1 {
				p.n += ", no interval"
			}
		}
		return []part{p}
	}
}

func trainingTime(m *measured) float64 {
	if m.Cost == nil || m.Cost.Times == nil || m.Cost.Times.Step == nil {
		return math.NaN()
	}
	return m.Cost.Times.Step.EpochSeconds
}

// planningTime is the seconds of a plan, summed over tiers.
func planningTime(m *measured) float64 {
	if m.Cost == nil || m.Cost.Times == nil || len(m.Cost.Times.Plans) == 0 {
		return math.NaN()
	}
	return m.Cost.Times.Plans[len(m.Cost.Times.Plans)-1].Seconds
}

// planningWork is the operations of a plan, summed over tiers.
func planningWork(m *measured) float64 {
	if m.Cost == nil || len(m.Cost.Tiers) == 0 {
		return math.NaN()
	}
	return m.Cost.Tiers[len(m.Cost.Tiers)-1].FLOP
}

// claimList is the chapter of the paper's claims.
func (r *Report) claimList() []Section {
	found := r.Findings
	n := map[infer.Verdict]int{}
	list, silent := Text{Style: "claims"}, Text{Style: "claims"}
	for _, f := range found {
		n[f.Verdict]++
		if i := f.item(); i.Text != "" {
			list.Items = append(list.Items, i)
		} else {
			silent.Items = append(silent.Items, i)
		}
	}
	list.Body = fmt.Sprintf("%d claims, judged by the models of this folder: %d hold, %d fail, %d are undecided.", len(found), n[infer.Holds], n[infer.Fails], n[infer.Undecided])
	if r.Groups[0].Name != "" {
		list.Body += " The numbers are those under " + r.Groups[0].Name + "."
	}
	rule := Text{Style: "note", Body: "A claim holds where the 95 % interval of every number that it is about lies where it says, and fails where one lies elsewhere even when it is widened for the number of numbers. " +
		"What follows by algebra, as the leverage of a direction from its variance, is no claim about data and not listed."}
	parts := []Part{list, rule}
	if k := len(silent.Items); k > 0 {
		silent.Fold = count(k, "claim") + " of which the folder says nothing"
		parts = append(parts, silent)
	}
	if makes := toMake(found); makes.Body != "" {
		parts = append(parts, makes)
	}
	return []Section{{Title: "What the paper claims, and what is found here", Anchor: "claims", Level: 2, Nav: "Claims", Parts: parts}}
}

// weight orders what stands against a claim before what is open and what stands for it.
var weight = map[infer.Verdict]int{infer.Fails: 0, infer.Undecided: 1, infer.Holds: 2}

// slack is how far a number's interval, or without one the number, lies within what the claim allows.
func (f Finding) slack(p part) float64 {
	allowed, _ := f.allows(p.task)
	lo, hi := p.Lo, p.Hi
	if !(lo <= hi) {
		lo, hi = p.Value, p.Value
	}
	return min(lo-allowed.Lo, allowed.Hi-hi)
}

// here are the numbers that are there, the telling one first: one against the claim, or
// else an open one; of several the worst.
func (f Finding) here() []part {
	there := slices.DeleteFunc(slices.Clone(f.parts), func(p part) bool { return p.missing })
	slices.SortStableFunc(there, func(a, b part) int {
		return cmp.Or(weight[a.stand]-weight[b.stand], cmp.Compare(f.slack(a), f.slack(b)))
	})
	return there
}

// item is a finding as the list shows it, without a text where there are no numbers.
func (f Finding) item() Item {
	i := Item{Name: f.Claim.Claim, Value: string(f.Verdict), Class: string(f.Verdict), Source: f.Where}
	here := f.here()
	if len(here) == 0 {
		return i
	}
	stands := map[infer.Verdict]int{}
	for _, p := range here {
		stands[p.stand]++
	}
	telling := here[0]
	i.Text = telling.name + " " + f.unit(telling.Value)
	if telling.Lo <= telling.Hi {
		i.Text += " (" + f.unit(telling.Lo) + " to " + f.unit(telling.Hi) + ")"
	}
	i.Text += ", " + telling.n + "."
	if len(f.parts) > 1 {
		i.Text += fmt.Sprintf(" Of %d numbers %d as claimed, %d otherwise, %d open", len(f.parts), stands[infer.Holds], stands[infer.Fails], stands[infer.Undecided])
		if missing := len(f.parts) - len(here); missing > 0 {
			i.Text += fmt.Sprintf(", %d missing", missing)
		}
		i.Text += "."
	}
	i.Link = telling.at
	return i
}

// toMake lists commands that make what undecided claims lack, one for each kind of work.
func toMake(found []Finding) Text {
	out := Text{Style: "commands", Title: "What would decide more"}
	type work struct{ tasks, methods []string }
	by := map[string]*work{}
	var order []string
	absent := map[string]bool{}
	for _, f := range found {
		for _, p := range f.parts {
			if !p.missing || f.Verdict != infer.Undecided {
				continue
			}
			w := by[f.Make]
			if w == nil {
				w = &work{}
				by[f.Make], order = w, append(order, f.Make)
			}
			for _, t := range f.ofTasks() {
				if p.task == t || p.task == "*" {
					w.tasks = append(w.tasks, t)
				}
			}
			for _, arm := range append([]string{f.A}, f.B...) {
				name := infer.MethodOf(arm).Name
				if _, err := model.LookUp(name); err != nil {
					absent[methodName(name)] = true
					continue
				}
				w.methods = append(w.methods, name)
			}
		}
	}
	for _, flags := range order {
		w := by[flags]
		slices.SortFunc(w.tasks, compareTasks)
		slices.SortFunc(w.methods, model.CompareMethods)
		if slices.ContainsFunc(w.methods, func(name string) bool { return model.MethodOf(name).Pretrained }) {
			flags += " --backbone FILE"
		}
		out.Items = append(out.Items, Item{Text: fmt.Sprintf("scalewm reproduce --tasks %s --methods %s %s --out DIR", strings.Join(slices.Compact(w.tasks), ","), strings.Join(slices.Compact(w.methods), ","), flags)})
	}
	if len(out.Items) > 0 {
		out.Body = "Numbers of one checkpoint have no interval of their own; --seeds with two or more training seeds gives them one."
	}
	if len(absent) > 0 {
		out.Body = strings.TrimSpace("This program has no " + listing(slices.Sorted(maps.Keys(absent))) + ". " + out.Body)
	}
	return out
}
