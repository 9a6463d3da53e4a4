// Package replay drives a task with the actions of a recorded file and measures
// how far our states, frames and success flags are from the recorded ones. It is how a
// simulator is shown to be the original's.
//
// It knows tasks only through envs and files only through dataset.Source; a new
// task or file format needs no change here.
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
	// Task names the task; "" takes the file's attribute env.
	Task string
	// Episodes replays only the first ones; 0 means all.
	Episodes int
	// Pixels compares frames too.
	Pixels bool
	// OneStep sets every row from the recorded row before it and steps once, so
	// that errors do not add up; rows that do not hold enough to restart exactly are left out.
	OneStep bool
	// FromControl drives what the recorded controller computed instead of the
	// actions (tasks that are envs.Controlled).
	FromControl bool
	// PerEpisode adds a report of every episode.
	PerEpisode bool
	// Out receives what was simulated; may be nil.
	Out Recorder
	// Progress counts rows; may be nil.
	Progress func(done, total int64, note string)
}

// Recorder takes what was simulated, episode by episode.
type Recorder interface {
	// Start is called once, before the first episode.
	Start(columns []envs.Column, frames bool, attrs map[string]string) error
	// Episode gets every column row-major, and one frame a row or none.
	Episode(columns map[string][]float64, frames [][]byte) error
}

// Run replays a recording.
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
