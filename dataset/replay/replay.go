// Package replay applies the actions of a recorded file in a task's simulator and
// measures how far its states, frames and success flags are from the recorded ones.
// It shows whether a simulator equals the reference implementation that made the
// recording.
//
// [Run] replays a file and returns a [Report]. By default an episode starts from its
// first row and errors accumulate; with Options.OneStep every row is computed from
// the recorded row before it, which shows where a difference comes from. Options.Out
// receives what was simulated, for example to write it as a new data set.
//
// The package knows tasks only through package envs and files only through
// dataset.Source. A new task or file format needs no change here.
package replay

import (
	"context"
	"fmt"

	"scalewm/dataset"
	"scalewm/envs"
)

// Options says what to replay and how.
type Options struct {
	// File is the name of the recording for the report.
	File string
	// Task is the name of the task; "" takes the file's attribute env.
	Task string
	// Episodes is the number of episodes to replay, from the first; 0 means all.
	Episodes int
	// Pixels draws frames and compares them too.
	Pixels bool
	// OneStep computes every row by one step from the recorded row before it, so that
	// errors do not accumulate. Rows from which an exact restart is impossible are
	// left out.
	OneStep bool
	// FromControl applies the recorded output of the controller instead of the
	// actions, in tasks that are envs.Controlled. This separates errors of the
	// controller from those of the physics.
	FromControl bool
	// PerEpisode adds a report for every episode.
	PerEpisode bool
	// Out receives what was simulated. It may be nil.
	Out Recorder
	// Progress is called with the number of rows done. It may be nil.
	Progress func(done, total int64, note string)
}

// Recorder receives what was simulated, episode by episode.
type Recorder interface {
	// Start is called once, before the first episode.
	Start(columns []envs.Column, frames bool, attrs map[string]string) error
	// Episode receives every column, row-major, and one frame per row or none. The
	// recorder may keep the slices.
	Episode(columns map[string][]float64, frames [][]byte) error
}

// Run replays a recording. It returns the error of ctx if that ends between two rows.
func Run(ctx context.Context, src dataset.Source, opt Options) (*Report, error) {
	p, err := newPlayer(src, opt)
	if err != nil {
		return nil, fmt.Errorf("replaying %s: %w", opt.File, err)
	}
	defer p.env.Close()
	if err := p.run(ctx); err != nil {
		return nil, fmt.Errorf("replaying %s: %w", opt.File, err)
	}
	return p.report(), nil
}

// run plays the episodes in order.
func (p *player) run(ctx context.Context) error {
	if err := p.out.start(); err != nil {
		return err
	}
	total := 0
	for _, e := range p.episodes {
		total += e.Len
	}
	done := 0
	for i, e := range p.episodes {
		if err := p.load(i, e); err != nil {
			return fmt.Errorf("episode %d: %w", i, err)
		}
		for t := range e.Len {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := p.row(t); err != nil {
				return fmt.Errorf("episode %d, towards row %d: %w", i, t, err)
			}
			if done++; p.opt.Progress != nil {
				p.opt.Progress(int64(done), int64(total), "")
			}
		}
		if err := p.finish(); err != nil {
			return fmt.Errorf("episode %d: %w", i, err)
		}
	}
	return nil
}
