package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
	"scalewm/model"
)

// This file shows the analyses of checkpoints: the geometry of their latents, and the
// quality of their predictions.

// why returns the sections that may explain success: the paper's figures over tasks,
// and whether a measure of a checkpoint predicts how well it plans. Each figure has one
// panel for each task.
func (r *Report) why() []doc.Section {
	var arms []results.Arm
	var align, top []template.HTML
	for _, task := range infer.Tasks(r.Blocks) {
		all := r.Checkpoints(task)
		for _, c := range all {
			arms = append(arms, c.Arm)
		}
		align = append(align, r.barPanel(words.Task(task), "Spearman's ρ", -0.1, all, []bar{{"", infer.Spearman}})...)
		var bars []bar
		for _, k := range infer.ProbeSizes {
			bars = append(bars, bar{strconv.Itoa(k), infer.R2("ridge", k, "mean")})
		}
		top = append(top, r.barPanel(words.Task(task), "R²", 0, all, bars)...)
	}
	slices.SortFunc(arms, results.CompareArms)
	// One legend for all panels: the arms of any task.
	key := append(r.legend(slices.Compact(arms)), doc.Item{Name: "the paper's number", Class: "m-paper"})
	return slices.Concat(
		section(doc.Section{Title: "Geometry of the latents, over tasks", Anchor: "latents", Level: 2, Nav: "Why"},
			doc.Figure{Caption: "Alignment of latent and state distances (tab:heldout-corr), with 95 % intervals over training seeds, or with one seed from a bootstrap of episodes.", Panels: align, Legend: key},
			doc.Figure{Caption: "How well the state is read from the first 2, 4 and 8 principal components (fig:topk-probing).", Panels: top, Legend: key}),
		section(doc.Section{Title: "Whether geometry predicts planning", Anchor: "robust-foretold", Level: 3, Fold: r.folded()}, r.predictionTable(r.Groups[0])))
}

// predictionTable has the rank correlations of measures with success, for each task
// and, in the last rows, averaged over tasks (their place has no task).
func (r *Report) predictionTable(g infer.Group) doc.Table {
	t := doc.Table{Anchor: "foretold", Head: []string{"Task", "Measure", "Checkpoints", "Methods", "With success", "95 % interval", "Within methods", "95 % interval"},
		Caption: "Does a measure of a checkpoint predict how well it plans? Rank correlation over learned checkpoints of the measure with success, averaged over solvers and tiers; within methods, both as deviations from their method's mean. Intervals by Fisher's transformation. A correlation of ±1, whose transformation is infinite, is moved half a step of the ranks towards 0. The mean over tasks is that of the transformed values."}
	for _, task := range append(infer.Tasks(g.Blocks), "") {
		for _, m := range infer.Measures() {
			at := infer.Number{What: infer.Predicts(m[0]), Place: infer.Place{Task: task, Settings: g.Name}}
			all := r.Find(at)
			if all == nil {
				continue
			}
			name := "mean"
			if task != "" {
				name = words.Task(task)
			}
			at.What = infer.Within(m[0])
			within := r.Find(at)
			at.What = infer.Methods(m[0])
			t.Rows = append(t.Rows, []doc.Field{doc.Words(name), doc.Words(m[1]), count(all), whole(r.Find(at)), decimals(2)(all), intervalOf(2)(all), decimals(2)(within), intervalOf(2)(within)})
		}
	}
	return t
}

// checkpoints returns the sections on a task's checkpoints, or none if nothing was
// measured. Results that are left out are listed with their reasons.
func (r *Report) checkpoints(task string) []doc.Section {
	all := r.Checkpoints(task)
	var arms []results.Arm
	var dropped []string
	for _, c := range all {
		arms, dropped = append(arms, c.Arm), append(dropped, c.Left...)
		if c.Rollout != nil {
			for _, d := range c.Rollout.Dropped {
				dropped = append(dropped, fmt.Sprintf("%s, start %d: %s", c.Title(), d.Start, d.Reason))
			}
		}
	}
	key := r.legend(slices.Compact(arms))
	geometry := append(measured(all, func(rows []infer.Number) doc.Table { return r.rankTable(task, all, rows) }),
		doc.Figure{Caption: "Variance of the latents by principal component, as shares, both axes logarithmic; one line for each training seed.", Panels: r.spectrumFigure(all), Legend: key})
	geometry = append(geometry, measured(all, func(rows []infer.Number) doc.Table { return r.probeTable(task, all, rows) })...)
	predictions := append(measured(all, func(rows []infer.Number) doc.Table { return r.rolloutTable(task, all, rows) }), note("Starts without a result", dropped),
		doc.Figure{Caption: "Recorded episodes predicted from their recorded actions, without a simulator: squared error of the latent over that of two random ones. Dotted: the same model under another episode's actions.",
			Panels: r.dynamicsFigure(all), Legend: key})
	return slices.Concat(section(doc.Section{Title: "Geometry of the latents", Anchor: task + "-geometry", Level: 3, Fold: r.folded()}, geometry...),
		r.leverage(task, all),
		section(doc.Section{Title: "What predictions are worth", Anchor: task + "-predictions", Level: 3, Fold: r.folded()}, predictions...))
}

// ofCheckpoint returns the description under which a checkpoint's numbers are found:
// its task and settings, arm and seed.
func ofCheckpoint(c *infer.Checkpoint) infer.Number {
	return infer.Number{Source: infer.Ours, Place: c.Place(), Of: c.Arm, Seed: &c.Seed}
}

// byMethod returns the descriptions of the numbers of checkpoints as methods, one for each
// arm and settings: over all training seeds, or of the only one.
func byMethod(all []*infer.Checkpoint) (rows []infer.Number) {
	for _, c := range all {
		row := ofCheckpoint(c)
		if at := slices.IndexFunc(rows, func(o infer.Number) bool { return o.Of == row.Of && o.Place == row.Place }); at >= 0 {
			rows[at].Seed = nil
		} else {
			rows = append(rows, row)
		}
	}
	return rows
}

// bySeed returns the descriptions of the numbers of single checkpoints, one for each.
func bySeed(all []*infer.Checkpoint) (rows []infer.Number) {
	for _, c := range all {
		rows = append(rows, ofCheckpoint(c))
	}
	return rows
}

// measured returns a table of a task's checkpoints as methods and, if there are several
// training seeds, a folded one of single checkpoints. table returns the table of rows.
func measured(all []*infer.Checkpoint, table func(rows []infer.Number) doc.Table) []doc.Part {
	parts := []doc.Part{table(byMethod(all))}
	if len(byMethod(all)) < len(all) {
		t := table(bySeed(all))
		t.Anchor, t.Fold = t.Anchor+"-seeds", "Each training seed"
		parts = append(parts, t)
	}
	return parts
}

// titled returns the title of a method, with its settings.
func titled(m infer.Number) string {
	if m.Settings != "" {
		return words.Arm(m.Of) + ", " + m.Settings
	}
	return words.Arm(m.Of)
}

// titles is a column with the titles of methods or checkpoints. Published rows show the arm.
func titles(all []*infer.Checkpoint) column {
	return text("Method", func(n infer.Number) string {
		seeds := 0
		for _, c := range all {
			if c.Arm == n.Of && c.Settings == n.Settings {
				if n.Seed != nil && c.Seed == *n.Seed {
					return c.Title()
				}
				seeds++
			}
		}
		if n.Source != infer.Ours {
			return words.Arm(n.Of)
		}
		return titled(n) + ", " + words.Count(seeds, "seed")
	})
}

// rankTable has the alignment of latent and state distances, one row for each method or
// checkpoint and task state.
func (r *Report) rankTable(task string, all []*infer.Checkpoint, rows []infer.Number) doc.Table {
	var states []string
	for _, c := range all {
		for _, rank := range c.Rank {
			if q := cmp.Or(rank.Q, results.DefaultQ); !slices.Contains(states, q) {
				states = append(states, q)
			}
		}
	}
	var out doc.Table
	for _, row := range rows {
		for _, q := range states {
			// The state is part of the kind of number (see infer.Aligned), so each row needs
			// columns of its own kind.
			what := infer.Aligned(infer.Spearman, q)
			v := r.view(task+"-alignment", words.Task(task)+": do frames that are far apart in task state have latents that are far apart? Correlation of all squared distances of pairs of frames, mean ± SD over training seeds if there are several. The interval is Student's over seeds, or that of a bootstrap over episodes.",
				titles(all), text("State", func(infer.Number) string { return q }), number("Spearman", what, spreadOf(3)), number("95 % interval", what, intervalOf(3)),
				number("Pearson", infer.Aligned("pearson", q), spreadOf(3)))
			v.row(row)
			if row.What = what; r.Find(row) != nil {
				v.Rows = append(out.Rows, v.Rows...)
				out = v.Table
			}
		}
	}
	return out
}

// probeTable has the R² of the probes by number of components, next to the paper's.
func (r *Report) probeTable(task string, all []*infer.Checkpoint, rows []infer.Number) doc.Table {
	columns := []column{titles(all), source}
	for i, k := range infer.ProbeSizes {
		head := strconv.Itoa(k)
		if i == 0 {
			head += " components"
		}
		columns = append(columns, number(head, infer.R2("ridge", k, "mean"), spreadOf(3)))
	}
	v := r.view(task+"-probes", words.Task(task)+": how well the task state can be read from the first principal components and from all of them: R² on frames that the probe was not fitted on, the mean over the state's components, and mean ± SD over training seeds if there are several.",
		append(columns, number("all", infer.R2("ridge", 0, "mean"), spreadOf(3)), number("all, hidden layer", infer.R2("mlp", 0, "mean"), spreadOf(3)))...)
	for _, row := range rows {
		if row.What = infer.R2("ridge", 0, "mean"); r.Find(row) == nil {
			continue
		}
		v.row(row)
		if rows[0].Seed == nil || len(rows) == len(byMethod(all)) {
			v.published(infer.Number{Place: infer.Place{Task: task}, Of: row.Of})
		}
	}
	return v.Table
}

// componentTable has the R² of each component of the state, read from all principal
// components: one column for each method, and two rows, ours and the paper's, for
// each probe and component.
func (r *Report) componentTable(task string, all []*infer.Checkpoint) doc.Table {
	probed := slices.DeleteFunc(slices.Clone(all), func(c *infer.Checkpoint) bool { return c.Probe == nil })
	t := doc.Table{Anchor: task + "-components", Fold: words.Task(task) + ": each component of the task state", Head: []string{"Probe", "Component", "Source"},
		Caption: words.Task(task) + ": R² of each component of the task state, read from all principal components, mean ± SD over training seeds if there are several, as the paper's table tab:probing-" + task + "."}
	methods := byMethod(probed)
	for _, m := range methods {
		t.Head = append(t.Head, titled(m))
	}
	for _, probe := range [][2]string{{"ridge", "linear"}, {"mlp", "hidden layer"}} {
		var components []string
		for _, c := range probed {
			for _, s := range c.Probe.Scores {
				if s.Probe == probe[0] && !slices.Contains(components, s.Component) {
					components = append(components, s.Component)
				}
			}
		}
		for i, component := range components {
			ours := []doc.Field{doc.Words(probe[1]), doc.Words(component), doc.Words(infer.Ours)}
			theirs := []doc.Field{doc.Words(probe[1]), doc.Words(component), doc.Words(infer.Paper)}
			// The paper's tables number the components; ours have names, in the same order.
			published := component
			if component != "mean" {
				published = strconv.Itoa(i)
			}
			any := false
			for _, n := range methods {
				n.What = infer.R2(probe[0], 0, component)
				ours = append(ours, shown(r.Find(n), spreadOf(4)))
				p := infer.Number{What: infer.R2(probe[0], 0, published), Source: infer.Paper, Place: infer.Place{Task: task}, Of: n.Of}
				theirs = append(theirs, shown(r.Find(p), decimals(4)))
				p.What = infer.R2(probe[0], 0, "mean")
				any = any || r.Find(p) != nil
			}
			if t.Rows = append(t.Rows, ours); any {
				t.Rows = append(t.Rows, doc.Mute(theirs))
			}
		}
	}
	return t
}

// change is a column with the change of a number against the baseline (see changed).
func change(head, what string) column {
	return column{head, func(t *infer.Table, row infer.Number) doc.Field {
		row.What, row.Minus = what+"_change", changedFrom(t, row.Source)
		return shown(t.Find(row), changed)
	}}
}

// changedFrom returns the arm against which changes from a source are.
func changedFrom(t *infer.Table, source string) results.Arm {
	if source == infer.Ours {
		return t.Baseline
	}
	return results.Arm{Method: model.Baseline}
}

// changed formats a change: in percent, or marked with Δ if it is a difference (see infer's
// changes).
func changed(n *infer.Number) doc.Field {
	if n.Unit == "%" {
		return percent(n)
	}
	return value(func(x float64) string { return "Δ " + inUnits(x) })(n)
}

// rolloutTable has the quality of predictions, and its change against the baseline.
func (r *Report) rolloutTable(task string, all []*infer.Checkpoint, rows []infer.Number) doc.Table {
	v := r.view(task+"-rollout", words.Task(task)+": random candidates executed in the simulator and predicted by the model, mean ± SD over training seeds if there are several. Error is the squared distance of the predicted from the reached latent over that of two reached ones (lower is better); "+
		"τ measures how similarly predicted and reached latents order the candidates; the last two compare latents with the distance from the goal in the simulator. Changes are against "+words.Arm(r.Baseline)+
		" of the same training seed, p is Wilcoxon's over the starts of one seed; the paper's p is from its authors' files.",
		titles(all), source, number("Starts", "rollout_starts", whole), number("Error", infer.RolloutError, spreadOf(4)), change("Change", infer.RolloutError), number("Kendall's τ", infer.Tau, spreadOf(4)), change("Change", infer.Tau),
		column{"p", func(t *infer.Table, row infer.Number) doc.Field {
			row.What, row.Minus = infer.Tau+"_change", changedFrom(t, row.Source)
			return shown(t.Find(row), pvalue)
		}}, number("Encoded, physical τ", "tau_of_encoded", spreadOf(4)), number("Predicted, physical τ", "tau_of_predicted", spreadOf(4)))
	for i, row := range rows {
		if row.What = infer.RolloutError; r.Find(row) == nil {
			continue
		}
		// The published row follows the last row of an arm.
		if v.row(row); i+1 == len(rows) || rows[i+1].Of != row.Of {
			v.published(infer.Number{Place: infer.Place{Task: task}, Of: row.Of})
		}
	}
	return v.Table
}

// spectrumFigure draws the share of the variance of each principal component, on
// logarithmic axes. Shares below 1e-7 are left out: they are rounding errors.
func (r *Report) spectrumFigure(all []*infer.Checkpoint) []template.HTML {
	lo, hi, n := math.Inf(1), 0.0, 0
	var curves []doc.Curve
	for _, c := range all {
		if c.Spectrum == nil {
			continue
		}
		curve := doc.Curve{Class: "curve thin " + r.class(c.Arm)}
		for i, v := range c.Spectrum.Eigenvalues {
			if lo, hi = min(lo, v), max(hi, v); v >= 1e-7 {
				curve.Points = append(curve.Points, doc.XY(float64(i+1), v))
			}
		}
		n, curves = max(n, len(c.Spectrum.Eigenvalues)), append(curves, curve)
	}
	if n < 2 {
		return nil
	}
	// On logarithmic axes a power law is a straight line, and small shares remain visible.
	return []template.HTML{doc.Plot{Label: "spectrum of the latents: share of the variance by component", Head: "share of the variance", Base: "component", W: 480, H: 300,
		X: doc.Axis{Lo: 1, Hi: float64(n), Log: true}, Y: doc.Axis{Lo: max(lo, 1e-7) / 1.1, Hi: hi * 1.1, Log: true}, Curves: curves}.HTML()}
}

// dynamicsFigure draws prediction errors against the number of blocks ahead.
func (r *Report) dynamicsFigure(all []*infer.Checkpoint) []template.HTML {
	hi, blocks := 0.0, 0
	var curves []doc.Curve
	for _, c := range all {
		if c.Dynamics == nil {
			continue
		}
		own, others := doc.Curve{Class: "curve thin " + r.class(c.Arm)}, doc.Curve{Class: "curve dotted " + r.class(c.Arm)}
		for _, b := range c.Dynamics.PerBlock {
			hi, blocks = max(hi, b.Error, b.OtherActions), max(blocks, b.Blocks)
			own.Points, others.Points = append(own.Points, doc.XY(float64(b.Blocks), b.Error)), append(others.Points, doc.XY(float64(b.Blocks), b.OtherActions))
		}
		curves = append(curves, own, others)
	}
	if blocks < 2 {
		return nil
	}
	return []template.HTML{doc.Plot{Label: "error of predicted latents by blocks ahead", Head: "error of the latent", Base: "blocks of 5 steps ahead", W: 480, H: 300,
		X: doc.Axis{Lo: 1, Hi: float64(blocks)}, Y: doc.ValueAxis(0, hi), XTicks: blocks, Curves: curves}.HTML()}
}

// bar is one number of each method, drawn as a group of bars with a label.
type bar struct{ label, what string }

// barPanel draws numbers of a task's methods as bars, grouped by label, with their
// intervals and with the paper's numbers as lines across. The y axis is from least to
// 1.
func (r *Report) barPanel(title, what string, least float64, all []*infer.Checkpoint, bars []bar) []template.HTML {
	var groups []doc.BarGroup
	for _, b := range bars {
		group := doc.BarGroup{Label: b.label}
		for _, n := range byMethod(all) {
			if n.What = b.what; r.Find(n) == nil || r.Find(n).Value == nil {
				continue
			}
			e := r.Find(n).Estimate()
			paper := r.Find(infer.Number{What: b.what, Source: infer.Paper, Place: infer.Place{Task: n.Task}, Of: n.Of})
			group.Bars = append(group.Bars, doc.Bar{Value: e.Value, Lo: e.Lo, Hi: e.Hi, Across: paper.Estimate().Value, Class: r.class(n.Of)})
		}
		if len(group.Bars) > 0 {
			groups = append(groups, group)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	return []template.HTML{doc.Bars(title+": "+what, title+": "+what+" by method, next to the paper's", doc.Axis{Lo: least, Hi: 1}, groups)}
}
