package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"

	"scalewm/dataset/safefile"
	"scalewm/model/train/metrics"
)

func init() {
	register(verb{name: "tensorboard", args: "DIR", summary: "export the training curves in a folder for TensorBoard",
		example: "scalewm tensorboard out/demo --out out/demo/tensorboard\ntensorboard --logdir out/demo/tensorboard", run: runTensorboard})
}

// runTensorboard converts each training's metrics.jsonl below a folder to an event
// file, in the same folder structure below --out. It may run while trainings do, and
// again later.
//
// Event files of an earlier export are replaced, other files only with --force.
// Unreadable folders are skipped with a warning and give exitIncomplete. Stdout has
// one line, or one JSON object.
func runTensorboard(ctx context.Context, c *command, args []string) error {
	out := c.String("out", "", "`folder` to write, with one subfolder per training")
	force := c.forceFlag()
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	pos, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if err := c.required("out"); err != nil {
		return err
	}
	var files []string
	// Every folder with a metrics.jsonl is a training.
	unread, err := safefile.Walk(ctx, pos[0], func(path string, _ bool) error {
		if filepath.Base(path) != metrics.FileName {
			return nil
		}
		folder, err := filepath.Rel(pos[0], filepath.Dir(path))
		if err != nil {
			return err
		}
		file := filepath.Join(*out, folder, metrics.EventsFile)
		files = append(files, file)
		return exportCurves(filepath.Dir(path), file, *force)
	})
	if err != nil {
		return fmt.Errorf("writing the curves of %s: %w", pos[0], err)
	}
	// An empty result is a mistake in the argument, unless the folders were unreadable.
	if len(files) == 0 && len(unread) == 0 {
		return fmt.Errorf("no training is in %s (hint: give the folder that train or reproduce wrote; each training has a %s)", pos[0], metrics.FileName)
	}
	if *asJSON {
		err = c.printJSON(map[string]any{"out": *out, "files": files})
	} else {
		_, err = fmt.Fprintf(c.stdout, "%s: %d trainings (tensorboard --logdir %s)\n", *out, len(files), *out)
	}
	return cmp.Or(err, c.warnUnread(unread))
}

// exportCurves writes the event file of one training. It replaces a file of an
// earlier export, recognised by its first record, and other files only with force.
func exportCurves(training, file string, force bool) error {
	rows, err := metrics.Read(training)
	if err != nil {
		return err
	}
	// Encode first: a file is replaced only by a complete one.
	var events bytes.Buffer
	if err := metrics.WriteEvents(&events, rows); err != nil {
		return fmt.Errorf("%s: %w", training, err)
	}
	if !force {
		if ours, err := safefile.Marked(file, metrics.EventsHead()); err != nil || !ours {
			return cmp.Or(err, fmt.Errorf("%s exists and is not an export (hint: move it away, or give another --out or --force)", file))
		}
	}
	return safefile.Write(file, func(w io.Writer) error { _, err := w.Write(events.Bytes()); return err })
}
