package mjenv

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"weak"

	"scalewm/mujoco"
)

// stage is a compiled model for certain values of the factors. Many worlds share it,
// since compiling a scene and creating its renderer are expensive.
type stage struct {
	task   *Task
	values []float64 // of the factors
	model  *mujoco.Model
	camera int // index in the model
}

// stages is a cache of stages by factor values. It refers to them weakly, so that a stage
// is freed when no world uses it. The zero value is ready to use.
type stages struct {
	mu   sync.Mutex
	used map[string]weak.Pointer[stage]
}

// get returns the stage for a vector of values. If none is in use, it calls create.
func (s *stages) get(values []float64, create func() (*stage, error)) (*stage, error) {
	// The bits are the key: a map with float keys would treat 0 and -0 as equal.
	var bits []byte
	for _, v := range values {
		bits = binary.LittleEndian.AppendUint64(bits, math.Float64bits(v))
	}
	key := string(bits)
	if t := s.find(key); t != nil {
		return t, nil
	}
	// create runs without the lock, as compilation takes long. If several goroutines
	// create the same stage at once, add keeps the first.
	t, err := create()
	if err != nil {
		return nil, err
	}
	return s.add(key, t), nil
}

// find returns the stage with a key, nil if there is none in use.
func (s *stages) find(key string) *stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[key].Value()
}

// add adds a stage and returns it, or returns the one that was added before.
func (s *stages) add(key string, t *stage) *stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.used[key].Value(); first != nil {
		return first
	}
	if s.used == nil {
		s.used = map[string]weak.Pointer[stage]{}
	}
	s.used[key] = weak.Make(t)
	runtime.AddCleanup(t, s.drop, key)
	return t
}

// drop removes the entry of a stage after it was collected. In the meantime, a new stage
// with the same key may have been added; that one stays.
func (s *stages) drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[key].Value() == nil {
		delete(s.used, key)
	}
}
