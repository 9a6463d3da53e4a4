package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"scalewm/eval/infer"
	"scalewm/eval/stats"
)

func init() {
	register(verb{name: "compare", args: "A B", summary: "paired statistics of two arms, from cells or CSV",
		example: "scalewm compare out/demo:scale out/demo:lewm\nscalewm compare ours.csv theirs.csv --json", run: runCompare})
}

func runCompare(ctx context.Context, c *command, args []string) error {
	var f infer.Filter
	c.StringVar(&f.Task, "task", "", "`task` of the cells, where there are several")
	c.StringVar(&f.Solver, "solver", "", "`solver` of the cells, where there are several")
	c.StringVar(&f.Seed, "seed", "", "training `seed` of the cells, where there are several")
	c.StringVar(&f.Settings, "settings", "", "`words` that tell settings apart, where a folder holds several, as the report's titles have them")
	var o infer.Options
	c.BoolVar(&o.SameDevice, "same-device", false, "refuse plans that were made on different kinds of device, which are only noted otherwise")
	asJSON := c.Bool("json", false, "print one JSON object")
	pos, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	if f.Seed != "" {
		seed, err := parseSeed(f.Seed)
		if err != nil {
			return usagef("compare: --seed: %v (hint: the seed of a training, as in --seed 3072)", err)
		}
		f.Seed = strconv.FormatInt(seed, 10)
	}
	var arms [2]*infer.Side
	var torn []string
	for i, name := range pos {
		if arms[i], err = infer.Load(ctx, name, f); err != nil {
			return err
		}
		for _, t := range arms[i].Torn {
			if !slices.Contains(torn, t) {
				torn = append(torn, t)
			}
		}
	}
	incomplete := c.unreadFiles(torn)
	r := infer.Compare(arms[0], arms[1], o)
	if err := r.Err(); err != nil {
		return err
	}
	for _, a := range arms {
		r.Notes = append(r.Notes, a.Notes...)
	}
	if *asJSON {
		err = c.printJSON(r)
	} else {
		err = printComparison(c.stdout, r)
	}
	if err != nil {
		return err
	}
	return incomplete
}

func printComparison(out io.Writer, r *infer.Comparison) error {
	fmt.Fprintf(out, "A = %s\nB = %s\n\n", r.A, r.B)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "tier\tpairs\tsets\tA %%\tB %%\tonly A\tonly B\tA - B\t95 %% interval\tp\tHolm\twithin ±%d\t\n", stats.Margin)
	rows := r.ByTier
	if len(rows) > 1 {
		rows = r.All()
	}
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t%d\t%d\t%+.1f\t[%+.1f, %+.1f]\t%s\t%s\t%s\t\n", row.Tier, row.N, row.Sets, row.RateA, row.RateB,
			row.OnlyA, row.OnlyB, row.Diff, row.Lo, row.Hi, pText(&row.P), pText(row.HolmP), row.Verdict)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the comparison: %w", err)
	}
	fmt.Fprintf(out, "\np: exact McNemar of a tier; interval: Newcombe. Holm: p adjusted for the number of tiers; --json has more tests.\nwithin ±%d: where the 90 %% interval lies against a margin of %d points (two one-sided tests at 5 %%).\n", stats.Margin, stats.Margin)
	if len(rows) > 1 {
		fmt.Fprint(out, "mean: over the tiers of an episode; sign flip and bootstrap over episodes within sets.\n")
	}
	if len(r.Notes) > 0 {
		fmt.Fprintf(out, "note: %s\n", strings.Join(r.Notes, "; "))
	}
	return nil
}

// pText is a p-value for people, "-" where there is none.
func pText(p *float64) string {
	switch {
	case p == nil:
		return "-"
	case *p < 0.0001:
		return "<.0001"
	}
	return fmt.Sprintf("%.4f", *p)
}
