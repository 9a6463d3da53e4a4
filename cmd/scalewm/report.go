package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"scalewm/eval/infer"
	"scalewm/eval/pipeline"
	"scalewm/eval/report"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

func init() {
	register(verb{name: "report", args: "DIR", summary: "write the report with paired statistics on a results folder",
		example: "scalewm report out/demo\nscalewm report out/demo --out out/demo/report --format html,json\nscalewm report out/demo --with theirs=theirs.csv\nscalewm report out/demo --why difference,solver=cem,tier=T1,a=scale,b=lewm\nscalewm report clear --format clear --submission submission.toml", run: runReport})
}

// runReport writes the report on a results folder, or prints what a single number in
// it is based on (--why).
//
// The report consists of files in all requested formats, with equal contents. It
// replaces the files of an earlier report in the same folder, and others only with
// --force. --format clear writes the files of CLEAR-LeWM instead. Stdout has a
// summary, the path of the page, and with --json the contents of report.json.
// Unreadable cells are left out with a warning on stderr and give exitIncomplete.
func runReport(ctx context.Context, c *command, args []string) error {
	out := c.String("out", "", "`folder` of the report (default DIR/report)")
	format := c.String("format", "all", "comma-separated `formats`: "+strings.Join(report.Formats(), ", ")+", all of these (all), or "+report.Episodes+" (one line per episode); alone, "+clearFormat+" (results on manifests of CLEAR-LeWM as its files)")
	var x pipeline.ClearRequest
	c.StringVar(&x.Submission, "submission", "", "TOML `file` with what a submission to CLEAR-LeWM states: method, authors, training data")
	random := c.String("random", "", "comma-separated result `files` of CLEAR-LeWM's random actions, which a submission is compared with")
	var o infer.Options
	c.BoolVar(&o.SameDevice, "same-device", false, "pair only cells from the same kind of device, instead of noting other pairs")
	c.StringVar(&o.Baseline, "baseline", "", "compare the others with the arm of this `name` (default: lewm, or the first arm of a folder without it)")
	with := c.String("with", "", "comma-separated `files` of other programs, as NAME=FILE or FILE: results of CLEAR-LeWM and CSV files, each an arm")
	why := c.String("why", "", "print the cells and the test behind a number instead of the report; the `selector` is such as difference,task=tworoom,solver=cem,tier=mean,a=scale,b=lewm (keys set, seed, settings and source too)")
	force := c.forceFlag()
	asJSON := c.Bool("json", false, "print report.json, or the result of --why, as the last line")
	pos, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if *format == clearFormat {
		x.Dir, x.Out, x.Force = pos[0], *out, *force
		if *random != "" {
			x.Random = strings.Split(*random, ",")
		}
		return c.writeClear(ctx, x, *asJSON)
	}
	formats, err := parseFormats(*format)
	if err == nil {
		err = c.noEffect("without --format "+clearFormat, "submission", "random")
	}
	if err != nil {
		return err
	}
	if *with != "" {
		if o.With, err = infer.ReadForeign(*with); err != nil {
			return fmt.Errorf("report: --with: %w", err)
		}
	}
	if *why != "" {
		if err := c.noEffect("with --why, which writes no report", "out", "format", "force"); err != nil {
			return err
		}
		return c.showWhy(ctx, pos[0], *why, o, *asJSON)
	}
	if *out == "" {
		*out = filepath.Join(pos[0], "report")
	}
	// Loading a results folder reads every JSON file in folders of this name.
	if filepath.Base(*out) == results.CellsDir {
		return usagef("report: --out %s is the name of the cell folder in a results folder, where report.json would be mistaken for a cell (hint: choose another name)", *out)
	}
	// infer pairs and tests, report lays out; this verb chooses formats and prints.
	r, path, err := pipeline.WriteReport(ctx, pos[0], *out, formats, o, *force)
	if err != nil {
		return baselineUsage(err)
	}
	showReport(c.stdout, r, path)
	if *asJSON { // after the summary: JSON is the last line
		if err := c.printJSON(r.JSON()); err != nil {
			return err
		}
	}
	return c.warnUnread(r.Unread())
}

// clearFormat is the format of files for CLEAR-LeWM, which no report has.
const clearFormat = "clear"

// writeClear writes results on manifests as files of CLEAR-LeWM, and submissions of them. It
// prints their paths to stdout and notes to stderr.
func (c *command) writeClear(ctx context.Context, r pipeline.ClearRequest, asJSON bool) error {
	if err := c.noEffect("with --format "+clearFormat, "same-device", "baseline", "with", "why"); err != nil {
		return err
	}
	r.Out = cmp.Or(r.Out, filepath.Join(r.Dir, clearFormat))
	w, err := pipeline.WriteClear(ctx, r)
	if err != nil {
		return err
	}
	for _, note := range w.Notes {
		fmt.Fprintln(c.stderr, "note:", note)
	}
	if asJSON {
		err = c.printJSON(w)
	} else {
		fmt.Fprintln(c.stdout, strings.Join(w.Files, "\n"))
	}
	return cmp.Or(err, c.warnUnread(w.Unread))
}

// baselineUsage returns err, as a usage error if --baseline named an arm that the folder
// lacks.
func baselineUsage(err error) error {
	if errors.Is(err, infer.ErrBaseline) {
		return usagef("%v", err)
	}
	return err
}

// showWhy prints the cells and the test behind the number of a results folder that
// selector selects. It computes the numbers exactly as the report does.
func (c *command) showWhy(ctx context.Context, dir, selector string, o infer.Options, asJSON bool) error {
	folder, err := results.Load(ctx, dir)
	if err != nil {
		return err
	}
	t, err := infer.Infer(&folder, o)
	if err != nil {
		return baselineUsage(fmt.Errorf("reporting on %s: %w", dir, err))
	}
	n, err := t.Select(selector)
	if err != nil {
		return usagef("report: --why: %v", err)
	}
	w, err := t.Why(n)
	if err != nil {
		return err
	}
	if printWhy(c.stdout, w); asJSON {
		if err := c.printJSON(w); err != nil {
			return err
		}
	}
	return c.warnUnread(folder.Unread())
}

// printWhy prints a number, the rows of outcomes it was computed from, its cells with
// their checksums, and its test.
func printWhy(out io.Writer, w infer.Why) {
	n := w.Number
	fmt.Fprintf(out, "%s = %s", n.Selector(), exact(n.Value))
	for _, part := range []struct {
		name  string
		value *float64
	}{{"SD", n.SD}, {"from", n.Lo}, {"to", n.Hi}, {"p", n.P}, {"adjusted p", n.Adjusted}} {
		if part.value != nil {
			fmt.Fprintf(out, ", %s %s", part.name, exact(part.value))
		}
	}
	if n.N > 0 {
		fmt.Fprintf(out, ", n = %s", words.Count(n.N, n.Unit))
	}
	fmt.Fprintln(out)
	for _, note := range n.Notes {
		fmt.Fprintln(out, "note:", note)
	}
	// All rows have the type of the first: counts of pairs, or of single cells.
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, row := range w.Rows {
		switch r := row.(type) {
		case infer.OfPair:
			if i == 0 {
				fmt.Fprintln(t, "\nseeds\ttier\tset\tpairs\tboth\tonly a\tonly b\tneither")
			}
			fmt.Fprintf(t, "%d, %d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n", r.SeedA, r.SeedB, r.Tier, r.Set, r.N, r.Both, r.OnlyA, r.OnlyB, r.Neither)
		case infer.OfCell:
			if i == 0 {
				fmt.Fprintln(t, "\narm\tseed\tsolver\ttier\tset\tepisodes\tsuccesses\tcell")
			}
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%d\t%d\t%s\n", r.Arm, r.Seed, r.Solver, r.Tier, r.Set, r.N, r.Hits, r.Cell)
		}
	}
	if len(w.Cells) > 0 {
		fmt.Fprintln(t, "\ncell\tdevice\tSHA-256 of the file")
	}
	for _, c := range w.Cells {
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.Path, c.Device, c.SHA256)
	}
	t.Flush()
	if w.Test != nil {
		fmt.Fprintf(out, "\ntest: %s", w.Test.Name)
		if w.Test.Interval != "" {
			fmt.Fprintf(out, "; interval: %s", w.Test.Interval)
		}
		fmt.Fprintln(out)
	}
}

// exact formats a number such that parsing gives it back exactly; "nothing" for nil.
func exact(x *float64) string {
	if x == nil {
		return "nothing"
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}

// warnUnread prints a warning for each file that could not be read. It returns
// errUnread if there are any, with which a verb ends after it has done everything
// else.
func (c *command) warnUnread(unread []string) error {
	for _, u := range unread {
		fmt.Fprintln(c.stderr, "warning:", u)
	}
	if len(unread) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d in all", errUnread, len(unread))
}

// parseFormats parses the flag --format.
func parseFormats(list string) (formats []string, err error) {
	known := report.AllFormats()
	// "all" is all formats but the list of episodes, which is large and rarely needed.
	for f := range strings.SplitSeq(list, ",") {
		switch {
		case f == clearFormat:
			return nil, usagef("report: --format %s writes other files than a report (hint: give it alone)", clearFormat)
		case f == "all":
			formats = append(formats, report.Formats()...)
		case slices.Contains(known, f):
			formats = append(formats, f)
		default:
			return nil, usagef("report: unknown format %q%s; --format takes %s, with commas, or all, which is all but the last", f, words.Nearest(f, known), strings.Join(known, ", "))
		}
	}
	return formats, nil
}

// showReport prints a report's summary and the path of its page.
func showReport(stdout io.Writer, r *report.Report, path string) {
	fmt.Fprint(stdout, r.Summary())
	if path != "" {
		fmt.Fprintf(stdout, "report: %s\n", path)
	}
}
