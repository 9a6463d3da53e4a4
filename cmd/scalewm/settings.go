package main

import (
	"scalewm/dataset"
	"scalewm/eval"
	"scalewm/eval/plan"
)

// settings say how arms are evaluated, whichever arms they are.
type settings struct {
	protocol    dataset.Protocol
	solvers     []string
	tiers       []eval.Tier
	sets        []string
	temperature eval.Temperature
	clip        plan.Clip
	pool        eval.Pool
	batch       int
}

// settingFlags are the flags of settings that `eval` and `reproduce` share.
type settingFlags struct {
	protocol, temperature, clip, pool *string
	batch                             *int
}

func (c *command) settingFlags() settingFlags {
	return settingFlags{
		protocol:    c.String("protocol", string(dataset.Paper), "`rules`: paper or strict (held-out episodes only)"),
		temperature: c.String("temperature", "paper", "mppi's `temperature`: stock (0.5), paper (64/32/32/64/256 by task), tuned (chosen on s101 with lewm), or a number"),
		clip:        c.String("icem-clip", "raw", "`bounds` that icem clips z-scored actions to: raw (the task's own, as published), env (as z-scores) or none"),
		pool:        c.String("pool", "minus-one", "`starts` that sets are drawn from: minus-one (without the last one, as published) or full"),
		batch:       c.Count("batch", 0, "`episodes` planned side by side; 0 is as many as keep the device busy (no result depends on it)"),
	}
}

// read checks the flags, and the lists of names beside them.
func (f settingFlags) read(solvers, tiers, sets string) (s settings, err error) {
	parse := []func() error{
		func() (err error) { s.protocol, err = dataset.ParseProtocol(*f.protocol); return },
		func() (err error) { s.tiers, err = eval.ParseTiers(tiers); return },
		func() (err error) { s.sets, err = eval.ParseSets(sets); return },
		func() (err error) { s.solvers, err = eval.ParseSolvers(solvers); return },
		func() (err error) { s.temperature, err = eval.ParseTemperature(*f.temperature); return },
		func() (err error) { s.clip, err = eval.ParseClip(*f.clip); return },
		func() (err error) { s.pool, err = eval.ParsePool(*f.pool); return },
	}
	for _, p := range parse {
		if err := p(); err != nil {
			return settings{}, usagef("%v", err)
		}
	}
	for _, solver := range s.solvers {
		for _, t := range s.tiers {
			if _, err := t.For(solver); err != nil {
				return settings{}, usagef("%v", err)
			}
		}
	}
	s.batch = *f.batch
	return s, nil
}
