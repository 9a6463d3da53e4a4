package mjenv

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"weak"

	"scalewm/mujoco"
)

// stage is a compiled look. Many worlds share it.
type stage struct {
	task   *Task
	values []float64 // of the factors
	model  *mujoco.Model
	camera int // in the model
}

// stages holds each stage as long as one world uses it. The zero value is ready.
type stages struct {
	mu   sync.Mutex
	used map[string]weak.Pointer[stage]
}

// of is the stage of a vector of values: the one in use, or what create makes.
func (s *stages) of(values []float64, create func() (*stage, error)) (*stage, error) {
	var bits []byte
	for _, v := range values {
		bits = binary.LittleEndian.AppendUint64(bits, math.Float64bits(v))
	}
	key := string(bits)
	if t := s.find(key); t != nil {
		return t, nil
	}
	t, err := create() // several may, at once; one is kept
	if err != nil {
		return nil, err
	}
	return s.keep(key, t), nil
}

func (s *stages) find(key string) *stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[key].Value()
}

// keep takes a stage up, unless another one came first.
func (s *stages) keep(key string, t *stage) *stage {
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

// drop forgets a stage that nobody uses any more.
func (s *stages) drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[key].Value() == nil {
		delete(s.used, key)
	}
}
