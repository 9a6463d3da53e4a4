// Package presets has the built-in presets, which are the home of every number that a run does not take from its flags.
// Package eval/pipeline reads them.
package presets

import (
	"embed"
	"sync"

	"github.com/BurntSushi/toml"

	"scalewm/model"
)

// Files are the presets, NAME.toml.
//
//go:embed *.toml
var Files embed.FS

// Published are the weights of the loss terms in the paper, which name arms: only an arm with another weight says it.
var Published = sync.OnceValue(func() model.Weights {
	var p struct {
		Train struct{ Weights model.Weights }
	}
	if _, err := toml.DecodeFS(Files, "paper.toml", &p); err != nil {
		panic("presets: paper.toml does not parse: " + err.Error())
	}
	return p.Train.Weights
})
