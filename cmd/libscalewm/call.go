package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"scalewm/dataset/hdf5"
	"scalewm/envs"
	"scalewm/eval/results"
	"scalewm/mujoco"
	thirdparty "scalewm/third_party"
)

// call is one call of an operation.
type call struct {
	handle  uint64
	more    bool // the operation goes on where its time slice ended
	request []byte
	buffers [][]byte
}

// operations are what scalewm_call does without an object, and methods what it does with one.
var (
	operations = map[string]func(call) (any, error){
		"open":         open,
		"worlds.new":   newWorlds,
		"clips.new":    newClips,
		"model.load":   loadCheckpoint,
		"evaluate.new": newEvaluation,
	}
	methods = map[string]method{
		"worlds.make":    withoutAnswer((*worlds).make),
		"worlds.vary":    withoutAnswer((*worlds).vary),
		"worlds.reset":   withoutAnswer((*worlds).reset),
		"worlds.step":    withoutAnswer((*worlds).step),
		"worlds.set":     withoutAnswer((*worlds).set),
		"worlds.observe": withoutAnswer((*worlds).observe),
		"worlds.frames":  withoutAnswer((*worlds).frames),
		"clips.open":     withAnswer((*clips).open),
		"clips.clip":     withoutAnswer((*clips).clip),
		"clips.step":     withoutAnswer((*clips).step),
		"model.encode":   withoutAnswer((*checkpoint).encode),
		"model.rollout":  withoutAnswer((*checkpoint).rollout),
		"evaluate.next":  withAnswer((*evaluation).next),
		"evaluate.take":  withoutAnswer((*evaluation).take),
		"evaluate.give":  withoutAnswer((*evaluation).give),
	}
)

// method does something with an object. The answer is nil where there is none to give.
type method func(object, call) (answer any, again bool, err error)

// answering is a method of one kind of object.
func withAnswer[T object](f func(T, call) (any, bool, error)) method {
	return func(o object, c call) (any, bool, error) {
		if of, ok := o.(T); ok {
			return f(of, c)
		}
		return nil, false, fmt.Errorf("the object is a %T (hint: the handle is of another kind)", o)
	}
}

// doing is a method that has no answer.
func withoutAnswer[T object](f func(T, call) (bool, error)) method {
	return withAnswer(func(o T, c call) (any, bool, error) {
		again, err := f(o, c)
		return nil, again, err
	})
}

// do does the operation. Whatever it panics with is an error of the call.
func (c call) do(operation string) (answer string, again bool, err error) {
	defer recoverTo(&err)
	if f, ok := operations[operation]; ok {
		v, err := f(c)
		return text(v, false, err)
	}
	if operation == "close" {
		return "", false, objects.close(c.handle)
	}
	f, ok := methods[operation]
	if !ok {
		return "", false, fmt.Errorf("this library has no operation %q (hint: the Python package and its library are of different versions, install scalewm again)", operation)
	}
	o, err := objects.take(c.handle)
	if err != nil {
		return "", false, err
	}
	defer o.use.Unlock()
	if c.more && o.pending != c.identity(operation) {
		return "", false, errors.New("another call began on this object before this one ended (hint: one thread at a time, or an object for each)")
	}
	v, again, err := f(o.object, c)
	o.pending = ""
	if again {
		o.pending = c.identity(operation)
	}
	return text(v, again, err)
}

// identity tells calls of one object apart, by where their buffers lie.
func (c call) identity(operation string) string {
	id := []byte(operation)
	for _, b := range c.buffers {
		id = fmt.Appendf(id, " %p", b)
	}
	return string(id)
}

// text is an answer in JSON, "" for none.
func text(v any, again bool, err error) (string, bool, error) {
	if v == nil || again || err != nil {
		return "", again, err
	}
	b, err := json.Marshal(v)
	return string(b), false, err
}

// caught turns a panic into an error, which names the line.
func recoverTo(err *error) {
	if r := recover(); r != nil {
		_, stack, _ := strings.Cut(string(debug.Stack()), "\npanic(")
		at := strings.Split(stack, "\n")[min(3, strings.Count(stack, "\n"))] // panic's line, its file, the function, its file
		*err = fmt.Errorf("internal error: %v at %s (hint: a bug of scalewm, please report it)", r, filepath.Base(strings.TrimSpace(at)))
	}
}

// read reads the request, refusing what it does not know.
func (c call) read(into any) error {
	d := json.NewDecoder(strings.NewReader(string(c.request)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	return nil
}

// object is what a handle names.
type object interface{ close() error }

// held is an object in the table.
type entry struct {
	object
	use     sync.Mutex // held during each slice of a call
	pending string     // the identity of a call that has more slices to come
}

// table holds the objects that handles name. Handles are random numbers that JSON holds exactly: one
// that was carried into another process names nothing there.
type table struct {
	mu   sync.Mutex
	open map[uint64]*entry
}

var objects = table{open: map[uint64]*entry{}}

var errHandle = errors.New("there is no such object: it was closed (hint: make a new one)")

func (t *table) add(o object) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		handle := 1 + rand.Uint64N(1<<53-1)
		if _, taken := t.open[handle]; !taken {
			t.open[handle] = &entry{object: o}
			return handle
		}
	}
}

// take gives an object to one caller at a time, who unlocks it.
func (t *table) take(handle uint64) (*entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.open[handle]
	if !ok {
		return nil, errHandle
	}
	if !o.use.TryLock() {
		return nil, errors.New("another thread is using this object (hint: one thread at a time, or an object for each)")
	}
	return o, nil
}

// close closes an object, once: whatever comes of it, the handle is gone. A slice of another
// thread's call ends before.
func (t *table) close(handle uint64) error {
	t.mu.Lock()
	o, ok := t.open[handle]
	delete(t.open, handle)
	t.mu.Unlock()
	if !ok {
		return errHandle
	}
	o.use.Lock()
	defer o.use.Unlock()
	return o.close()
}

// open tells the library where it lies, so that it finds libmujoco and model files beside itself,
// and the caller's present environment, of which Go knows only what the process began with;
// it asks what the library has: {"home", "environment"} gives {"tasks", "versions", "rules"}, the last being the
// settings of evaluations by keyword, with their defaults.
func open(c call) (any, error) {
	var q struct {
		Home        string            `json:"home"`
		Environment map[string]string `json:"environment"`
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	thirdparty.Home = q.Home
	for name, value := range q.Environment {
		if err := os.Setenv(name, value); err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", name, err)
		}
	}
	hdf5Version, _, err := hdf5.LibraryVersions()
	if err != nil {
		return nil, err
	}
	tasks := []envs.Description{}
	for _, name := range envs.Names() {
		t, err := envs.Lookup(name)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t.Spec.Describe())
	}
	rules := map[string]string{}
	for _, s := range results.Settings {
		if s.Flag != "" {
			rules[s.Keyword()] = s.Default()
		}
	}
	versions := map[string]string{"abi": strconv.Itoa(abi), "mujoco": mujoco.Version, "hdf5": hdf5Version}
	return map[string]any{"tasks": tasks, "versions": versions, "rules": rules}, nil
}
