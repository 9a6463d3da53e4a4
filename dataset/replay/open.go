package replay

import (
	"fmt"
	"maps"
	"slices"

	"scalewm/dataset"
	"scalewm/envs"
)

// openTask makes the world that a recording was made in: the task it names,
// with those of its attributes that are switches or factors of the task.
func openTask(src dataset.Source, name string) (envs.Env, error) {
	said, ok := src.Attr("env")
	if name == "" {
		if !ok {
			return nil, fmt.Errorf("the file does not say its task (hint: --task NAME; `scalewm tasks` lists them)")
		}
		name = said
	}
	task, err := envs.Lookup(name)
	if err != nil {
		return nil, err
	}
	if own, err := envs.Lookup(said); ok && err == nil && own.Spec != task.Spec {
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
	settleActionType(src, task, opt)
	return task.New(opt)
}

// actionTypeSwitch is the switch of tasks that compute in the type of their
// actions, which recordings do not name.
const actionTypeSwitch = "action_dtype"

// settleActionType finds the value of that switch. A column wider than the default
// decides it; actions of the default type may have been widened before they were
// applied, so both values are tried on the first steps.
func settleActionType(src dataset.Source, task envs.Task, opt envs.Options) {
	i := slices.IndexFunc(task.Spec.Switches, func(s envs.Switch) bool { return s.Name == actionTypeSwitch })
	if _, said := opt[actionTypeSwitch]; said || i < 0 {
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

// firstSteps counts the numbers of the state that are equal over the first
// steps of a recording; 0 where that cannot be told.
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
