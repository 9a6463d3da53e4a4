// Package envtest is the conformance suite of envs.Env: the properties that every task must
// have, whatever it simulates. The tests of a task call [Run] and add what is specific to the
// task. The package also has the benchmark of tasks and the connection to reference programs
// in C.
package envtest

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"scalewm/envs"
)

// steps is the number of steps of most checks. Every frameEvery-th frame is drawn, since some
// tasks draw slowly.
const (
	steps      = 12
	frameEvery = 4
)

// Run checks a registered task against the contract of envs.Env. Each check is a subtest.
func Run(t *testing.T, name string) {
	task, err := envs.Lookup(name)
	must(t, err)
	s := suite{task, task.Spec}
	t.Run("Spec", s.spec)
	t.Run("Options", s.options)
	t.Run("Policies", s.policies)
	t.Run("Finite", s.finite)
	t.Run("SameStreamSameBytes", s.sameStream)
	t.Run("SnapshotRestore", s.snapshot)
	t.Run("SetState", s.setState)
	t.Run("Goal", s.goal)
	t.Run("Terminated", s.terminated)
	t.Run("BadInput", s.badInput)
	t.Run("BadAction", s.badAction)
	t.Run("FrameWhole", s.frameWhole)
	t.Run("Allocations", s.allocations)
	t.Run("Concurrent", s.concurrent)
}

// suite holds the task under test. Its methods are the checks, and helpers for them. Streams have
// small numbers, different in each check, so that checks do not depend on each other.
type suite struct {
	envs.Task
	s *envs.Spec
}

// must fails the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stream returns a random stream by its number. The suite's streams differ from all others.
func stream(id uint64) *rand.Rand { return rand.New(rand.NewPCG(id, 0x656e7674657374)) }

// open returns a new world, which is closed at the end of the test.
func (s suite) open(t *testing.T) envs.Env {
	t.Helper()
	e, err := s.New(nil)
	must(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// started returns a world after a reset with stream id.
func (s suite) started(t *testing.T, id uint64) envs.Env {
	t.Helper()
	e := s.open(t)
	must(t, e.Reset(stream(id)))
	return e
}

// actions draws n actions from the task's action space.
func (s suite) actions(id uint64, n int) [][]float64 {
	r := stream(id)
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, s.s.ActionDim)
		for j := range out[i] {
			lo, hi := s.s.ActionLow[j], s.s.ActionHigh[j]
			// Rounded to float32, which is exact for tasks with either action type.
			out[i][j] = float64(float32(lo + (hi-lo)*r.Float64()))
		}
	}
	return out
}

// row returns the current values of all columns.
func (s suite) row(e envs.Env) (envs.Row, error) {
	row := envs.Row{}
	for _, c := range s.s.Columns {
		v := make([]float64, c.Width)
		if err := e.Observe(c.Name, v); err != nil {
			return nil, err
		}
		row[c.Name] = v
	}
	return row, nil
}

// trace steps a world and returns one line per step, which contains the bits of all columns
// and a hash of some frames. It may be called from any goroutine.
func (s suite) trace(e envs.Env, actions [][]float64) ([]string, error) {
	var out []string
	for i := 0; ; i++ {
		line, err := s.line(e, i%frameEvery == 0)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		out = append(out, line)
		// n actions give n+1 lines: the start, and one after each step.
		if i == len(actions) {
			return out, nil
		}
		if _, err := e.Step(actions[i]); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
}

// line returns the line of the current state.
func (s suite) line(e envs.Env, draw bool) (string, error) {
	row, err := s.row(e)
	if err != nil {
		return "", err
	}
	line := ""
	for _, c := range s.s.Columns {
		line += " " + c.Name
		for _, v := range row[c.Name] {
			// Bits, so that -0 and NaN payloads count too.
			line += fmt.Sprintf(" %x", math.Float64bits(v))
		}
	}
	if draw {
		frame := make([]byte, envs.FrameBytes)
		if err := e.Frame(frame); err != nil {
			return "", err
		}
		// A hash keeps the traces short in error messages.
		h := fnv.New64a()
		h.Write(frame)
		line += fmt.Sprintf(" frame %x", h.Sum64())
	}
	return line, nil
}

// mustTrace is trace, but fails the test on errors.
func (s suite) mustTrace(t *testing.T, e envs.Env, actions [][]float64) []string {
	t.Helper()
	tr, err := s.trace(e, actions)
	must(t, err)
	return tr
}

// same reports the first step at which two traces differ.
func same(t *testing.T, what string, a, b []string) {
	t.Helper()
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Errorf("%s: differs at step %d:\n%s\n%s", what, i, a[i], b[i])
			return
		}
	}
	if len(a) != len(b) {
		t.Errorf("%s: %d and %d steps", what, len(a), len(b))
	}
}
