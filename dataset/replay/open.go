package replay

import (
	"fmt"
	"maps"
	"slices"

	"scalewm/dataset"
	"scalewm/envs"
)

// openTask creates the world in which a recording was made: the task that the file
// names, with the file's attributes that are switches or factors of the task. name
// overrides a missing or foreign attribute env, but not the name of another task of
// ours.
func openTask(src dataset.Source, name string) (envs.Env, error) {
	named, ok := src.Attr("env")
	if name == "" {
		if !ok {
			return nil, fmt.Errorf("the file does not say its task (hint: --task NAME; `scalewm tasks` lists them)")
		}
		name = named
	}
	task, err := envs.Lookup(name)
	if err != nil {
		return nil, err
	}
	if own, err := envs.Lookup(named); ok && err == nil && own.Spec != task.Spec {
		return nil, fmt.Errorf("the file is a recording of task %s, not of %s (hint: leave --task out)", own.Spec.Name, task.Spec.Name)
	}
	if size := src.FrameSize(); size != 0 && size != envs.FrameSize {
		return nil, fmt.Errorf("its frames have %d pixels, those of the task %s %d (hint: only recordings of the task itself can be replayed)", size, name, envs.FrameSize)
	}
	opt := envs.Options{}
	for _, name := range task.Spec.OptionNames() {
		if v, ok := src.Attr(name); ok {
			opt[name] = v
		}
	}
	chooseActionType(src, task, opt)
	return task.New(opt)
}

// actionTypeSwitch is the switch of tasks that compute in the type of their actions.
// Recordings do not name it.
const actionTypeSwitch = "action_dtype"

// chooseActionType sets that switch in opt. An action column of a type other than the
// default decides it. Actions of the default type may have been converted before they
// were applied, so in that case both values are tried on the first steps, and the one
// that matches the recording better is taken.
func chooseActionType(src dataset.Source, task envs.Task, opt envs.Options) {
	i := slices.IndexFunc(task.Spec.Switches, func(s envs.Switch) bool { return s.Name == actionTypeSwitch })
	if _, named := opt[actionTypeSwitch]; named || i < 0 {
		return
	}
	values := task.Spec.Switches[i].Values
	for _, c := range src.Columns() {
		if c.Name == actionColumn && c.DType != values[0] && slices.Contains(values, c.DType) {
			opt[actionTypeSwitch] = c.DType
			return
		}
	}
	most := -1
	for _, v := range values {
		trial := maps.Clone(opt)
		trial[actionTypeSwitch] = v
		if n := firstSteps(src, task, trial); n > most {
			most = n
			opt[actionTypeSwitch] = v
		}
	}
}

// firstSteps returns how many numbers of the state are equal over the first steps of
// a recording, or 0 if it cannot be simulated.
func firstSteps(src dataset.Source, task envs.Task, opt envs.Options) (equal int) {
	const steps = 5
	env, err := task.New(opt)
	if err != nil {
		return 0
	}
	defer env.Close()
	p := &player{src: src, env: env, spec: env.Spec(), episodes: src.Episodes()}
	if err := p.prepare(); err != nil {
		return 0
	}
	if err := p.load(0, p.episodes[0]); err != nil {
		return 0
	}
	state, _ := p.spec.Column(p.spec.StateColumns[0])
	ours := make([]float64, state.Width)
	for t := range min(p.episodes[0].Len, steps+1) {
		if _, err := p.simulate(t); err != nil || p.now.width[state.Name] != state.Width {
			return equal
		}
		if err := env.Observe(state.Name, ours); err != nil {
			return equal
		}
		for i, v := range p.now.at(state.Name, t) {
			if ours[i] == v {
				equal++
			}
		}
	}
	return equal
}
