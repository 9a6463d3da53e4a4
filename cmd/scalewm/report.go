package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/cell"
	"scalewm/envs"
	"scalewm/eval/report"
)

func init() {
	register(verb{name: "report", args: "DIR", summary: "results folder to one page with paired statistics",
		example: "scalewm report out/demo\nscalewm report out/demo --out out/demo/report --format html,json", run: runReport})
}

func runReport(_ context.Context, c *command, args []string) error {
	out := c.String("out", "", "`folder` of the report (default DIR/report)")
	format := c.String("format", "all", "`formats`, with commas: "+strings.Join(report.Formats(), ", ")+", or all")
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
	r, err := makeReport(c.stdout, pos[0], *out, formats)
	if err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(r.JSON())
	}
	return nil
}

// parseFormats reads the --format flag.
func parseFormats(list string) ([]string, error) {
	if list == "all" {
		return report.Formats(), nil
	}
	formats := strings.Split(list, ",")
	known := report.Formats()
	for _, f := range formats {
		if !slices.Contains(known, f) {
			return nil, usagef("report: unknown format %q%s; --format takes %s, or all", f, nearest(f, known), strings.Join(known, ", "))
		}
	}
	return formats, nil
}

// makeReport reads the results below dir, writes the report's files into out
// and prints the summary; `reproduce` ends with it too.
func makeReport(stdout io.Writer, dir, out string, formats []string) (*report.Report, error) {
	d, err := report.Load(dir)
	if err != nil {
		return nil, err
	}
	d.Success = map[string]string{}
	for _, name := range envs.Names() {
		t, err := envs.Lookup(name)
		if err != nil {
			return nil, err
		}
		d.Success[name] = t.Spec.Success
	}
	r, err := report.Build(d)
	if err != nil {
		return nil, fmt.Errorf("reporting on %s: %w", dir, err)
	}
	files, err := r.Render(formats)
	if err != nil {
		return nil, fmt.Errorf("reporting on %s: %w", dir, err)
	}
	fmt.Fprint(stdout, r.Summary())
	for _, f := range files {
		path := filepath.Join(out, f.Name)
		err := cell.WriteFile(path, func(w io.Writer) error {
			_, err := w.Write(f.Bytes)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("writing the report: %w", err)
		}
	}
	if len(files) > 0 {
		fmt.Fprintf(stdout, "report: %s\n", filepath.Join(out, files[0].Name))
	}
	return r, nil
}
