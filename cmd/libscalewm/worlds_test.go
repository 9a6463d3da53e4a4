package libscalewm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"scalewm/dataset/rng"
	"scalewm/envs"
)

// try performs an operation, with all its slices, and returns the answer.
func try(op string, handle uint64, request any, buffers ...[]byte) (map[string]any, error) {
	c := call{handle: handle, buffers: buffers}
	if request != nil {
		c.request, _ = json.Marshal(request)
	}
	text, again, err := c.do(op)
	for again {
		c.more = true
		text, again, err = c.do(op)
	}
	answer := map[string]any{}
	if text != "" {
		err = json.Unmarshal([]byte(text), &answer)
	}
	return answer, err
}

func must(t *testing.T, op string, handle uint64, request any, buffers ...[]byte) map[string]any {
	t.Helper()
	answer, err := try(op, handle, request, buffers...)
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return answer
}

func newOf(t *testing.T, task string, n int, watch ...string) uint64 {
	t.Helper()
	h := uint64(must(t, "worlds.new", 0, map[string]any{"task": task, "n": n, "workers": 2, "watch": watch})["handle"].(float64))
	must(t, "worlds.make", h, nil)
	t.Cleanup(func() { try("close", h, nil) })
	return h
}

// memoryOfNumbers returns memory for n numbers of the given size, aligned like an allocation.
func memoryOfNumbers(n, size int) []byte { return make([]byte, n*size) }

func seedsOf(n int, first int64) []byte {
	b := memoryOfNumbers(n, 8)
	for i := range n {
		binary.NativeEndian.PutUint64(b[8*i:], uint64(first+int64(i)))
	}
	return b
}

// World i with seed s + i behaves like an Env that is reset with the stream of that seed: same
// observations, frames, rewards and ends, with a reset in the middle.
func TestWorldsAreEnvs(t *testing.T) {
	const n, seed = 5, 40
	h := newOf(t, "tworoom", n, "observation", "pixels")
	obs, frames := memoryOfNumbers(n*10, 4), memoryOfNumbers(n, envs.FrameBytes)
	rewards, ended := memoryOfNumbers(n, 8), memoryOfNumbers(n, 1)
	must(t, "worlds.reset", h, nil, nil, seedsOf(n, seed), obs, frames)

	task, err := envs.Lookup("tworoom")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e, err := task.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		stream := rng.Stream("gymnasium", int64(seed+i))
		actions, again := memoryOfNumbers(2*n, 4), memoryOfNumbers(n, 1)
		must(t, "worlds.reset", h, nil, nil, seedsOf(n, seed), obs, frames)
		if err := e.Reset(stream); err != nil {
			t.Fatal(err)
		}
		for step := range 6 {
			for k := range 2 * n {
				binary.NativeEndian.PutUint32(actions[4*k:], math.Float32bits(float32(step)/8-.3))
			}
			clear(again)
			want := envs.Step{}
			if step == 3 {
				again[i] = 1
				err = e.Reset(stream)
			} else {
				a := float64(float32(step)/8 - .3)
				want, err = e.Step([]float64{a, a})
			}
			if err != nil {
				t.Fatal(err)
			}
			must(t, "worlds.step", h, nil, again, actions, rewards, ended, obs, frames)
			x, pix := make([]float64, 10), make([]byte, envs.FrameBytes)
			if err := e.Observe("observation", x); err != nil {
				t.Fatal(err)
			}
			if err := e.Frame(pix); err != nil {
				t.Fatal(err)
			}
			for k, v := range x {
				if got := math.Float32frombits(binary.NativeEndian.Uint32(obs[4*(10*i+k):])); got != float32(v) {
					t.Fatalf("world %d step %d: observation[%d] = %g, want %g", i, step, k, got, v)
				}
			}
			if string(pix) != string(frames[i*envs.FrameBytes:(i+1)*envs.FrameBytes]) {
				t.Fatalf("world %d step %d: frames differ", i, step)
			}
			if (ended[i] == 1) != want.Terminated {
				t.Fatalf("world %d step %d: ended %d, want %v", i, step, ended[i], want.Terminated)
			}
		}
	}
}

// Every misuse is an error that says what is wrong, and the worlds stay usable.
func TestMisuse(t *testing.T) {
	const n = 2
	h := newOf(t, "tworoom", n, "state")
	state, seeds, actions, rewards, ended := memoryOfNumbers(2*n, 4), seedsOf(n, 1), memoryOfNumbers(2*n, 4), memoryOfNumbers(n, 8), memoryOfNumbers(n, 1)
	nan := memoryOfNumbers(2*n, 4)
	binary.NativeEndian.PutUint32(nan, math.Float32bits(float32(math.NaN())))
	goal := map[string]any{"what": "goal", "columns": []any{map[string]any{"name": "nosuch", "width": 2}}}
	closed := newOf(t, "tworoom", 1)
	must(t, "close", closed, nil)
	for _, c := range []struct {
		op      string
		handle  uint64
		request any
		buffers [][]byte
		want    string
	}{
		{"nosuch", 0, nil, nil, "unknown operation"},
		{"worlds.new", 0, nil, nil, "reading the request"},
		{"worlds.new", 0, map[string]any{"task": "nosuch", "n": 1}, nil, "no task named"},
		{"worlds.new", 0, map[string]any{"task": "tworoom", "n": 0}, nil, "0 worlds"},
		{"worlds.new", 0, map[string]any{"task": "tworoom", "n": 1 << 40}, nil, "worlds"},
		{"worlds.new", 0, map[string]any{"task": "tworoom", "n": 1, "watch": []string{"nosuch"}}, nil, "no column"},
		{"worlds.step", h, nil, [][]byte{nil, actions, rewards, ended, state}, ""}, // before a reset: like an Env
		{"worlds.step", h, nil, [][]byte{{1, 1}, actions, rewards, ended, state}, "needs a seed"},
		{"worlds.reset", h, nil, [][]byte{nil, seedsOf(n, -9), state}, "needs a seed"},
		{"worlds.reset", h, nil, [][]byte{nil, seeds, state}, ""},
		{"worlds.reset", h, nil, [][]byte{nil, seeds}, "2 buffers, not 3"},
		{"worlds.reset", h, nil, [][]byte{{1}, seeds, state}, "choosing worlds"},
		{"worlds.reset", h, nil, [][]byte{nil, seeds[:8], state}, "seeds"},
		{"worlds.reset", h, nil, [][]byte{nil, seeds, state[:7]}, "state: a buffer of 7 bytes, not 16"},
		{"worlds.step", h, nil, [][]byte{nil, nan, rewards, ended, state}, "action[0] is NaN"},
		{"worlds.step", h, nil, [][]byte{nil, actions[:4], rewards, ended, state}, "actions"},
		{"worlds.step", h, nil, [][]byte{nil, actions, rewards[:8], ended, state}, "rewards"},
		{"worlds.step", h, nil, [][]byte{nil, actions, memoryOfNumbers(8*n+1, 1)[1:], ended, state}, "not aligned"},
		{"worlds.set", h, goal, [][]byte{nil, memoryOfNumbers(2*n, 8), state}, "none of the columns"},
		{"worlds.set", h, map[string]any{"what": "nosuch"}, [][]byte{nil, nil, state}, "cannot set"},
		{"worlds.vary", h, map[string]any{"options": map[string]string{"agent.color": "red"}}, [][]byte{nil}, "agent.color"},
		{"worlds.frames", h, nil, [][]byte{memoryOfNumbers(1, 1)}, "frames"},
		{"worlds.observe", closed, nil, nil, "it was closed"},
		{"close", closed, nil, nil, "it was closed"},
		{"worlds.step", h, nil, [][]byte{nil, actions, rewards, ended, state}, ""},
	} {
		_, err := try(c.op, c.handle, c.request, c.buffers...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %v: %v, want %q", c.op, c.request, err, c.want)
		}
	}
}

// A panic is an error of the call, also on a worker's goroutine.
func TestPanics(t *testing.T) {
	operations["test.panic"] = func(call) (any, error) { panic("the operation's") }
	defer delete(operations, "test.panic")
	if _, err := try("test.panic", 0, nil); err == nil || !strings.Contains(err.Error(), "internal error: the operation's at worlds_test.go:") {
		t.Errorf("an operation that panics: %v", err)
	}
	h := newOf(t, "tworoom", 40)
	methods["test.world"] = withoutAnswer(func(w *worlds, c call) (bool, error) {
		return w.each(c, "trying", func(i int) error {
			if i == 7 {
				panic(fmt.Sprint("world ", i))
			}
			return nil
		})
	})
	defer delete(methods, "test.world")
	if _, err := try("test.world", h, nil); err == nil || !strings.Contains(err.Error(), "trying world 7 of 40: internal error: world 7 at worlds_test.go:") {
		t.Errorf("a world that panics: %v", err)
	}
	must(t, "worlds.observe", h, nil)
}

// A call that is abandoned between two slices has no effect on the next one.
func TestSlices(t *testing.T) {
	h := newOf(t, "tworoom", 40)
	o, err := objects.take(h)
	if err != nil {
		t.Fatal(err)
	}
	defer o.use.Unlock()
	w := o.object.(*worlds)
	served := 0
	count := func(int) error { served++; return nil }
	w.at = 16 // as after a call that was abandoned after 16 of 40
	if again, err := w.each(call{more: true}, "counting", count); again || err != nil || served != 24 {
		t.Errorf("going on served %d of 24: %v, %v", served, again, err)
	}
	served, w.at = 0, 16
	if again, err := w.each(call{}, "counting", count); again || err != nil || served != 40 {
		t.Errorf("a new call served %d of 40: %v, %v", served, again, err)
	}
}

// failing is an object whose close fails.
type failing struct{ closed int }

func (f *failing) close() error { f.closed++; return errors.New("the disk is full") }

// An object is closed once, even if that fails, and not while another thread uses it.
func TestClosedOnce(t *testing.T) {
	f := &failing{}
	h := objects.add(f)
	o, err := objects.take(h)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { _, err := try("close", h, nil); closed <- err }()
	select {
	case err := <-closed:
		t.Errorf("closed while it was in use: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	o.use.Unlock()
	if err := <-closed; err == nil || err.Error() != "the disk is full" {
		t.Error(err)
	}
	if _, err := try("close", h, nil); !errors.Is(err, errHandle) || f.closed != 1 {
		t.Errorf("closed %d times, %v", f.closed, err)
	}
}

// Numbers are stored in NumPy's format.
func TestStore(t *testing.T) {
	for dtype, want := range map[string]string{"float64": "[0 0 0 0 0 0 240 63]", "float32": "[0 0 128 63]",
		"int64": "[1 0 0 0 0 0 0 0]", "int32": "[1 0 0 0]", "uint8": "[1]"} {
		dst := make([]byte, sizeOf(dtype))
		store(dst, dtype, []float64{1})
		if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 && fmt.Sprint(dst) != want {
			t.Errorf("1 as %s is %v, want %s", dtype, dst, want)
		}
	}
}

// The type of every column of every task can be stored.
func TestEveryColumnCanBeWatched(t *testing.T) {
	for _, name := range envs.Names() {
		task, _ := envs.Lookup(name)
		for _, c := range task.Spec.Columns {
			if sizeOf(c.DType) == 0 {
				t.Errorf("%s: column %s has the type %s, which cannot be stored", name, c.Name, c.DType)
			}
		}
		if d := task.Spec.ActionDType; d != "float32" && d != "float64" {
			t.Errorf("%s: actions are %s", name, d)
		}
	}
}

// A call that is not complete when another begins on its object gets an error, and does not
// continue at the other's position.
func TestCallsDoNotMix(t *testing.T) {
	const n = 100_000
	h := newOf(t, "tworoom", n, "state")
	request := func() call {
		return call{handle: h, buffers: [][]byte{nil, seedsOf(n, 1), memoryOfNumbers(2*n, 4)}}
	}
	first := request()
	_, again, err := first.do("worlds.reset")
	if err == nil && !again {
		t.Skip("a reset of all worlds ends within one slice here")
	}
	check(t, err)
	second := request()
	_, again, err = second.do("worlds.reset")
	check(t, err)
	first.more = true
	if _, _, err := first.do("worlds.reset"); err == nil || !strings.Contains(err.Error(), "another call began") {
		t.Errorf("the first call went on: %v", err)
	}
	for second.more = true; again && err == nil; {
		_, again, err = second.do("worlds.reset")
	}
	check(t, err)
}
