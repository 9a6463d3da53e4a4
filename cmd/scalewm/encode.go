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

// runEncode writes the latents of a data set's frames.
func runEncode(ctx context.Context, c *command, args []string) error {
	return c.encode(ctx, args, nil)
}

// runRollout writes the latents that a model predicts after each row of a data set.
func runRollout(ctx context.Context, c *command, args []string) error {
	blocks := c.Count("blocks", results.Published().Horizon, "predict `n` blocks of actions after each row")
	return c.encode(ctx, args, blocks)
}

// encode implements encode (blocks is nil) and rollout. Both write a data set with
// latents in place of frames, which analyses and other programs can read.
//
// The parts in FILE.parts let the same command resume. It does nothing if FILE is
// complete with the same weights and data set. Stdout has one line, or one JSON
// object.
func (c *command) encode(ctx context.Context, args []string, blocks *int) error {
	path := c.String("weights", "", "`folder` of the checkpoint: written by train, or a published one with weights.pt and config.json")
	key := c.keyFlag()
	data := c.String("data", "", "data set, an HDF5 `file`")
	out := c.String("out", "", "`file` to write; until it is complete, finished parts are kept in FILE.parts")
	workers := c.Count("workers", 0, "use `n` goroutines to read frames; 0 means one per core (the file does not depend on it)")
	dev := c.deviceFlags("fp32")
	asJSON := c.Bool("json", false, "print the result as one JSON object")
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
	m, side, err := model.Load(d, *path, *key)
	if err != nil {
		return err
	}
	defer m.Free()
	c.noteWeights(*path, side)
	// A model encodes the frames of any task, but the latents would mean nothing.
	if err := checkEncoded(file, side.Task); err != nil {
		return fmt.Errorf("encoding %s with %s: %w", *data, *path, err)
	}
	// The weights' hash goes into the output's attributes: a file made with other weights is
	// not taken for finished.
	job := encode.Job{Data: file, World: m, Weights: side.SHA256, Out: *out, Workers: orAllCores(*workers)}
	// Rollouts need actions z-scored as in training, and episodes that are long enough.
	if blocks != nil {
		most := blocksIn(file, m.Info().FrameSkip)
		if job.Blocks = *blocks; *blocks < 1 || *blocks > most {
			return usagef("rollout: --blocks %d: in the longest episode of %s, %d blocks of %d rows follow the first (hint: --blocks is between 1 and that number)", *blocks, *data, most, m.Info().FrameSkip)
		}
		job.Actions = dataset.Moments{Mean: side.ActionMean, Std: side.ActionStd}
		// Published checkpoints do not record how their actions were scaled. Use the
		// moments of this data set, as planning does under the protocol paper.
		if len(side.ActionMean) == 0 {
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
		note += ", already encoded"
	}
	// The file is written in any case: NaN is what the model computes.
	if res.NaN > 0 {
		note += fmt.Sprintf("; %.3g %% of them are NaN or infinite, which suggests that the training diverged", res.NaN)
	}
	_, err = fmt.Fprintf(c.stdout, "%s: %s\n", *out, note)
	return err
}

// blocksIn returns how many blocks of frameSkip rows follow the first row of the
// longest episode.
func blocksIn(src dataset.Source, frameSkip int) (blocks int) {
	for _, ep := range src.Episodes() {
		blocks = max(blocks, (ep.Len-1)/frameSkip)
	}
	return blocks
}

// checkEncoded returns an error if a data set is not a recording of the task that the
// checkpoint was trained on. Published checkpoints record no task, and checkpoints
// trained without a simulator accept any data set.
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
