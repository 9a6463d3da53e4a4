package main

import (
	"slices"

	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/dinov2"
	"scalewm/model/features"
)

// ruleFlags are the flags of the settings of an evaluation, which `eval` and `reproduce` share: the
// texts of those that were given, by keyword.
type ruleFlags map[string]string

func (c *command) ruleFlags() ruleFlags {
	given := ruleFlags{}
	for _, s := range results.Settings {
		if s.Flag != "" {
			c.Var(&ruleFlag{Setting: s, text: s.Default(), given: given}, s.Flag, s.Usage)
		}
	}
	return given
}

// ruleFlag is the flag of one setting.
type ruleFlag struct {
	results.Setting
	text  string
	given ruleFlags
}

func (f *ruleFlag) String() string { return f.text }

func (f *ruleFlag) IsBoolFlag() bool { return f.Bool() }

func (f *ruleFlag) Set(text string) error {
	f.text, f.given[f.Keyword()] = text, text
	if text == "" { // which command.parse says
		return nil
	}
	var r results.Rules
	return f.Setting.Set(&r, text)
}

func (c *command) batchFlag() *int {
	return c.Count("batch", 0, "`episodes` planned side by side; 0 is as many as keep the device busy (no result depends on it)")
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

// read reads the backbone. It returns an error if a method lacks it or if none needs it.
func (f featureFlags) read(methods ...model.Method) (backbone *dinov2.File, cache features.Limit, err error) {
	if cache, err = features.ParseLimit(*f.cache); err != nil {
		return nil, 0, usagef("--feature-cache: %v", err)
	}
	pretrained := slices.IndexFunc(methods, func(m model.Method) bool { return m.Pretrained })
	switch {
	case *f.backbone == "" && pretrained >= 0:
		err = usagef("%s encodes with the weights of DINOv2: give --backbone FILE (dinowm-random has a small backbone of random weights instead)", methods[pretrained].Name)
	case *f.backbone != "" && pretrained < 0:
		err = usagef("--backbone: no method that was asked for encodes with it (dinowm does)")
	case *f.backbone != "":
		backbone, err = dinov2.Read(*f.backbone)
	}
	return backbone, cache, err
}
