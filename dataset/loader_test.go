package dataset

import (
	"bytes"
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"scalewm/envs"
)

func newTestLoader(t *testing.T, src *fake, workers int) *Loader {
	t.Helper()
	action, err := ColumnMoments(src, "action", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	q, err := QMoments(src, testQ, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLoader(src, Original(src), Clips(src, 4, 5), LoaderOptions{Batch: 3, Frames: 4, Skip: 5, Seed: 5,
		Workers: workers, Action: action, Q: &testQ, QMoments: q})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// keep copies a batch that a test compares later, since its memory is reused.
func keep(b *Batch) Batch {
	return Batch{b.Step, slices.Clone(b.Clips), slices.Clone(b.Rows), bytes.Clone(b.Pixels), slices.Clone(b.Actions), slices.Clone(b.Q), slices.Clone(b.Episode), slices.Clone(b.Left)}
}

func mustBatch(t *testing.T, l *Loader, step int) *Batch {
	t.Helper()
	b, err := l.Batch(context.Background(), step)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A batch has the data of its clips, compared here with the source itself.
func TestBatchContents(t *testing.T) {
	src := newFake(t, 23, 30, 21)
	l := newTestLoader(t, src, 2)
	frame := make([]byte, envs.FrameBytes)
	for step := range 4 {
		b := mustBatch(t, l, step)
		for i, c := range b.Clips {
			if int(b.Episode[i]) != c.Episode {
				t.Errorf("clip %d of episode %d is said to be of %d", i, c.Episode, b.Episode[i])
			}
			for k := range 4 {
				row := c.Row + 5*k
				if b.Rows[i*4+k] != int32(row) {
					t.Errorf("step %d clip %d frame %d is said to be row %d, not %d", step, i, k, b.Rows[i*4+k], row)
				}
				if err := src.Frame(row, frame); err != nil {
					t.Fatal(err)
				}
				if at := (i*4 + k) * envs.FrameBytes; !bytes.Equal(b.Pixels[at:at+envs.FrameBytes], frame) {
					t.Errorf("step %d clip %d frame %d is not row %d", step, i, k, row)
				}
				if q, want := b.Q[(i*4+k)*2], l.opt.QMoments.Scale(0, float64(row)); q != float32(want) {
					t.Errorf("q of row %d is %v, want %v", row, q, want)
				}
			}
			// 20 rows of 2 actions, time-major; NaN (last row of an episode) is 0.
			for s := range 20 {
				for d := range 2 {
					raw := src.action[(c.Row+s)*2+d]
					want := float32(l.opt.Action.Scale(d, raw))
					if math.IsNaN(raw) {
						want = 0
					}
					if got := b.Actions[i*40+s*2+d]; got != want {
						t.Errorf("clip %d action %d,%d is %v, want %v", i, s, d, got, want)
					}
				}
			}
		}
	}
}

// The batch of a step does not depend on the workers or on the steps requested
// before.
func TestBatchIsAFunctionOfTheStep(t *testing.T) {
	src := newFake(t, 23, 30, 21)
	straight := newTestLoader(t, src, 3)
	per := straight.StepsPerEpoch() // 4 + 11 + 2 clips: 5 batches of 3
	if per != 5 {
		t.Fatalf("%d steps an epoch", per)
	}
	var want []Batch
	for step := range 3 * per {
		want = append(want, keep(mustBatch(t, straight, step)))
	}
	other := newTestLoader(t, src, 1)
	for _, step := range []int{7, 8, 9, 2, 3, 14, 0, 0, 1, 13, 14} {
		got := keep(mustBatch(t, other, step))
		if !reflect.DeepEqual(want[step], got) {
			t.Fatalf("step %d differs: clips %v, want %v", step, got.Clips, want[step].Clips)
		}
	}
}

// newGoalLoader returns a loader of clips of two frames and a goal in episodes of 3, 4 and
// 9 rows: 1, 2 and 7 clips.
func newGoalLoader(t *testing.T, frames FrameReader, most, workers int) *Loader {
	t.Helper()
	src := newFake(t, 3, 4, 9)
	cut, err := Cut(src, Paper, 3, 1, 5)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLoader(src, frames, slices.Concat(cut.Train, cut.Val), LoaderOptions{Batch: 10, Frames: 3, Skip: 1, Seed: 5, Workers: workers,
		Action: cut.Action, Q: &testQ, QMoments: Moments{Mean: []float64{0, 0}, Std: []float64{1, 1}}, Goals: true, MaxGoal: most})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Goals are uniform on the rows that remain of the episode, or on the first MaxGoal of
// them: 2000 draws of one of k distances have counts within 5 standard deviations of
// 2000/k.
func TestGoals(t *testing.T) {
	const steps = 2000
	for _, most := range []int{0, 3} {
		l := newGoalLoader(t, nil, most, 2)
		counts := map[Clip]map[int]int{}
		for step := range steps { // each has all ten clips
			b := mustBatch(t, l, step)
			for i, c := range b.Clips {
				if counts[c] == nil {
					counts[c] = map[int]int{}
				}
				counts[c][int(b.Left[i])]++
			}
		}
		if len(counts) != 10 {
			t.Errorf("%d clips, want 10", len(counts))
		}
		for c, of := range counts {
			e := l.episodes[c.Episode]
			k := e.Offset + e.Len - 2 - c.Row
			if most > 0 {
				k = min(k, most)
			}
			each := steps / float64(k)
			for left, n := range of {
				if left < 1 || left > k || math.Abs(float64(n)-each) > 5*math.Sqrt(each*(1-1/float64(k))) {
					t.Errorf("at most %d: clip %v has its goal %d rows later %d times, want %g times each of 1 to %d", most, c, left, n, each, k)
				}
			}
			if len(of) != k {
				t.Errorf("at most %d: clip %v has %d distances, want %d", most, c, len(of), k)
			}
		}
	}
}

// The last place of a clip has row, state and frame of the goal. Like everything else,
// goals are a function of the step.
func TestGoalContents(t *testing.T) {
	src := newFake(t, 3, 4, 9)
	straight, other := newGoalLoader(t, Original(src), 0, 3), newGoalLoader(t, Original(src), 0, 1)
	frame := make([]byte, envs.FrameBytes)
	var want []Batch
	for step := range 4 {
		b := keep(mustBatch(t, straight, step))
		for i, c := range b.Clips {
			if rows := []int32{int32(c.Row), int32(c.Row + 1), int32(c.Row+1) + int32(b.Left[i])}; !slices.Equal(b.Rows[3*i:3*i+3], rows) {
				t.Errorf("clip %v with %g left has the rows %v", c, b.Left[i], b.Rows[3*i:3*i+3])
			}
		}
		for at, row := range b.Rows {
			err := src.Frame(int(row), frame)
			if err != nil || !bytes.Equal(frame, b.Pixels[at*len(frame):][:len(frame)]) || b.Q[2*at] != float32(row) {
				t.Errorf("frame %d is not row %d, or its state %g not that of the row, %v", at, row, b.Q[2*at], err)
			}
		}
		want = append(want, b)
	}
	if slices.Equal(want[0].Left, want[1].Left) {
		t.Error("two steps have the same distances")
	}
	for _, step := range []int{2, 3, 1, 0} {
		if got := keep(mustBatch(t, other, step)); !reflect.DeepEqual(want[step], got) {
			t.Errorf("step %d differs: %v left, want %v", step, got.Left, want[step].Left)
		}
	}
}

// An epoch has each clip at most once, and the next epoch has another order.
func TestEpochs(t *testing.T) {
	l := newTestLoader(t, newFake(t, 23, 30, 21), 2)
	var orders [2][]Clip
	for step := range 10 {
		b := mustBatch(t, l, step)
		orders[step/5] = append(orders[step/5], b.Clips...)
	}
	for _, o := range orders {
		seen := map[Clip]bool{}
		for _, c := range o {
			if seen[c] {
				t.Errorf("clip %v twice in an epoch", c)
			}
			seen[c] = true
		}
	}
	if slices.Equal(orders[0], orders[1]) {
		t.Error("both epochs have one order")
	}
}

// counted is a HostMemory that counts calls.
type counted struct{ given, back int }

func (c *counted) AllocHost(n int) []byte { c.given++; return make([]byte, n) }
func (c *counted) FreeHost([]byte)        { c.back++ }

// A batch is unchanged while the next one is in use, in memory of the device too.
func TestTwoBatchesAtOnce(t *testing.T) {
	src := newFake(t, 23, 30, 21)
	o := newTestLoader(t, src, 2).opt
	memory := &counted{}
	o.Pixels = memory
	l, err := NewLoader(src, Original(src), Clips(src, 4, 5), o)
	if err != nil {
		t.Fatal(err)
	}
	before := mustBatch(t, l, 0)
	for step := range 12 {
		want := keep(before)
		next := mustBatch(t, l, step+1)
		for _, f := range l.ahead {
			<-f.done
		}
		if !reflect.DeepEqual(keep(before), want) {
			t.Fatalf("the batch of step %d changed while that of the next was used", step)
		}
		before = next
	}
	if l.Close(); memory.given == 0 || memory.given != memory.back || memory.given > prefetch+3 {
		t.Errorf("%d pieces of memory were asked for and %d given back", memory.given, memory.back)
	}
}

// A loader without frames returns the same rows.
func TestWithoutFrames(t *testing.T) {
	src := newFake(t, 23, 30, 21)
	src.badFrame = 40
	o := newTestLoader(t, src, 2).opt
	l, err := NewLoader(src, nil, Clips(src, 4, 5), o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for step := range 7 {
		b := mustBatch(t, l, step)
		if b.Pixels != nil || b.Rows[4] != int32(b.Clips[1].Row) || b.Rows[7] != int32(b.Clips[1].Row+15) || len(b.Actions) == 0 {
			t.Errorf("step %d: %d bytes of frames, rows %v of clips %v", step, len(b.Pixels), b.Rows, b.Clips)
		}
	}
}

// ReadFrames returns the requested rows with any number of goroutines, and its error
// names the row that cannot be read.
func TestReadFrames(t *testing.T) {
	src := newFake(t, 30)
	want := make([]byte, 5*envs.FrameBytes)
	for i := range 5 {
		if err := src.Frame(7+i, want[i*envs.FrameBytes:][:envs.FrameBytes]); err != nil {
			t.Fatal(err)
		}
	}
	for _, workers := range []int{0, 1, 3, 9} {
		got := make([]byte, len(want))
		if err := ReadFrames(context.Background(), Original(src), 7, 12, got, workers); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d workers: %v, or other frames", workers, err)
		}
	}
	src.badFrame = 11
	if err := ReadFrames(context.Background(), Original(src), 7, 12, want, 2); err == nil || !strings.Contains(err.Error(), "does not decode") {
		t.Errorf("a bad frame: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := ReadFrames(ctx, Original(src), 0, 5, want, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestLoaderErrors(t *testing.T) {
	src := newFake(t, 20, 20)
	if _, err := NewLoader(src, Original(src), Clips(src, 4, 5), LoaderOptions{Batch: 3, Frames: 4, Skip: 5}); err == nil {
		t.Error("2 clips make no batch of 3")
	}
	src = newFake(t, 23, 30, 21)
	src.badFrame = 40
	l := newTestLoader(t, src, 2)
	var failed error
	for step := 0; step < 5 && failed == nil; step++ {
		_, failed = l.Batch(context.Background(), step)
	}
	if failed == nil {
		t.Error("a frame that does not decode goes unnoticed")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l = newTestLoader(t, newFake(t, 60), 1)
	if _, err := l.Batch(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A cancelled context ends the wait for a batch, also while a batch of another step
// is being fetched. Close then waits for the current frame only.
func TestLoaderInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	src := newFake(t, 60)
	stuck := &stuckFrames{Original(src), make(chan struct{}), cancel}
	l, err := NewLoader(src, stuck, Clips(src, 4, 5), LoaderOptions{Batch: 3, Frames: 4, Skip: 5, Workers: 1, Action: Moments{Mean: make([]float64, 2), Std: []float64{1, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []int{0, 7} {
		if _, err := l.Batch(ctx, step); !errors.Is(err, context.Canceled) {
			t.Errorf("step %d: %v", step, err)
		}
	}
	close(stuck.free)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// stuckFrames cancels when a frame is requested, and blocks until it is released.
type stuckFrames struct {
	FrameReader
	free   chan struct{}
	cancel func()
}

func (s *stuckFrames) Frame(row int, dst []byte) error {
	s.cancel()
	<-s.free
	return s.FrameReader.Frame(row, dst)
}

func BenchmarkLoader(b *testing.B) {
	src := newFake(b, 100, 100, 100)
	l, err := NewLoader(src, Original(src), Clips(src, 4, 5), LoaderOptions{Batch: 32, Frames: 4, Skip: 5,
		Action: Moments{Mean: make([]float64, 2), Std: []float64{1, 1}}})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	step := 0
	for b.Loop() {
		if _, err := l.Batch(context.Background(), step); err != nil {
			b.Fatal(err)
		}
		step++
	}
	b.ReportMetric(float64(32*b.N)/b.Elapsed().Seconds(), "clips/s")
}
