package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"scalewm/dataset/rng"
	"scalewm/envs"
)

// EnvReport is the speed of the simulated worlds, one world on one core.
type EnvReport struct {
	Tasks map[string]*EnvSpeed `json:"tasks"`
	RSSMB float64              `json:"rss_mb"`
	Peer  *PeerReport          `json:"peer,omitempty"` // in milliseconds per step
}

// EnvSpeed is the speed of a task under uniform random actions: of steps alone, and of
// steps each followed by drawing a frame. Numbers of a missing peer are 0.
type EnvSpeed struct {
	StepsPerS      float64 `json:"steps_per_s"`
	FramesPerS     float64 `json:"frames_per_s"`
	PeerStepsPerS  float64 `json:"peer_steps_per_s"`
	PeerFramesPerS float64 `json:"peer_frames_per_s"`
	Ratio          float64 `json:"ratio"`
	FramesRatio    float64 `json:"frames_ratio"`
	// Missing is the reason why the task could not be measured on this machine.
	Missing string `json:"missing,omitempty"`
}

// envTurn is the duration of one run of a world. A run has at least one step.
const envTurn = 100 * time.Millisecond

// benchEnv measures all tasks.
func benchEnv(ctx context.Context, b *Bench) error {
	r := &EnvReport{Tasks: map[string]*EnvSpeed{}}
	b.report.Env = r
	return r.fill(ctx, b, envs.Names())
}

// fill measures the given tasks. One peer serves all of them, since starting Python and
// its packages takes much longer than a measurement.
func (r *EnvReport) fill(ctx context.Context, b *Bench, tasks []string) error {
	p, err := b.startPeer(ctx, "env", map[string]any{"tasks": tasks, "seconds": envTurn.Seconds()})
	if err != nil {
		return err
	}
	defer p.kill()
	medians := map[string]float64{}
	for _, name := range tasks {
		b.Note("%d rounds of %s", b.Rounds, name)
		if r.Tasks[name], err = b.timeTask(ctx, name, p, medians); err != nil {
			return err
		}
	}
	r.RSSMB = peakMB()
	if r.Peer, err = p.finish(medians); err != nil || p == nil {
		return err
	}
	for name, s := range r.Tasks {
		s.PeerStepsPerS, s.PeerFramesPerS = over(1000, r.Peer.MS[name+"/step"]), over(1000, r.Peer.MS[name+"/frame"])
		s.Ratio, s.FramesRatio = over(s.StepsPerS, s.PeerStepsPerS), over(s.FramesPerS, s.PeerFramesPerS)
	}
	return nil
}

// timeTask times our world and the peer's, alternating, and adds the medians of both to
// medians. A task that this machine cannot run, for example for lack of libmujoco, is
// reported as missing instead of ending the benchmark.
func (b *Bench) timeTask(ctx context.Context, name string, p *peer, medians map[string]float64) (*EnvSpeed, error) {
	t, err := envs.Lookup(name)
	if err != nil {
		return nil, err
	}
	w := &timedWorld{px: make([]byte, envs.FrameBytes)}
	if w.Env, err = t.New(nil); err != nil {
		return &EnvSpeed{Missing: err.Error()}, nil
	}
	defer w.Close()
	r := rng.Stream("bench", name)
	err = w.Reset(r)
	// Draw the actions in advance, so that their random numbers are not timed.
	for range 1000 {
		a := make([]float64, t.Spec.ActionDim)
		for i := range a {
			a[i] = t.Spec.ActionLow[i] + (t.Spec.ActionHigh[i]-t.Spec.ActionLow[i])*r.Float64()
		}
		w.actions = append(w.actions, a)
	}
	if err == nil {
		err = w.Frame(w.px)
	}
	if err != nil {
		return &EnvSpeed{Missing: err.Error()}, nil
	}
	w.begin = w.Snapshot()
	found, err := b.alternate(ctx, append([]contender{
		{"step", func(context.Context) (float64, error) { return w.turn(false) }},
		{"frame", func(context.Context) (float64, error) { return w.turn(true) }},
	}, p.contenders(name)...))
	if err != nil {
		return nil, err
	}
	maps.Copy(medians, found)
	return &EnvSpeed{StepsPerS: 1000 / found["step"], FramesPerS: 1000 / found["frame"]}, nil
}

// timedWorld is a world that is stepped with given actions from a given state.
type timedWorld struct {
	envs.Env
	actions [][]float64
	begin   envs.Snapshot
	px      []byte
}

// turn returns the time of a step in milliseconds. Every run begins in the same state
// with the same actions: the time of a step depends on contacts, so runs would differ
// otherwise.
func (w *timedWorld) turn(draw bool) (float64, error) {
	if err := w.Restore(w.begin); err != nil {
		return 0, err
	}
	began, n, each := time.Now(), 0, 10
	if draw {
		each = 1 // with software rendering a frame takes long
	}
	// Look at the clock only every few steps, since a step of a planar task is short.
	for time.Since(began) < envTurn {
		for range each {
			i := n % len(w.actions)
			if i == 0 && n > 0 {
				if err := w.Restore(w.begin); err != nil {
					return 0, err
				}
			}
			if _, err := w.Step(w.actions[i]); err != nil {
				return 0, err
			}
			if draw {
				if err := w.Frame(w.px); err != nil {
					return 0, err
				}
			}
			n++
		}
	}
	return milliseconds(began) / float64(n), nil
}

// print writes the report for readers.
func (r *EnvReport) print(w io.Writer) {
	fmt.Fprintf(w, "worlds, one core (peak memory %.0f MB)\n", r.RSSMB)
	for _, name := range slices.Sorted(maps.Keys(r.Tasks)) {
		s := r.Tasks[name]
		if s.Missing != "" {
			fmt.Fprintf(w, "  %-10s missing: %s\n", name, s.Missing)
			continue
		}
		fmt.Fprintf(w, "  %-10s %9.0f steps/s, %7.0f drawn", name, s.StepsPerS, s.FramesPerS)
		if r.Peer != nil {
			fmt.Fprintf(w, "; peer %.0f and %.0f; ratio %.1f and %.1f", s.PeerStepsPerS, s.PeerFramesPerS, s.Ratio, s.FramesRatio)
		}
		fmt.Fprintln(w)
	}
	if r.Peer != nil {
		fmt.Fprintf(w, "  peer: %s\n  milliseconds: ", r.Peer.Version)
		r.Peer.print(w)
	}
}
