package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/replay"
	"scalewm/envs"
)

func init() {
	register(verb{name: "replay", args: "F.h5", summary: "replay recorded actions in the simulator and report the differences",
		example: "scalewm replay recording.h5 --pixels\nscalewm replay recording.h5 --one-step --json\nscalewm replay recording.h5 --episodes 20 --pixels --out ours.h5", run: runReplay})
}

// runReplay replays the recorded actions of a data set in the simulator and compares
// the results with the recorded rows. Differences are the result and not an error:
// exitDone.
//
// Stdout has tables of differences by column, of frames and of terminations, or one
// JSON object. With --out the simulated episodes are written to a new data set, which
// an interrupt does not leave half-written.
func runReplay(ctx context.Context, c *command, args []string) error {
	var opt replay.Options
	c.StringVar(&opt.Task, "task", "", "`name` of the task, if the file does not record it")
	episodes := c.Positive("episodes", 0, "replay only the first `n` episodes")
	c.BoolVar(&opt.Pixels, "pixels", false, "draw every row and compare it with the recorded frame")
	c.BoolVar(&opt.OneStep, "one-step", false, "start every row from the recorded row before it and take one step")
	c.BoolVar(&opt.FromControl, "from-ctrl", false, "apply the recorded controls (sim_ctrl) instead of the actions")
	c.BoolVar(&opt.PerEpisode, "per-episode", false, "also report each episode")
	out := c.String("out", "", "write the simulated episodes to this `file`")
	force := c.forceFlag()
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	pos, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if *out == "" { // nothing is written
		if err := c.noEffect("without --out", "force"); err != nil {
			return err
		}
	}
	opt.File, opt.Episodes = pos[0], *episodes
	if err := c.mayWrite(*out, opt.File, *force); err != nil {
		return err
	}
	r, err := replayFile(ctx, opt, *out, c.stderr)
	if err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(r)
	}
	return printReplay(c.stdout, r)
}

// replayFile replays opt.File. If out is not "", it also writes the simulated
// episodes to a data set of that name, which appears only if the replay succeeds.
func replayFile(ctx context.Context, opt replay.Options, out string, stderr io.Writer) (*replay.Report, error) {
	src, err := hdf5.Open(opt.File)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	bar := newProgress(stderr, "replay")
	defer bar.close()
	opt.Progress = bar.report
	if out == "" {
		return replay.Run(ctx, src, opt)
	}
	rec := &replayWriter{path: out}
	opt.Out = rec
	r, err := replay.Run(ctx, src, opt)
	// Run fails before Start if the file cannot be replayed at all; nothing was created then.
	if rec.w == nil {
		return nil, err
	}
	if err != nil {
		rec.w.Abort()
		return nil, err
	}
	return r, rec.w.Close()
}

// replayWriter is a replay.Recorder that writes a data set.
type replayWriter struct {
	path string
	w    *hdf5.Writer
}

// Start implements replay.Recorder.
func (r *replayWriter) Start(columns []envs.Column, frames bool, attrs map[string]string) (err error) {
	// The writer adds its own columns for the indices of episode and step.
	columns = slices.DeleteFunc(slices.Clone(columns), func(c envs.Column) bool {
		return c.Name == "ep_idx" || c.Name == "step_idx"
	})
	opt := hdf5.WriterOptions{Columns: columns, Attrs: attrs}
	if frames {
		opt.FrameSize = envs.FrameSize
	}
	r.w, err = hdf5.Create(r.path, opt)
	return err
}

// Episode implements replay.Recorder.
func (r *replayWriter) Episode(columns map[string][]float64, frames [][]byte) error {
	return r.w.Append(hdf5.EpisodeData{Columns: columns, Frames: frames})
}

// printReplay prints a report: a table of columns, then frames, terminations and what
// could not be compared.
func printReplay(w io.Writer, r *replay.Report) error {
	fmt.Fprintf(w, "%s: task %s, %d episodes, %d rows", r.File, r.Env, r.Episodes, r.Rows)
	if r.LeftOut != nil {
		fmt.Fprintf(w, " (one step each; %d left out)", *r.LeftOut)
	}
	fmt.Fprint(w, "\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "column\tmax difference\tequal rows\tof\tfirst difference at\tworst at (episode, row)\n")
	for _, name := range slices.Sorted(maps.Keys(r.Columns)) {
		c := r.Columns[name]
		first, worst := "-", "-"
		if c.First != nil {
			first = fmt.Sprintf("%d, %d", c.First.Episode, c.First.Row)
			worst = fmt.Sprintf("%d, %d", c.Worst.Episode, c.Worst.Row)
		}
		fmt.Fprintf(t, "%s\t%.3g\t%d\t%d\t%s\t%s\n", name, c.MaxAbs, c.RowsEqual, c.Rows, first, worst)
	}
	t.Flush()
	// Frames exist only with --pixels. "Moving bytes" are those that do not always have the
	// same value: the static background would hide differences in the mean over all.
	if f := r.Frames; f.Count > 0 {
		fmt.Fprintf(w, "\nframes      %d compared: mean difference %.3g levels (moving bytes %.3g), at most %d, in at most %d bytes of a frame\n",
			f.Count, f.Mean, f.Moving, f.Max, f.WorstBytes)
	}
	if f := r.Terminated; f.Compared > 0 {
		fmt.Fprintf(w, "\nterminated  %d wrong of %d\n", f.Wrong, f.Compared)
	}
	if len(r.NotCompared) > 0 {
		fmt.Fprintf(w, "\nnot compared: %s\n", strings.Join(r.NotCompared, ", "))
	}
	if len(r.PerEpisode) > 0 {
		printReplayEpisodes(w, r)
	}
	return nil
}

// printReplayEpisodes prints a line for each episode, with its worst column.
func printReplayEpisodes(w io.Writer, r *replay.Report) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "episode\tlargest difference\tin column\tframes: mean\tmax\tterminated wrong\n")
	for _, e := range r.PerEpisode {
		// The column with the largest difference; the first of equals by name.
		worst, in := 0.0, "-"
		for _, name := range slices.Sorted(maps.Keys(e.Columns)) {
			if d := e.Columns[name].MaxAbs; d > worst {
				worst, in = d, name
			}
		}
		fmt.Fprintf(t, "%d\t%.3g\t%s\t%.3g\t%d\t%d\n", e.Index, worst, in, e.Frames.Mean, e.Frames.Max, e.Terminated.Wrong)
	}
	t.Flush()
}
