package main

import (
	"slices"

	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/dinov2"
	"scalewm/model/features"
)

// ruleFlags holds the settings of an evaluation that were given as flags, as texts by
// keyword. The verbs eval and reproduce share these flags.
type ruleFlags map[string]string

// ruleFlags defines a flag for each row of results.Settings that has one, so that a
// new setting needs no code here.
func (c *command) ruleFlags() ruleFlags {
	given := ruleFlags{}
	for _, s := range results.Settings {
		if s.Flag != "" {
			c.Var(&ruleFlag{Setting: s, text: s.Default(), given: given}, s.Flag, s.Usage)
		}
	}
	return given
}

// ruleFlag is the flag.Value of one setting.
type ruleFlag struct {
	results.Setting
	text  string
	given ruleFlags
}

// String implements flag.Value. The initial text is the default, for the help text.
func (f *ruleFlag) String() string { return f.text }

// IsBoolFlag lets package flag accept a boolean setting without a value.
func (f *ruleFlag) IsBoolFlag() bool { return f.Bool() }

// Set checks the value at once, so that the error names the flag. The text is parsed
// again where presets and flags are combined.
func (f *ruleFlag) Set(text string) error {
	f.text, f.given[f.Keyword()] = text, text
	if text == "" { // command.parse reports it
		return nil
	}
	var r results.Rules
	return f.Setting.Set(&r, text)
}

// batchFlag defines --batch.
func (c *command) batchFlag() *int {
	return c.Count("batch", 0, "plan `n` episodes in one batch; 0 means as many as fill the device (results do not depend on it)")
}

// featureFlags are the flags of train and reproduce for methods with a frozen
// encoder.
type featureFlags struct{ backbone, cache *string }

// featureFlags defines these flags.
func (c *command) featureFlags() featureFlags {
	return featureFlags{
		backbone: c.String("backbone", "", "`file` with the DINOv2 weights for dinowm (model.safetensors of facebook/dinov2-small, or the .pth file of PyTorch Hub)"),
		cache:    c.String("feature-cache", "auto", "maximum `size` of the cached features of a frozen encoder, next to the data set: 20GB for example, off, or auto (a part of the free space); a GPU in bf16 uses none for DINO-WM; results do not depend on it"),
	}
}

// read reads the backbone and parses the limit of the cache. It returns a usage error
// if none of the methods uses it, or if a method needs a backbone and none was given,
// unless mayLack is set.
func (f featureFlags) read(mayLack bool, methods ...model.Method) (backbone *dinov2.File, cache features.Limit, err error) {
	if cache, err = features.ParseLimit(*f.cache); err != nil {
		return nil, 0, usagef("--feature-cache: %v", err)
	}
	// Methods whose encoder is a pretrained DINOv2 need its weights; dinowm-random does not.
	pretrained := slices.IndexFunc(methods, func(m model.Method) bool { return m.Pretrained })
	switch {
	case *f.backbone == "" && pretrained >= 0 && !mayLack:
		err = usagef("%s encodes with the weights of DINOv2: give --backbone FILE (dinowm-random has a small backbone of random weights instead)", methods[pretrained].Name)
	case *f.backbone != "" && pretrained < 0:
		err = usagef("--backbone: none of the requested methods uses it (dinowm does)")
	case *f.backbone != "":
		backbone, err = dinov2.Read(*f.backbone)
	}
	return backbone, cache, err
}
