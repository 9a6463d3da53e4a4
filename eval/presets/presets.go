// Package presets embeds the built-in presets: TOML files with every number of a run that
// its flags do not give, such as the size of the model, the recipe of the training and the
// grid of the evaluation. The first lines of each say what it is for.
//
// Package eval/pipeline parses and validates them. This package is separate so that
// eval/results can refer to the paper's loss weights without importing the pipeline.
package presets

import (
	"embed"
	"sync"

	"github.com/BurntSushi/toml"

	"scalewm/model"
)

// Files holds the presets as NAME.toml.
//
//go:embed *.toml
var Files embed.FS

// Published returns the paper's weights of the loss terms. Names of arms depend on
// them: an arm is named after its weight only where it differs from the paper's.
var Published = sync.OnceValue(func() model.Weights {
	var p struct {
		Train struct{ Weights model.Weights }
	}
	if _, err := toml.DecodeFS(Files, "paper.toml", &p); err != nil {
		panic("presets: paper.toml does not parse: " + err.Error())
	}
	return p.Train.Weights
})
