package main

import (
	"context"
	"fmt"

	"scalewm/dataset"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/encode"
)

func init() {
	register(verb{name: "encode", summary: "turn the frames of a data set into latents",
		example: "scalewm encode --weights runs/scale-3072 --data tworoom.h5 --out tworoom-scale.h5", run: runEncode})
	register(verb{name: "rollout", summary: "predict latents from the actions of a data set",
		example: "scalewm rollout --weights runs/scale-3072 --data tworoom.h5 --blocks 5 --out tworoom-pred.h5", run: runRollout})
}

func runEncode(ctx context.Context, c *command, args []string) error {
	return c.encode(ctx, args, nil)
}

func runRollout(ctx context.Context, c *command, args []string) error {
	blocks := c.Count("blocks", results.Published().Horizon, "`number` of blocks of actions to predict after each row")
	return c.encode(ctx, args, blocks)
}

// encode writes the latents of a data set's frames or, given blocks, those that are predicted after each.
func (c *command) encode(ctx context.Context, args []string, blocks *int) error {
	path := c.String("weights", "", "the checkpoint: a `folder` that train wrote, or a published one with weights.pt and config.json")
	data := c.String("data", "", "the data set, a `file` in HDF5")
	out := c.String("out", "", "the `file` to write; finished parts wait in FILE.parts until it is whole")
	workers := c.Count("workers", 0, "`goroutines` that read frames; 0 is one a core (the file does not depend on it)")
	dev := c.deviceFlags("fp32")
	asJSON := c.Bool("json", false, "print one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	if err := c.required("weights", "data", "out"); err != nil {
		return err
	}
	file, err := hdf5.Open(*data)
	if err != nil {
		return err
	}
	defer file.Close()
	d, err := dev.open(false)
	if err != nil {
		return err
	}
	defer d.Close()
	m, side, err := model.Load(d, *path)
	if err != nil {
		return err
	}
	defer m.Free()
	if err := checkEncoded(file, side.Task); err != nil {
		return fmt.Errorf("encoding %s with %s: %w", *data, *path, err)
	}
	job := encode.Job{Data: file, World: m, Weights: side.SHA256, Out: *out, Workers: orCores(*workers)}
	if blocks != nil {
		most := blocksIn(file, m.Info().FrameSkip)
		if job.Blocks = *blocks; *blocks < 1 || *blocks > most {
			return usagef("rollout: --blocks %d: in the longest episode of %s %d blocks of %d rows follow the first (hint: --blocks is from 1 to that)", *blocks, *data, most, m.Info().FrameSkip)
		}
		job.Actions = dataset.Moments{Mean: side.ActionMean, Std: side.ActionStd}
		if len(side.ActionMean) == 0 { // a published checkpoint
			if job.Actions, err = dataset.ColumnMoments(file, "action", nil, 0); err != nil {
				return err
			}
		}
	}
	p := newProgress(c.stderr, "encoding")
	job.Progress = p.report
	res, err := encode.Run(ctx, job)
	p.close()
	if err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(map[string]any{"out": *out, "rows": res.Rows, "episodes": res.Episodes, "width": res.Width,
			"new_rows": res.New, "already_done": res.Skipped, "device": d.Kind().String(), "nan_percent": res.NaN})
	}
	note := fmt.Sprintf("%d latents of %d numbers", res.Rows, res.Width)
	if res.Skipped {
		note += ", was encoded before"
	}
	if res.NaN > 0 {
		note += fmt.Sprintf("; %.3g %% of them are NaN or infinite, as a model whose training diverged gives", res.NaN)
	}
	_, err = fmt.Fprintf(c.stdout, "%s: %s\n", *out, note)
	return err
}

// blocksIn is how many blocks of rows follow the first row of the longest episode.
func blocksIn(src dataset.Source, frameSkip int) (blocks int) {
	for _, ep := range src.Episodes() {
		blocks = max(blocks, (ep.Len-1)/frameSkip)
	}
	return blocks
}

// checkEncoded says why a data set is none of the task that a checkpoint names;
// a published one names none, and one of own data may have any.
func checkEncoded(src dataset.Source, task string) error {
	if task == "" || task == dataset.NoTask {
		return nil
	}
	t, err := envs.Lookup(task)
	if err != nil {
		return err
	}
	return dataset.CheckTask(src, task, t.Spec.ID, t.Spec.ActionDim)
}
