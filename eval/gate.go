package eval

import (
	"context"
	"fmt"

	"scalewm/dataset/rng"
	"scalewm/envs"
)

// The render gate compares gateRows rows; a mean absolute error above
// MaxRenderError grey levels means that the task is not drawn as it was
// recorded, and every plan but the first would see another world (docs/sources.md#render-gate).
const (
	gateRows       = 20
	MaxRenderError = 3.0
)

// RenderGate puts the task into recorded states, draws it and returns the mean
// absolute difference from the stored frames in levels a byte. Beyond
// MaxRenderError it is also an error.
func RenderGate(ctx context.Context, d *Data) (float64, error) {
	e, err := d.task.New(nil)
	if err != nil {
		return 0, fmt.Errorf("render gate of %s: %w", d.task.Spec.Name, err)
	}
	defer e.Close()
	v := newValidStarts(d.lengths())
	if v.count == 0 {
		return 0, fmt.Errorf("render gate of %s: no episode of the data set is longer than %d rows (hint: collect longer episodes)", d.task.Spec.Name, GoalOffset)
	}
	r := rng.Stream("render gate", d.Fingerprint)
	sum := 0.0
	for range gateRows {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		diff, err := d.renderError(e, v.at(r.IntN(v.count)))
		if err != nil {
			return 0, fmt.Errorf("render gate of %s: %w", d.task.Spec.Name, err)
		}
		sum += diff
	}
	mean := sum / gateRows
	if mean > MaxRenderError {
		return mean, fmt.Errorf("render gate of %s: frames drawn here differ from the stored ones by %.2f levels on average, more than %.1f (hint: was the data set drawn by another renderer or with other options?)", d.task.Spec.Name, mean, MaxRenderError)
	}
	return mean, nil
}

// renderError is the mean absolute difference at one start.
func (d *Data) renderError(e envs.Env, s Start) (float64, error) {
	if err := d.place(e, s, d.task.Spec.Name, "render gate"); err != nil {
		return 0, err
	}
	ours, stored := make([]byte, envs.FrameBytes), make([]byte, envs.FrameBytes)
	if err := e.Frame(ours); err != nil {
		return 0, fmt.Errorf("drawing row %d: %w", d.fileRow(s), err)
	}
	if err := d.Frame(d.fileRow(s), stored); err != nil {
		return 0, fmt.Errorf("reading the frame of row %d: %w", d.fileRow(s), err)
	}
	sum := 0
	for i, v := range ours {
		if v > stored[i] {
			sum += int(v - stored[i])
		} else {
			sum += int(stored[i] - v)
		}
	}
	return float64(sum) / float64(len(ours)), nil
}
