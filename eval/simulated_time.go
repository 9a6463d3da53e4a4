package eval

import (
	"fmt"
	"math"
	"time"

	"scalewm/dataset/rng"
	"scalewm/envs"
	"scalewm/eval/results"
)

// SimulatorTime is how long a world of a task takes on this machine, in seconds.
type SimulatorTime struct {
	Step, Frame float64
	// Alone says that a process draws one frame at a time.
	Alone bool
}

// Size of the measurement of a SimulatorTime.
const (
	timedSteps  = 100
	timedFrames = 4
)

// TimeSimulator measures a world of a task after its first frame, which takes longer.
func TimeSimulator(task envs.Task, r results.Rules) (t SimulatorTime, err error) {
	w, err := newWorld(task, r)
	if err != nil {
		return t, err
	}
	defer w.Close()
	px := make([]byte, envs.FrameBytes)
	if err = w.Reset(rng.Stream("simulator time")); err == nil {
		err = w.Frame(px)
	}
	at := w.Snapshot()
	began := time.Now()
	for k := 0; k < timedSteps && err == nil; k++ {
		if k%results.UsualBlock == 0 {
			err = w.Restore(at)
		}
		if err == nil {
			_, err = w.Step(task.Spec.ActionHigh)
		}
	}
	t.Step = time.Since(began).Seconds() / timedSteps
	began = time.Now()
	for k := 0; k < timedFrames && err == nil; k++ {
		err = w.Frame(px)
	}
	t.Frame = time.Since(began).Seconds() / timedFrames
	_, t.Alone = w.(envs.Drawer)
	return t, err
}

// Plan returns the seconds of one plan of a search in the simulator: its candidates' steps
// and, if they are drawn, their frames, without the model's encoding.
func (s SimulatorTime) Plan(drawn bool, t Tier, r results.Rules, workers int) float64 {
	n, each := float64(t.Candidates*t.Iterations), float64(max(workers, 1))
	seconds := n * float64(r.Horizon*r.Steps()) * s.Step / each
	if drawn && s.Alone {
		each = 1
	}
	if drawn {
		seconds += n * s.Frame / each
	}
	return seconds
}

// Plans returns the largest number of plans of an episode.
func Plans(r results.Rules) int {
	return int(math.Ceil(float64(r.Budget) / float64(r.Executed()*r.Steps())))
}

// costNote says what the given sets of a job cost, if it searches in the simulator.
func (j Job) costNote(sets int) (string, error) {
	if !j.Arm.Replaced.Simulator {
		return "", nil
	}
	s, err := TimeSimulator(j.Task, j.Rules)
	if err != nil {
		return "", err
	}
	drawn, frame, encoding := j.Arm.Replaced.Draws(), "", ""
	if drawn {
		frame, encoding = " and a frame", " without encoding"
	}
	seconds := s.Plan(drawn, j.Tier, j.Rules, j.Workers)
	episodes, plans := sets*len(j.Sets[0].Starts), Plans(j.Rules)
	return fmt.Sprintf("%s at %s executes %d candidates of %d env steps%s a plan, about %s%s; %d episodes of up to %d plans take up to %s",
		results.Arm{Wrappers: j.Arm.Replaced.String(), Method: j.Arm.Method}, j.Tier.Name, j.Tier.Candidates*j.Tier.Iterations, j.Horizon*j.Steps(), frame, rounded(seconds), encoding,
		episodes, plans, rounded(seconds*float64(episodes*plans))), nil
}

// rounded formats seconds with two digits or so.
func rounded(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond} {
		if d >= 10*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(100 * time.Microsecond).String()
}
