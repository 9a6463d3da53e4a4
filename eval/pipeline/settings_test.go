package pipeline_test

import (
	"strings"
	"testing"

	"scalewm/eval/pipeline"
)

// Strict draws from held-out episodes alone, so that a pool is nothing to choose there;
// the preset can be what asks for strict.
func TestPoolUnderStrict(t *testing.T) {
	settings := pipeline.Settings{Solver: "cem", Tier: "T5", Sets: "s101", Temperature: "paper", Clip: "raw", Pool: "full"}
	into := func(flag, preset string) error {
		var g pipeline.Grid
		settings.Protocol, g.Preset.Grid.Protocol = flag, preset
		return settings.Into(&g)
	}
	for _, c := range [][2]string{{"", ""}, {"paper", "strict"}} {
		if err := into(c[0], c[1]); err != nil {
			t.Errorf("--pool full, --protocol %q, preset %q: %v", c[0], c[1], err)
		}
	}
	for _, c := range [][2]string{{"strict", ""}, {"", "strict"}} {
		if err := into(c[0], c[1]); err == nil || !strings.Contains(err.Error(), "hint") {
			t.Errorf("--pool full, --protocol %q, preset %q: %v, want a refusal with a hint", c[0], c[1], err)
		}
	}
}
