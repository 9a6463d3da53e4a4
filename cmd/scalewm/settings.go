package main

import (
	"slices"

	"scalewm/eval/pipeline"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/dinov2"
	"scalewm/model/features"
)

// settingFlags are the flags that `eval` and `reproduce` share: how arms are
// evaluated, whichever arms they are.
type settingFlags struct {
	protocol, temperature, clip, pool *string
	actionClip                        *bool
	noise, batch                      *int
}

func (c *command) settingFlags() settingFlags {
	return settingFlags{
		protocol:    c.String("protocol", "", "`rules`: paper or strict (held-out episodes only); without the flag the preset's, or else paper"),
		temperature: c.String("temperature", "paper", "mppi's `temperature`: stock (0.5), paper (64/32/32/64/256 by task), tuned (chosen on s101 with lewm), or a number"),
		clip:        c.String("icem-clip", results.RawClip, "`bounds` that icem clips z-scored actions to: raw (the task's own, as published), env (as z-scores) or none"),
		actionClip:  c.Bool("action-clip", false, "clip what any planner found to the task's bounds before it is executed; as published, the simulator gets it as it is"),
		noise:       c.Count("planner-noise", 0, "`number` of the planner's random draws, 0 being the published ones; others show how much of a result is their luck"),
		pool:        c.String("pool", results.MinusOnePool, "`starts` that sets are drawn from: minus-one (without the last one, as published) or full"),
		batch:       c.Count("batch", 0, "`episodes` planned side by side; 0 is as many as keep the device busy (no result depends on it)"),
	}
}

// of are the flags, and the lists of names beside them.
func (f settingFlags) of(solvers, tiers, sets string) pipeline.Settings {
	return pipeline.Settings{Protocol: *f.protocol, Solver: solvers, Tier: tiers, Sets: sets, Temperature: *f.temperature, Clip: *f.clip, Pool: *f.pool,
		ActionClip: *f.actionClip, PlannerNoise: *f.noise}
}

// featureFlags are the flags that `train` and `reproduce` share: what methods with a
// frozen encoder train on.
type featureFlags struct{ backbone, cache *string }

func (c *command) featureFlags() featureFlags {
	return featureFlags{
		backbone: c.String("backbone", "", "the weights of DINOv2 that dinowm encodes with, a `file` (model.safetensors of facebook/dinov2-small, or the hub's .pth)"),
		cache:    c.String("feature-cache", "auto", "what a frozen encoder makes of the frames is kept beside the data set up to this `size` (20GB), off, or auto: a part of the free space (no result depends on it)"),
	}
}

// read reads the backbone into a workspace, and refuses methods that lack it.
func (f featureFlags) read(w *pipeline.Workspace) (err error) {
	if w.FeatureCache, err = features.ParseLimit(*f.cache); err != nil {
		return usagef("--feature-cache: %v", err)
	}
	pretrained := slices.IndexFunc(w.Grid.Methods, func(m model.Method) bool { return m.Pretrained })
	switch {
	case *f.backbone == "" && pretrained >= 0:
		return usagef("%s encodes with the weights of DINOv2: give --backbone FILE (dinowm-random has a small backbone of random weights instead)", w.Grid.Methods[pretrained].Name)
	case *f.backbone != "" && pretrained < 0:
		return usagef("--backbone: no method that was asked for encodes with it (dinowm does)")
	case *f.backbone != "":
		w.Backbone, err = dinov2.Read(*f.backbone)
	}
	return err
}
