package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"scalewm/eval/compare"
)

func init() {
	register(verb{name: "compare", args: "A B", summary: "paired statistics of two arms, from cells or CSV",
		example: "scalewm compare out/demo:scale out/demo:lewm\nscalewm compare ours.csv theirs.csv --json", run: runCompare})
}

func runCompare(_ context.Context, c *command, args []string) error {
	var f compare.Filter
	c.StringVar(&f.Task, "task", "", "`task` of the cells, where there are several")
	c.StringVar(&f.Solver, "solver", "", "`solver` of the cells, where there are several")
	c.StringVar(&f.Seed, "seed", "", "training `seed` of the cells, where there are several")
	asJSON := c.Bool("json", false, "print one JSON object")
	pos, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	var arms [2]*compare.Arm
	for i, name := range pos {
		if arms[i], err = compare.Load(name, f); err != nil {
			return err
		}
		for _, p := range arms[i].Problems {
			fmt.Fprintln(c.stderr, "warning:", p)
		}
	}
	r, err := compare.Compare(arms[0], arms[1])
	if err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(r)
	}
	return printComparison(c.stdout, r)
}

func printComparison(out io.Writer, r *compare.Result) error {
	fmt.Fprintf(out, "A = %s\nB = %s\n\n", r.A, r.B)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "tier\tpairs\tsets\tA %\tB %\tonly A\tonly B\tA - B\t95 % interval\tp\tmid-p\tHolm\tp over sets\twithin ±5\t")
	rows := r.Rows
	if len(rows) > 1 {
		rows = append(rows[:len(rows):len(rows)], r.Mean)
	}
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.1f\t%d\t%d\t%+.1f\t[%+.1f, %+.1f]\t%s\t%s\t%s\t%s\t%s\t\n", row.Tier, row.N, row.Sets, row.RateA, row.RateB,
			row.OnlyA, row.OnlyB, row.Diff, row.Lo, row.Hi, pText(&row.P), pText(row.MidP), pText(row.HolmP), pText(&row.SetP), row.Verdict)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the comparison: %w", err)
	}
	fmt.Fprint(out, "\np: exact McNemar of a tier; interval: Newcombe. Holm: p adjusted for the number of tiers.\nwithin ±5: where the 90 % interval lies against a margin of 5 points (two one-sided tests at 5 %).\n")
	if len(rows) > 1 {
		fmt.Fprint(out, "mean: over the tiers of an episode; sign flip and bootstrap over episodes within sets.\n")
	}
	if len(r.Notes) > 0 {
		fmt.Fprintf(out, "left out: %s\n", strings.Join(r.Notes, "; "))
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
