package main

import (
	"context"
	"fmt"
	"os"

	"scalewm/dataset/export"
)

// exported is the output of `data export --json`.
type exported struct {
	File string `json:"file"`
	Out  string `json:"out"`
	To   string `json:"to"`
	FPS  int    `json:"fps,omitempty"`
	export.Result
}

// dataExport writes a data set in the format of another program. It never replaces a
// folder; see outputPath for an interrupt at its end.
func dataExport(ctx context.Context, c *command, j export.Job, asJSON bool) error {
	if j.Out == "" {
		return usagef("data export needs --out DIR")
	}
	if j.To != "lerobot" {
		if err := c.noEffect("with --to "+j.To, "fps"); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(j.Out); err == nil {
		return fmt.Errorf("exporting %s: %s already exists (hint: remove it or choose another --out)", j.In, j.Out)
	}
	// From here on j.Out is known not to exist, so that its existence means success.
	outputPath.Store(&j.Out)
	p := newProgress(c.stderr, "exporting")
	j.Progress, j.Note = p.report, func(text string) { fmt.Fprintln(c.stderr, "note:", text) }
	r, err := j.Run(ctx)
	p.close()
	if err != nil {
		return err
	}
	e := exported{File: j.In, Out: j.Out, To: j.To, Result: r}
	rate := ""
	if j.To == "lerobot" {
		e.FPS, rate = j.FPS, fmt.Sprintf(" at %d frames per second (--fps)", j.FPS)
	}
	if asJSON {
		return c.printJSON(e)
	}
	fmt.Fprintf(c.stdout, "%s: %d episodes, %d rows in the format %s%s\n", j.Out, r.Episodes, r.Rows, j.To, rate)
	return nil
}
