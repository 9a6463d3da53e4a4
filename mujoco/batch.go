package mujoco

import (
	"fmt"
	"runtime"

	"scalewm/mujoco/internal/mjc"
)

// Batch steps many Data of any models in one call, on threads of its own that live
// until Close. Controls and observations go through the Data's arrays.
type Batch struct {
	data []*Data
	pool *mjc.Pool
}

// NewBatch gathers the data, which stay the caller's and must not be used during a
// Step; threads is at most their number. Close it before them.
func NewBatch(data []*Data, threads int) (*Batch, error) {
	if len(data) == 0 || threads < 1 {
		return nil, fmt.Errorf("mujoco: a batch of %d data on %d threads (hint: one of each at least)", len(data), threads)
	}
	c := make([]*mjc.CData, len(data))
	seen := make(map[*Data]bool, len(data))
	for i, d := range data {
		if d.c == nil {
			return nil, fmt.Errorf("mujoco: batch, data %d: %w", i, ErrClosed)
		}
		if seen[d] {
			return nil, fmt.Errorf("mujoco: batch: data %d is there twice", i)
		}
		seen[d] = true
		c[i] = d.c
	}
	pool, err := mjc.NewPool(min(threads, len(data)), c)
	if err != nil {
		return nil, fmt.Errorf("mujoco: batch: %w", err)
	}
	return &Batch{append([]*Data(nil), data...), pool}, nil
}

// BatchError holds the error of each Data that did not step well; the others did.
type BatchError struct {
	Errors []error // one per Data, most nil
}

func (e *BatchError) Error() string {
	n, first := 0, -1
	for i, err := range e.Errors {
		if err != nil {
			if n++; first < 0 {
				first = i
			}
		}
	}
	return fmt.Sprintf("mujoco: batch: %d of %d failed, the first is %d: %v", n, len(e.Errors), first, e.Errors[first])
}

// Unwrap gives the errors, for errors.Is and errors.As.
func (e *BatchError) Unwrap() []error {
	var out []error
	for _, err := range e.Errors {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// Step advances every Data by n time steps, as Data.Step does. Its error is a *BatchError.
func (b *Batch) Step(n int) error {
	if b.pool == nil {
		return ErrClosed
	}
	for i, d := range b.data {
		if d.c == nil {
			return fmt.Errorf("mujoco: batch, data %d: %w", i, ErrClosed)
		}
	}
	bad := b.pool.Step(n)
	runtime.KeepAlive(b)
	if bad == 0 {
		return nil
	}
	errs := make([]error, len(b.data))
	for i, d := range b.data {
		errs[i] = outcome("step", d.c, mjc.LastCode(d.c))
	}
	return &BatchError{errs}
}

// Close ends the threads, not the data. More calls do nothing.
func (b *Batch) Close() {
	if b.pool != nil {
		b.pool.Free()
		b.pool = nil
	}
}
