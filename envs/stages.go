package envs

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"weak"
)

// Stages holds what worlds with the same values of their factors share, like a
// compiled model, as long as one of them uses it. The zero value is ready.
type Stages[T any] struct {
	mu   sync.Mutex
	used map[string]weak.Pointer[T]
}

// Of is the stage of a vector of values: the one in use, or what create makes.
func (s *Stages[T]) Of(values []float64, create func() (*T, error)) (*T, error) {
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

func (s *Stages[T]) find(key string) *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[key].Value()
}

// keep takes a stage up, unless another one came first.
func (s *Stages[T]) keep(key string, t *T) *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.used[key].Value(); first != nil {
		return first
	}
	if s.used == nil {
		s.used = map[string]weak.Pointer[T]{}
	}
	s.used[key] = weak.Make(t)
	runtime.AddCleanup(t, s.drop, key)
	return t
}

// drop forgets a stage that nobody uses any more.
func (s *Stages[T]) drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[key].Value() == nil {
		delete(s.used, key)
	}
}
