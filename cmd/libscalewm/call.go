package libscalewm

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

// call is one call of scalewm_call.
type call struct {
	handle  uint64
	more    bool // the operation continues where its time slice ended
	request []byte
	buffers [][]byte
}

// operations are the operations without an object, methods those on an object.
var (
	operations = map[string]func(call) (any, error){
		"open":          open,
		"worlds.new":    newWorlds,
		"clips.new":     newClips,
		"model.load":    loadCheckpoint,
		"evaluate.new":  newEvaluation,
		"recording.new": newRecording,
	}
	methods = map[string]method{
		"worlds.make":      withoutAnswer((*worlds).make),
		"worlds.vary":      withoutAnswer((*worlds).vary),
		"worlds.reset":     withoutAnswer((*worlds).reset),
		"worlds.step":      withoutAnswer((*worlds).step),
		"worlds.set":       withoutAnswer((*worlds).set),
		"worlds.observe":   withoutAnswer((*worlds).observe),
		"worlds.frames":    withoutAnswer((*worlds).frames),
		"clips.open":       withAnswer((*clips).open),
		"clips.clip":       withoutAnswer((*clips).clip),
		"clips.step":       withoutAnswer((*clips).step),
		"model.encode":     withoutAnswer((*checkpoint).encode),
		"model.act":        withoutAnswer((*checkpoint).act),
		"model.rollout":    withoutAnswer((*checkpoint).rollout),
		"evaluate.next":    withAnswer((*evaluation).next),
		"evaluate.take":    withoutAnswer((*evaluation).take),
		"evaluate.give":    withoutAnswer((*evaluation).give),
		"recording.append": withoutAnswer((*recording).append),
		"recording.finish": withAnswer((*recording).finish),
	}
)

// method performs an operation on an object. answer is nil if there is none. again asks the
// caller to repeat the call.
type method func(object, call) (answer any, again bool, err error)

// withAnswer returns the method for a function on one kind of object.
func withAnswer[T object](f func(T, call) (any, bool, error)) method {
	return func(o object, c call) (any, bool, error) {
		if of, ok := o.(T); ok {
			return f(of, c)
		}
		return nil, false, fmt.Errorf("the object is a %T (hint: the handle is of another kind)", o)
	}
}

// withoutAnswer returns the method for a function that has no answer.
func withoutAnswer[T object](f func(T, call) (bool, error)) method {
	return withAnswer(func(o T, c call) (any, bool, error) {
		again, err := f(o, c)
		return nil, again, err
	})
}

// do performs the operation. A panic becomes an error, because a panic that reaches C would
// end the caller's process.
func (c call) do(operation string) (answer string, again bool, err error) {
	defer recoverTo(&err)
	// Operations without an object have no slices.
	if f, ok := operations[operation]; ok {
		v, err := f(c)
		return text(v, false, err)
	}
	if operation == "close" {
		return "", false, objects.close(c.handle)
	}
	f, ok := methods[operation]
	if !ok {
		return "", false, fmt.Errorf("unknown operation %q (hint: the Python package and its library have different versions; install scalewm again)", operation)
	}
	o, err := objects.take(c.handle)
	if err != nil {
		return "", false, err
	}
	defer o.use.Unlock()
	// A call that continues must be the one that was in progress. Otherwise it would continue
	// at the other's position, with buffers that were not checked.
	if c.more && o.pending != c.identity(operation) {
		return "", false, errors.New("another call began on this object before this one ended (hint: one thread at a time, or an object for each)")
	}
	// An error ends the call, so nothing is pending unless the operation requests another slice.
	v, again, err := f(o.object, c)
	o.pending = ""
	if again {
		o.pending = c.identity(operation)
	}
	return text(v, again, err)
}

// identity identifies a call of an object by its operation and the addresses of its buffers.
func (c call) identity(operation string) string {
	id := []byte(operation)
	for _, b := range c.buffers {
		id = fmt.Appendf(id, " %p", b)
	}
	return string(id)
}

// text returns an answer as JSON, "" if there is none.
func text(v any, again bool, err error) (string, bool, error) {
	if v == nil || again || err != nil {
		return "", again, err
	}
	b, err := json.Marshal(v)
	return string(b), false, err
}

// recoverTo converts a panic to an error with the file and line of its cause. It must be
// deferred directly.
func recoverTo(err *error) {
	if r := recover(); r != nil {
		_, stack, _ := strings.Cut(string(debug.Stack()), "\npanic(")
		// The lines after "panic(": its file, the function that panicked, that function's file.
		at := strings.Split(stack, "\n")[min(3, strings.Count(stack, "\n"))]
		*err = fmt.Errorf("internal error: %v at %s (hint: a bug of scalewm, please report it)", r, filepath.Base(strings.TrimSpace(at)))
	}
}

// read decodes the request. Unknown fields are errors, since they mean that caller and library
// have different versions.
func (c call) read(into any) error {
	d := json.NewDecoder(strings.NewReader(string(c.request)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	return nil
}

// object is the value of a handle.
type object interface{ close() error }

// entry is an object in the table.
type entry struct {
	object
	use     sync.Mutex // locked during each slice of a call
	pending string     // identity of a call that has more slices to come, or ""
}

// table maps handles to objects. Go pointers must not be kept in C memory, so callers receive
// numbers instead. They are random, so that a handle that was copied to another process does
// not match an object there by chance, and below 2^53, so that JSON represents them exactly.
type table struct {
	mu   sync.Mutex
	open map[uint64]*entry
}

var objects = table{open: map[uint64]*entry{}}

var errHandle = errors.New("there is no such object: it was closed (hint: make a new one)")

// add adds an object and returns its handle.
func (t *table) add(o object) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		// 0 is no handle.
		handle := 1 + rand.Uint64N(1<<53-1)
		if _, taken := t.open[handle]; !taken {
			t.open[handle] = &entry{object: o}
			return handle
		}
	}
}

// take returns an object, locked for one caller, who must unlock it. It fails instead of
// waiting if the object is in use, since a second thread is a bug of the caller.
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

// close closes an object. The handle is invalid afterwards, even if closing fails. If another
// thread's call is in progress, close waits for the end of its slice.
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

// open initialises the library: {"home", "environment"} gives {"tasks", "versions", "rules"}.
// home is the folder of the library, in which it finds libmujoco and model files. environment
// contains the caller's current environment variables, because Go only knows those that the
// process started with. tasks are the descriptions of all tasks, and rules the settings of
// evaluations by keyword, with their defaults.
func open(c call) (any, error) {
	var q struct {
		Home        string            `json:"home"`
		Environment map[string]string `json:"environment"`
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	// Replaces the executable's folder in the search for libmujoco and model files.
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
	// Not nil, so that JSON has an empty list.
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
		// A setting without a flag has no keyword.
		if s.Flag != "" {
			rules[s.Keyword()] = s.Default()
		}
	}
	versions := map[string]string{"abi": strconv.Itoa(abi), "mujoco": mujoco.Version, "hdf5": hdf5Version}
	return map[string]any{"tasks": tasks, "versions": versions, "rules": rules}, nil
}
