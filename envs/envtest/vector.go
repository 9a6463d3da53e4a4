package envtest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"scalewm/envs"
	"scalewm/envs/vector"
)

// worlds is how many worlds stand side by side.
const worlds = 5

// many is the worlds side by side with room for what they report.
type many struct {
	*vector.Worlds
	out    []envs.Step
	cols   [][]float64 // (worlds, Width) of each column
	frames []byte
}

func (s suite) many(t *testing.T, workers int, id uint64) *many {
	t.Helper()
	made := make([]envs.Env, worlds)
	for i := range made {
		e, err := s.New(nil)
		must(t, err)
		made[i] = e
	}
	w := vector.Of(s.s, made, workers)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	m := &many{Worlds: w, out: make([]envs.Step, worlds), frames: make([]byte, worlds*envs.FrameBytes)}
	for _, c := range s.s.Columns {
		m.cols = append(m.cols, make([]float64, worlds*c.Width))
	}
	streams := make([]*rand.Rand, worlds)
	for i := range streams {
		streams[i] = stream(id + uint64(i))
	}
	must(t, w.Reset(streams))
	return m
}

// vector: worlds side by side report the bytes of the same worlds one by one,
// whatever the number of workers, and allocate nothing for a world.
func (s suite) vector(t *testing.T) {
	acts := make([][]float64, steps) // a row has the actions of all worlds
	for i := range acts {
		acts[i] = slices.Concat(s.actions(uint64(60+i), worlds)...)
	}
	for _, workers := range []int{1, 2, worlds + 1} {
		one := make([]envs.Env, worlds)
		for i := range one {
			one[i] = s.started(t, uint64(50+i))
		}
		m := s.many(t, workers, 50)
		for k, a := range acts {
			must(t, m.Step(a, m.out))
			must(t, m.report(s.s, k%frameEvery == 0))
			for i, e := range one {
				if err := s.sameWorld(m, i, e, a, k%frameEvery == 0); err != nil {
					t.Fatalf("%d workers, step %d, world %d: %v", workers, k, i, err)
				}
			}
		}
		t.Run("Garbage", func(t *testing.T) { s.noGarbage(t, m, acts, workers) })
	}
}

// report reads every column of all worlds, and draws them if told to.
func (m *many) report(s *envs.Spec, draw bool) error {
	for j, c := range s.Columns {
		if err := m.Observe(c.Name, m.cols[j]); err != nil {
			return err
		}
	}
	if !draw {
		return nil
	}
	return m.Frames(m.frames)
}

// sameWorld steps the single world e on its share of the actions and compares.
func (s suite) sameWorld(m *many, i int, e envs.Env, actions []float64, draw bool) error {
	n := s.s.ActionDim
	st, err := e.Step(actions[i*n : (i+1)*n])
	if err != nil {
		return err
	}
	if st != m.out[i] {
		return fmt.Errorf("the step says %+v, alone %+v", m.out[i], st)
	}
	row, err := s.row(e)
	if err != nil {
		return err
	}
	for j, c := range s.s.Columns {
		got, want := m.cols[j][i*c.Width:(i+1)*c.Width], row[c.Name]
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
			return fmt.Errorf("%s is %v, alone %v", c.Name, got, want)
		}
	}
	if !draw {
		return nil
	}
	frame := make([]byte, envs.FrameBytes)
	if err := e.Frame(frame); err != nil {
		return err
	}
	if !bytes.Equal(frame, m.frames[i*envs.FrameBytes:(i+1)*envs.FrameBytes]) {
		return fmt.Errorf("the frame differs from the one drawn alone")
	}
	return nil
}

// noGarbage allows a call the few objects that its goroutines need, which do not
// grow with the number of worlds or with what a world does.
func (s suite) noGarbage(t *testing.T, m *many, acts [][]float64, workers int) {
	t.Helper()
	calls := len(s.s.Columns) + 2 // all columns, the step and the frames
	allowed := float64(calls * (6 + 2*workers))
	var failed error
	k := 0
	if n := testing.AllocsPerRun(frameEvery, func() {
		if err := m.Step(acts[k%steps], m.out); err != nil {
			failed = err
		}
		if err := m.report(s.s, true); err != nil {
			failed = err
		}
		k++
	}); n > allowed || failed != nil {
		t.Errorf("worlds side by side allocate %g times in %d calls, allowed are %g (%v)", n, calls, allowed, failed)
	}
}
