package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// A reading decides where the paper's text and its authors' code differ: it follows the
// "authors" or the "paper". Each difference is a key of presets
// (docs/protocol.md#paper-code-and-this-program), and the key `reading` sets all of them.
// A preset does not store the reading, since only these keys have an effect.

// switches are the keys and their values, as TOML, under the two readings.
var switches = map[string]struct{ authors, paper string }{
	"model.linear_projector": {"false", "true"},
	"train.adam":             {"false", "true"},
	"train.aux_loss":         {`"authors"`, `"paper"`},
	"train.correlation":      {`"authors"`, `"paper"`},
	"train.distinct_pairs":   {"false", "true"},
	"train.pooled_sigreg":    {"false", "true"},
	"train.prediction_sum":   {"false", "true"},
	// 2 and 5 numbers (docs/sources.md#task-state-q).
	"train.q_by_task": {"{}", `{ reacher = "half", cube = "half" }`},
}

// printedTier is tier T2 as the paper prints it, see eval.Tiers.
const printedTier = "T2p"

// read applies a reading. given are the keys of the text that has the key `reading`. A
// switch among them is an error: whatever took effect would contradict the other.
func (p *Preset) read(reading string, given toml.MetaData) error {
	if reading != "authors" && reading != "paper" {
		return fmt.Errorf("reading is %q (hint: authors or paper)", reading)
	}
	p.Train.QByTask = nil // the decoder would add to the table
	for _, key := range slices.Sorted(maps.Keys(switches)) {
		value := switches[key].authors
		if reading == "paper" {
			value = switches[key].paper
		}
		if given.IsDefined(strings.Split(key, ".")...) {
			return fmt.Errorf("both reading and %s are given, and reading sets that key too (hint: leave out one of them, or start from this preset in another by the key of)", key)
		}
		if err := p.decode(key+" = "+value, nil); err != nil {
			return err
		}
	}
	from, to := "T2", printedTier
	if reading == "authors" {
		from, to = to, from
	}
	for _, tiers := range append(slices.Collect(maps.Values(p.Eval.TiersOf)), p.Eval.Tiers) {
		if at := slices.Index(tiers, from); at >= 0 && !slices.Contains(tiers, to) {
			tiers[at] = to
		}
	}
	return nil
}
