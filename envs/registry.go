package envs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Options selects values of a task's Switches and sets its Factors, by name. Names that
// are absent have their default.
type Options map[string]string

// Task is a registered task: its description and its constructors.
type Task struct {
	Spec *Spec
	// New creates a world. It is nil if nothing simulates the task, so that models can only
	// be trained on its data.
	New func(Options) (Env, error)
	// Policy creates a policy by one of the names in Spec.Policies.
	Policy func(name string) (Policy, error)
}

var (
	mu    sync.RWMutex
	tasks = map[string]Task{}
)

// Register adds a task and fills in the defaults of its Spec. The init function of the
// task's package calls it. Registering a name twice panics.
func Register(t Task) {
	mu.Lock()
	defer mu.Unlock()
	if _, ok := tasks[t.Spec.Name]; ok {
		panic("envs: task registered twice: " + t.Spec.Name)
	}
	t.Spec.fillIn()
	tasks[t.Spec.Name] = t
}

// fillIn sets omitted fields to the defaults documented at Spec.
func (s *Spec) fillIn() {
	s.ID, s.Title = cmp.Or(s.ID, s.Name), cmp.Or(s.Title, s.Name)
	s.ActionDType = cmp.Or(s.ActionDType, "float32")
	s.MaxSteps = cmp.Or(s.MaxSteps, DefaultMaxSteps)
	if s.GoalDistance == nil {
		s.GoalDistance = Euclidean
	}
	if s.ActionLow == nil && s.ActionHigh == nil {
		s.ActionLow, s.ActionHigh = slices.Repeat([]float64{-1}, s.ActionDim), slices.Repeat([]float64{1}, s.ActionDim)
	}
}

// Lookup returns a task by name. The error lists the available names.
func Lookup(name string) (Task, error) {
	mu.RLock()
	t, ok := tasks[name]
	mu.RUnlock()
	if !ok {
		return Task{}, fmt.Errorf("no task named %q (hint: one of %s)", name, strings.Join(Names(), ", "))
	}
	return t, nil
}

// Names returns the names of the registered tasks in alphabetical order.
func Names() []string {
	mu.RLock()
	defer mu.RUnlock()
	return slices.Sorted(maps.Keys(tasks))
}

// Resolve checks options against the task's switches and factors. The result contains
// every switch, with its default if necessary, and the given factors in their shortest
// notation. It does not contain other factors, nor the defaults of implied switches, so that
// the attributes of a data set name only what was chosen.
func (s *Spec) Resolve(o Options) (Options, error) {
	out := Options{}
	for _, sw := range s.Switches {
		out[sw.Name] = sw.Values[0]
	}
	for name, v := range o {
		text, err := s.resolve(name, v)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", s.Name, err)
		}
		out[name] = text
	}
	for _, sw := range s.Switches {
		if sw.Implied && out[sw.Name] == sw.Values[0] {
			delete(out, sw.Name)
		}
	}
	return out, nil
}

// resolve checks and normalises one option.
func (s *Spec) resolve(name, v string) (string, error) {
	if f, ok := s.Factor(name); ok {
		if v == Sample {
			return v, nil
		}
		value, err := f.parse(v)
		return f.format(value), err
	}
	i := slices.IndexFunc(s.Switches, func(sw Switch) bool { return sw.Name == name })
	if i < 0 {
		return "", fmt.Errorf("no switch or factor %q (hint: one of %s)", name, strings.Join(s.OptionNames(), ", "))
	}
	if !slices.Contains(s.Switches[i].Values, v) {
		return "", fmt.Errorf("%s=%q is not one of %s", name, v, strings.Join(s.Switches[i].Values, ", "))
	}
	return v, nil
}

// OptionNames returns the names valid in Options: switches, then factors.
func (s *Spec) OptionNames() (names []string) {
	for _, sw := range s.Switches {
		names = append(names, sw.Name)
	}
	for _, f := range s.Factors {
		names = append(names, f.Name)
	}
	return names
}

// Column returns a column by name, and whether there is one.
func (s *Spec) Column(name string) (Column, bool) {
	i := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return Column{}, false
	}
	return s.Columns[i], true
}
