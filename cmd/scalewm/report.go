package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/pipeline"
	"scalewm/eval/report"
	"scalewm/eval/results"
)

func init() {
	register(verb{name: "report", args: "DIR", summary: "results folder to one page with paired statistics",
		example: "scalewm report out/demo\nscalewm report out/demo --out out/demo/report --format html,json", run: runReport})
}

func runReport(ctx context.Context, c *command, args []string) error {
	out := c.String("out", "", "`folder` of the report (default DIR/report)")
	format := c.String("format", "all", "`formats`, with commas: "+strings.Join(report.Formats(), ", ")+", all of these, or "+report.Episodes+", a line an episode")
	var o infer.Options
	c.BoolVar(&o.SameDevice, "same-device", false, "pair only plans that were made on one kind of device; other pairs are noted otherwise")
	force := c.forceFlag()
	asJSON := c.Bool("json", false, "print report.json as the last line")
	pos, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	formats, err := parseFormats(*format)
	if err != nil {
		return err
	}
	if *out == "" {
		*out = filepath.Join(pos[0], "report")
	}
	if filepath.Base(*out) == results.CellsDir {
		return usagef("report: --out %s is the name of the folder of cells in a results folder, where report.json would be taken for one (hint: another name)", *out)
	}
	r, path, err := pipeline.WriteReport(ctx, pos[0], *out, formats, o, *force)
	if err != nil {
		return err
	}
	showReport(c.stdout, r, path)
	if *asJSON {
		if err := c.printJSON(r.JSON()); err != nil {
			return err
		}
	}
	return c.unreadFiles(r.Unread)
}

// unreadFiles tells of files that could not be read, without which a verb still finishes.
func (c *command) unreadFiles(unread []string) error {
	for _, u := range unread {
		fmt.Fprintln(c.stderr, "warning:", u)
	}
	if len(unread) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d in all", errUnread, len(unread))
}

// parseFormats reads the --format flag.
func parseFormats(list string) (formats []string, err error) {
	known := report.AllFormats()
	for f := range strings.SplitSeq(list, ",") {
		switch {
		case f == "all":
			formats = append(formats, report.Formats()...)
		case slices.Contains(known, f):
			formats = append(formats, f)
		default:
			return nil, usagef("report: unknown format %q%s; --format takes %s, with commas, or all, which is all but the last", f, pipeline.Nearest(f, known), strings.Join(known, ", "))
		}
	}
	return formats, nil
}

// showReport prints a report's summary and where its page lies.
func showReport(stdout io.Writer, r *report.Report, path string) {
	fmt.Fprint(stdout, r.Summary())
	if path != "" {
		fmt.Fprintf(stdout, "report: %s\n", path)
	}
}
