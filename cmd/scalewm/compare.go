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
	register(verb{name: "compare", args: "A B", summary: "compare two arms with paired statistics, from cells or files of other programs",
		example: "scalewm compare out/demo:scale out/demo:lewm\nscalewm compare ours.csv theirs.csv --json", run: runCompare})
}

// runCompare pairs the outcomes of two arms episode by episode and prints the
// statistics. An arm is FOLDER:ARM, a CSV file with a row per episode, or a result of
// CLEAR-LeWM.
//
// Arms that were not evaluated on the same episodes, with the same seeds and
// settings, are an error: the differences would not be paired. Cells from different
// kinds of device are noted, or with --same-device an error. Unreadable cells are
// left out with a warning on stderr and exitIncomplete. The verb only reads.
func runCompare(ctx context.Context, c *command, args []string) error {
	var f infer.Filter
	c.StringVar(&f.Task, "task", "", "`task` to compare, if the cells have several")
	c.StringVar(&f.Solver, "solver", "", "`solver` to compare, if the cells have several")
	c.StringVar(&f.Seed, "seed", "", "training `seed` to compare, if the cells have several")
	c.StringVar(&f.Settings, "settings", "", "select settings by `words` of the report's titles, if the cells have several")
	var o infer.Options
	c.BoolVar(&o.SameDevice, "same-device", false, "fail if the cells are from different kinds of device, instead of only noting it")
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	pos, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	// Cells store seeds as integers: 03072 must match 3072.
	if f.Seed != "" {
		seed, err := parseSeed(f.Seed)
		if err != nil {
			return usagef("compare: --seed: %v (hint: the seed of a training, as in --seed 3072)", err)
		}
		f.Seed = strconv.FormatInt(seed, 10)
	}
	var arms [2]*infer.Side
	var torn []string // each file once: both arms may be in the same folder
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
	incomplete := c.warnUnread(torn) // returned last: the comparison of the rest is still printed
	// Err returns an error if the arms cannot be paired at all; Notes list lesser problems.
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

// printComparison prints a row for each tier and, if there are several, their mean,
// followed by an explanation of the columns.
func printComparison(out io.Writer, r *infer.Comparison) error {
	fmt.Fprintf(out, "A = %s\nB = %s\n\n", r.A, r.B)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "tier\tpairs\tsets\tA %%\tB %%\tonly A\tonly B\tA - B\t95 %% interval\tp\tHolm\twithin ±%d\t\n", stats.Margin)
	rows := r.ByTier
	if len(rows) > 1 { // add the mean over tiers
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
		fmt.Fprint(out, "mean: over the tiers of an episode; sign flip and bootstrap over episodes within sets; Newcombe if fewer than 10 differ.\n")
	}
	if len(r.Notes) > 0 {
		fmt.Fprintf(out, "note: %s\n", strings.Join(r.Notes, "; "))
	}
	return nil
}

// pText formats a p-value, "-" for none.
func pText(p *float64) string {
	switch {
	case p == nil:
		return "-"
	case *p < 0.0001: // more digits would suggest a precision that no test has
		return "<.0001"
	}
	return fmt.Sprintf("%.4f", *p)
}
