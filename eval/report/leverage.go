package report

import (
	"fmt"
	"slices"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// This file shows the paper's argument from metric leverage: the task state can be read from
// latents whose distances it hardly changes.

// leverage returns the section on what weighs in the planning cost of a task's models.
func (r *Report) leverage(task string, all []*infer.Checkpoint) []doc.Section {
	all = slices.DeleteFunc(slices.Clone(all), func(c *infer.Checkpoint) bool { return c.Leverage == nil })
	return section(doc.Section{Title: "What weighs in the planning cost", Anchor: task + "-leverage", Level: 3, Fold: r.folded()},
		r.readoutTable(task, all), r.leverageTable(task, all), r.pairsFilm(task, all))
}

// readoutTable has the shares of the planning cost that the state and its readout carry,
// one row for each method.
func (r *Report) readoutTable(task string, all []*infer.Checkpoint) doc.Table {
	v := r.view(task+"-readout", words.Task(task)+": how much of the planning cost, the squared distance of two latents, is due to the task state. Shares of the expected distance: that which the state explains linearly, and that in the directions of its linear readout, be it accurate or not. Mean ± SD and Student's interval over training seeds if there are several.",
		titles(all), number("Due to the state", infer.Explained, spreadOf(3)), number("95 % interval", infer.Explained, intervalOf(3)), number("In its readout", infer.Readout, spreadOf(3)), number("95 % interval", infer.Readout, intervalOf(3)))
	for _, row := range byMethod(all) {
		v.row(row)
	}
	return v.Table
}

// leverageTable has the metric leverage of the leading components, and the R² of the task
// state from each alone: two columns for each method.
func (r *Report) leverageTable(task string, all []*infer.Checkpoint) doc.Table {
	t := doc.Table{Anchor: task + "-components-leverage", Fold: words.Task(task) + ": leverage of each component", Head: []string{"Component"},
		Caption: words.Task(task) + ": metric leverage 2λ of the first principal components, which is what each adds to the expected squared distance of two latents (eq. 8), and R² of the task state read from that component alone; means over training seeds."}
	methods := byMethod(all)
	for _, m := range methods {
		t.Head = append(t.Head, titled(m)+": 2λ", "R²")
	}
	for k := 1; k <= infer.Leading && len(methods) > 0; k++ {
		row := []doc.Field{doc.Whole(k)}
		for _, n := range methods {
			n.What = infer.Leverage(k)
			row = append(row, shown(r.Find(n), digits))
			n.What = infer.R2Alone(k)
			row = append(row, shown(r.Find(n), decimals(3)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// pairsFilm shows pairs of frames whose distances disagree, one picture for each method,
// with the percentiles of their distances.
func (r *Report) pairsFilm(task string, all []*infer.Checkpoint) doc.Film {
	film := doc.Film{Caption: "Pairs of frames whose distances disagree. First line: near in latents and far in task state, which the planner confuses; second line: far in latents and near in state. The numbers are percentiles of both distances among all pairs, latent/state; distances that agree have equal ones."}
	var names []string
	for _, clip := range r.Clips {
		// The picture is that of the first seed.
		at := slices.IndexFunc(all, func(c *infer.Checkpoint) bool { return c.Arm == clip.Arm })
		if clip.Task != task || clip.Tier != results.PairsTier || at < 0 {
			continue
		}
		note := percentiles(all[at].Leverage.Near) + "; " + percentiles(all[at].Leverage.Far)
		film.Clips = append(film.Clips, doc.Clip{Title: words.Arm(clip.Arm), Note: note, Class: r.class(clip.Arm), GIF: clip.GIF})
		names = append(names, words.Arm(clip.Arm)+" ("+note+")")
	}
	film.Cast = "Of " + words.Listing(names) + "."
	return film
}

// percentiles lists the percentiles of pairs, latent/state.
func percentiles(all []results.FramePair) string {
	var out []string
	for _, p := range all {
		out = append(out, fmt.Sprintf("%.0f/%.0f", p.Latent, p.State))
	}
	return strings.Join(out, ", ")
}
