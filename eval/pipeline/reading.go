package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// A reading says what to do where the paper's text and its authors' code differ, and
// the code decides the published numbers: follow the "authors" or the "paper". It has
// a switch for each difference, a key of presets (docs/protocol.md#paper-code-and-this-program).
// The key `reading` sets all of them. A preset does not store it: only the switches
// have an effect.

// switches are the keys and their values under the readings.
var switches = map[string]struct{ authors, paper string }{
	"train.correlation": {`"authors"`, `"paper"`},
	"train.aux_loss":    {`"authors"`, `"paper"`},
}

// printedTier is tier T2 as the paper prints it, see eval.Tiers.
const printedTier = "T2p"

// read applies a reading. given are the keys of the text that has the key `reading`. A
// switch among them is an error: whatever took effect would contradict the other.
func (p *Preset) read(reading string, given toml.MetaData) error {
	if reading != "authors" && reading != "paper" {
		return fmt.Errorf("reading is %q (hint: authors or paper)", reading)
	}
	for _, key := range slices.Sorted(maps.Keys(switches)) {
		value := switches[key]
		if given.IsDefined(strings.Split(key, ".")...) {
			return fmt.Errorf("both reading and %s are given, and reading sets that key too (hint: leave out one of them, or start from this preset in another by the key of)", key)
		}
		if reading == "authors" {
			value.paper = value.authors
		}
		if err := p.decode(key+" = "+value.paper, nil); err != nil {
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
