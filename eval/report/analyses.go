package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/eval/stats"
	"scalewm/model"
)

// What was measured of checkpoints beside their success: the geometry of their
// latents, and what their predictions are worth.

// measured are all analyses of one checkpoint on one kind of device.
type measured struct {
	name, method string // or a variant of a method
	seed         int
	protocol     string
	weights      string
	device       string
	data         string   // fingerprint of the data set
	left         []string // what was measured and is not shown, and why
	results.Results
}

// take adds a result. Of rollouts under several settings the one with the most candidates
// in all stays.
func (m *measured) take(r results.Results) {
	if old := m.Rollout; old != nil && r.Rollout != nil {
		few, many := r.Rollout, old
		if few.Starts*few.Candidates > many.Starts*many.Candidates {
			few, many = many, few
		}
		r.Rollout = many
		m.left = append(m.left, fmt.Sprintf("%s: a rollout of %s with %d candidates stands behind that of %d with %d", m.name, count(few.Starts, "start"), few.Candidates, many.Starts, many.Candidates))
	}
	m.Merge(r)
}

// measuredOn gathers the analyses of a task's checkpoints in the order of tables.
// Names say the seed, the weights and the device where the method alone does not.
func (r *Report) measuredOn(task string) []*measured {
	type key struct {
		arm                       string
		seed                      int
		protocol, weights, device string
		data                      string
	}
	found := map[key]*measured{}
	var all []*measured
	for _, a := range r.Analyses {
		s := a.Spec
		if s.Task != task {
			continue
		}
		arm := infer.ArmName(results.Spec{Task: s.Task, Method: s.Method, Q: s.Q, LossWeight: s.LossWeight})
		k := key{arm, s.TrainSeed, s.Protocol, s.Weights, s.Device, s.Data}
		m := found[k]
		if m == nil {
			m = &measured{name: armTitle(arm), method: arm, seed: s.TrainSeed, protocol: s.Protocol, weights: s.Weights, device: s.Device, data: s.Data}
			found[k], all = m, append(all, m)
		}
		m.take(a.Results)
	}
	slices.SortFunc(all, func(a, b *measured) int {
		return cmp.Or(compareArms(a.method, b.method), a.seed-b.seed, cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.weights, b.weights), cmp.Compare(a.device, b.device), cmp.Compare(a.data, b.data))
	})
	differ := func(m *measured, of func(*measured) string) bool {
		return slices.ContainsFunc(all, func(o *measured) bool { return o.method == m.method && of(o) != of(m) })
	}
	for _, m := range all {
		if differ(m, func(o *measured) string { return fmt.Sprint(o.seed) }) {
			m.name += fmt.Sprintf(", seed %d", m.seed)
		}
		if differ(m, func(o *measured) string { return o.protocol }) {
			m.name += ", " + m.protocol
		}
		if differ(m, func(o *measured) string { return fmt.Sprint(o.seed, o.protocol, o.weights) }) && !differ(m, func(o *measured) string { return fmt.Sprint(o.seed, o.protocol) }) {
			m.name += fmt.Sprintf(", weights %.8s", m.weights)
		}
		if differ(m, func(o *measured) string { return o.device }) {
			m.name += ", " + m.device
		}
		if slices.ContainsFunc(all, func(o *measured) bool { return o.data != m.data }) {
			m.name += fmt.Sprintf(", data set %.8s", m.data)
		}
	}
	return all
}

// analyses are the sections on a task's checkpoints; none where nothing was measured.
func (r *Report) analyses(task string) (out []Section) {
	all := r.measuredOn(task)
	add := func(title, name string, parts ...Part) {
		parts = slices.DeleteFunc(parts, func(p Part) bool {
			t, isTable := p.(Table)
			f, isFigure := p.(Figure)
			return isTable && len(t.Rows) == 0 || isFigure && len(f.Panels) == 0
		})
		if len(parts) > 0 {
			out = append(out, Section{Title: title, Anchor: task + "-" + name, Level: 3, Parts: parts})
		}
	}
	var names []string
	for _, m := range all {
		names = append(names, m.method)
	}
	legend := legendOf(slices.Compact(names))
	add("Geometry of the latents", "geometry", rankTable(task, all),
		Figure{Caption: "Variance of the latents by principal component, as shares, both axes logarithmic.", Panels: spectrumFigure(all), Legend: legend},
		probeTable(task, all), componentTable(task, all))
	add("What predictions are worth", "predictions", rolloutTable(task, all), droppedText(all),
		Figure{Caption: "Recorded episodes predicted from their recorded actions, without a simulator: squared error of the latent over that of two random ones. Dotted: the same model under another episode's actions.",
			Panels: dynamicsFigure(all), Legend: legend})
	return out
}

func scalar(n results.Number, digits int) Field {
	v := float64(n)
	if math.IsNaN(v) {
		return none()
	}
	return number(decimal(v, digits), v)
}

// beside is the published value of a method, if the paper has one.
func beside(task, method string, of func(PaperAnalysis) float64, digits int) Field {
	p, ok := published.analysis(task, method)
	if !ok {
		return none()
	}
	f := scalar(results.Number(of(p)), digits)
	f.muted = true
	return f
}

// span is the interval of a correlation.
func span(r results.Rank) Field {
	if math.IsNaN(float64(r.Lo)) {
		return none()
	}
	return number(decimal(float64(r.Lo), 3)+" to "+decimal(float64(r.Hi), 3), float64(r.Lo))
}

func rankTable(task string, all []*measured) Table {
	t := Table{Anchor: task + "-alignment", Head: []string{"Method", "State", "Frames", "Spearman", "95 % interval", "Pearson", "Paper's Spearman"},
		Caption: taskName(task) + ": do frames that are far apart in task state have latents that are far apart? Correlation of all squared distances of pairs of frames; the interval is a bootstrap over episodes."}
	for _, m := range all {
		for _, r := range m.Rank {
			t.Rows = append(t.Rows, []Field{words(m.name), words(cmp.Or(r.Q, results.DefaultQ)), whole(r.N), scalar(r.Spearman, 3),
				span(r), scalar(r.Pearson, 3),
				beside(task, m.method, func(p PaperAnalysis) float64 { return p.Spearman }, 2)})
		}
	}
	return t
}

// probeSizes are the numbers of components of the paper's figure.
var probeSizes = []int{2, 4, 8}

func probeTable(task string, all []*measured) Table {
	t := Table{Anchor: task + "-probes", Head: []string{"Method", "Source", "2 components", "4", "8", "all", "all, hidden layer"},
		Caption: taskName(task) + ": how well the task state can be read from the first principal components and from all of them: R² on frames that the probe was not fitted on, the mean over the state's components."}
	for _, m := range all {
		if m.Probe == nil {
			continue
		}
		at := func(probe string, k int) Field { return scalar(results.Number(m.r2(probe, k, "mean")), 3) }
		row := []Field{words(m.name), words("ours")}
		for _, k := range probeSizes {
			row = append(row, at("ridge", k))
		}
		t.Rows = append(t.Rows, append(row, at("ridge", 0), at("mlp", 0)))
		if p, ok := published.analysis(task, m.method); ok {
			row = []Field{words(m.name), words("paper")}
			for _, v := range slices.Concat(p.Top, []float64{p.Linear, p.MLP}) {
				row = append(row, scalar(results.Number(v), 3))
			}
			t.Rows = append(t.Rows, muted(row))
		}
	}
	return t
}

// r2 is how well a probe of the first k components, or of all for k = 0, reads a component
// of the state; NaN where there is none.
func (m *measured) r2(probe string, k int, component string) float64 {
	r2 := math.NaN()
	if m.Probe == nil {
		return r2
	}
	for _, s := range m.Probe.Scores { // ascending in k: the last one is that of all components
		if s.Probe == probe && s.Component == component && (k == 0 || s.K == k) {
			r2 = float64(s.R2)
		}
	}
	return r2
}

// componentTable has the probes of all components for each number of the state.
func componentTable(task string, all []*measured) Table {
	t := Table{Anchor: task + "-components", Fold: "Each component of the task state", Head: []string{"Probe", "Component", "Source"},
		Caption: taskName(task) + ": R² of each component of the task state, read from all principal components, as the paper's table tab:probing-" + task + "."}
	type row struct{ probe, component string }
	var rows []row
	fields := map[row][]Field{}
	n := 0
	paper := map[string]map[string][]float64{} // by head and probe, in the order of the components
	for _, m := range all {
		if m.Probe == nil {
			continue
		}
		t.Head = append(t.Head, m.name)
		if p, ok := published.analysis(task, m.method); ok {
			paper[m.name] = map[string][]float64{"linear": append(slices.Clip(p.LinearBy), p.Linear), "hidden layer": append(slices.Clip(p.MLPBy), p.MLP)}
		}
		k := 0
		for _, s := range m.Probe.Scores {
			k = max(k, s.K)
		}
		for _, s := range m.Probe.Scores {
			r := row{map[string]string{"ridge": "linear", "mlp": "hidden layer"}[s.Probe], s.Component}
			if s.K != k || r.probe == "" {
				continue
			}
			if !slices.Contains(rows, r) {
				rows = append(rows, r)
			}
			for len(fields[r]) < n {
				fields[r] = append(fields[r], none())
			}
			fields[r] = append(fields[r], scalar(s.R2, 4))
		}
		n++
	}
	place := map[string]int{} // of a component among those of its probe
	for _, r := range rows {
		for len(fields[r]) < n {
			fields[r] = append(fields[r], none())
		}
		t.Rows = append(t.Rows, append([]Field{words(r.probe), words(r.component), words("ours")}, fields[r]...))
		row := []Field{words(r.probe), words(r.component), words("paper")}
		for _, name := range t.Head[3:] {
			x, f := paper[name][r.probe], none()
			if i := place[r.probe]; i < len(x) && r.component != "mean" {
				f = scalar(results.Number(x[i]), 4)
			} else if len(x) > 0 && r.component == "mean" {
				f = scalar(results.Number(x[len(x)-1]), 4)
			}
			row = append(row, f)
		}
		if r.component != "mean" {
			place[r.probe]++
		}
		if len(paper) > 0 {
			t.Rows = append(t.Rows, muted(row))
		}
	}
	return t
}

// rolloutTable has what predictions are worth, each with its change against the baseline.
func rolloutTable(task string, all []*measured) Table {
	t := Table{Anchor: task + "-rollout", Head: []string{"Method", "Source", "Starts", "Error", "Change", "Kendall's τ", "Change", "p", "Encoded, physical τ", "Predicted, physical τ"},
		Caption: taskName(task) + ": random candidates executed in the simulator and predicted by the model. Error is the squared distance of the predicted from the reached latent over that of two reached ones (lower is better); " +
			"τ says how alike predicted and reached latents order the candidates; the last two set latents against the world's own distance from the goal. Changes are against " + methodName(model.Baseline) +
			" of the same training seed, p is Wilcoxon's over its starts; the paper's p is from its authors' files."}
	value := func(x float64) Field { return number(fmt.Sprintf("%.4f", x), x) }
	for i, m := range all {
		if m.Rollout == nil {
			continue
		}
		r := m.Rollout
		row := []Field{words(m.name), words("ours"), whole(r.Starts), value(r.RollErr), none(), value(r.Tau), none(), none(), value(r.Encoded.Tau), value(r.Total.Tau)}
		for _, base := range all {
			if base.method == model.Baseline && m.method != model.Baseline && base.seed == m.seed && base.protocol == m.protocol && base.data == m.data && base.Rollout != nil {
				row[4], row[6] = change(r.RollErr, base.Rollout.RollErr), change(r.Tau, base.Rollout.Tau)
				if p := overStarts(r, base.Rollout); !math.IsNaN(p) {
					row[7] = number(pvalue(p), p)
				}
				break
			}
		}
		t.Rows = append(t.Rows, row)
		p, ok := published.analysis(task, m.method)
		if !ok || i+1 < len(all) && all[i+1].method == m.method {
			continue
		}
		row = []Field{words(armTitle(m.method)), words("paper"), none(), value(p.RollErr), none(), value(p.Tau), none(), none(), none(), none()}
		if base, ok := published.analysis(task, model.Baseline); ok && m.method != model.Baseline {
			row[4], row[6] = change(p.RollErr, base.RollErr), change(p.Tau, base.Tau)
		}
		if p.TauP > 0 {
			row[7] = number(pvalue(p.TauP), p.TauP)
		}
		t.Rows = append(t.Rows, muted(row))
	}
	return t
}

// change is how much x is above the baseline's number: in percent or, of one near 0, as
// the difference, as in the paper.
func change(x, base float64) Field {
	if math.Abs(base) < 0.05 {
		return number("Δ "+inUnits(x-base), x-base)
	}
	d := 100 * (x/base - 1)
	return number(signed(d)+" %", d)
}

// overStarts is Wilcoxon's p of the differences in τ over the starts that both have; NaN
// where none differs.
func overStarts(a, b *results.Rollout) float64 {
	var diffs []float64
	for _, x := range a.PerStart {
		for _, y := range b.PerStart {
			if x.Start == y.Start && x.Tau != y.Tau {
				diffs = append(diffs, x.Tau-y.Tau)
			}
		}
	}
	if len(diffs) == 0 {
		return math.NaN()
	}
	return stats.SignedRankExact(diffs)
}

// droppedText lists the starts that count in no mean.
func droppedText(all []*measured) Part {
	notes := Text{Style: "note", Title: "Starts without a result"}
	for _, m := range all {
		for _, l := range m.left {
			notes.Items = append(notes.Items, Item{Text: l})
		}
		if m.Rollout == nil {
			continue
		}
		for _, d := range m.Rollout.Dropped {
			notes.Items = append(notes.Items, Item{Text: fmt.Sprintf("%s, start %d: %s", m.name, d.Start, d.Reason)})
		}
	}
	if len(notes.Items) == 0 {
		return Table{}
	}
	return notes
}

// spectrumFigure draws the shares of the components against their rank.
func spectrumFigure(all []*measured) []template.HTML {
	lo, hi, n := math.Inf(1), 0.0, 0
	for _, m := range all {
		if m.Spectrum != nil {
			for _, v := range m.Spectrum.Eigenvalues {
				lo, hi = min(lo, v), max(hi, v)
			}
			n = max(n, len(m.Spectrum.Eigenvalues))
		}
	}
	if n < 2 {
		return nil
	}
	p := newPanel(480, 300, axis{lo: 1, hi: float64(n), log: true}, axis{lo: max(lo, 1e-7) / 1.1, hi: hi * 1.1, log: true})
	p.head("share of the variance")
	p.yGrid(valueTicks(p.y), compact)
	p.xTicks(valueTicks(p.x), compact)
	p.base("component")
	for _, m := range all {
		if m.Spectrum == nil {
			continue
		}
		var ps []point
		for i, v := range m.Spectrum.Eigenvalues {
			if v >= 1e-7 {
				ps = append(ps, p.at(float64(i+1), v))
			}
		}
		p.polyline(ps, "curve thin "+class(m.method))
	}
	return panels(p.html("spectrum of the latents: share of the variance by component"))
}

// dynamicsFigure draws errors against the number of blocks ahead.
func dynamicsFigure(all []*measured) []template.HTML {
	hi, blocks := 0.0, 0
	for _, m := range all {
		if m.Dynamics != nil {
			for _, b := range m.Dynamics.PerBlock {
				hi, blocks = max(hi, b.Error, b.OtherActions), max(blocks, b.Blocks)
			}
		}
	}
	if blocks < 2 {
		return nil
	}
	p := newPanel(480, 300, axis{lo: 1, hi: float64(blocks)}, valueAxis(0, hi))
	p.head("error of the latent")
	p.yGrid(valueTicks(p.y), compact)
	p.xTicks(p.x.ticks(blocks), compact)
	p.base("blocks of 5 steps ahead")
	for _, m := range all {
		if m.Dynamics == nil {
			continue
		}
		var own, others []point
		for _, b := range m.Dynamics.PerBlock {
			own, others = append(own, p.at(float64(b.Blocks), b.Error)), append(others, p.at(float64(b.Blocks), b.OtherActions))
		}
		p.polyline(own, "curve thin "+class(m.method))
		p.polyline(others, "curve dotted "+class(m.method))
	}
	return panels(p.html("error of predicted latents by blocks ahead"))
}
