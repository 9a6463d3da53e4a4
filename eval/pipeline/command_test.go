package pipeline

import (
	"testing"

	"scalewm/eval/results"
)

// Commands have the preset, device, protocol and seeds of the folder's run, and whatever
// else differs from the preset. Flags that are given are not repeated.
func TestContinued(t *testing.T) {
	cell := func(seed, episodes int, precision string) results.Cell {
		c := results.Cell{Result: results.Result{Device: "cpu/avx2/fp32"}}
		c.Spec = results.Spec{Method: "lewm", Solver: "cem", TrainSeed: seed, Episodes: episodes, Rules: results.Rules{Protocol: "strict", Precision: precision}}
		return c
	}
	nano, err := LoadPreset("nano")
	if err != nil {
		t.Fatal(err)
	}
	usual := nano.Eval.Episodes
	dir := t.TempDir()
	own := t.TempDir()
	if err := nano.WriteTo(dir); err != nil {
		t.Fatal(err)
	}
	changed, err := LoadPreset("nano", "train.lr=2e-3")
	if err != nil {
		t.Fatal(err)
	}
	if err := changed.WriteTo(own); err != nil {
		t.Fatal(err)
	}
	trained := map[string]results.Trained{"w": {Preset: "nano"}}
	for _, c := range []struct {
		dir, flags, want string
		cells            []results.Cell
		trained          map[string]results.Trained
	}{
		{dir: dir, flags: "--action-clip", cells: []results.Cell{cell(2, usual, string(nano.Eval.Precision)), cell(1, usual, string(nano.Eval.Precision))}, want: "scalewm reproduce --preset nano --device cpu --protocol strict --seeds 1,2 --action-clip --out " + dir},
		{dir: dir, flags: "--protocol paper --seeds 1,2,3", cells: []results.Cell{cell(1, usual+1, "other")}, want: "scalewm reproduce --preset nano --device cpu --precision other --episodes 11 --protocol paper --seeds 1,2,3 --out " + dir + "/paper"},
		{dir: own, cells: []results.Cell{cell(1, 1, "fp32"), cell(1, 2, "bf16")}, want: "scalewm reproduce --preset " + own + "/config.toml --device cpu --protocol strict --seeds 1  --out " + own},
		{dir: "some where", flags: "-f", cells: []results.Cell{cell(1, usual, "")}, trained: trained, want: "scalewm reproduce --preset nano --device cpu --protocol strict --seeds 1 -f --out 'some where'"},
		{dir: "x", flags: "-f", cells: []results.Cell{cell(1, 7, "fp32")}, trained: map[string]results.Trained{"v": {}, "w": {Preset: "nano"}}, want: "scalewm reproduce --preset PRESET --device cpu --precision fp32 --protocol strict --episodes 7 --seeds 1 -f --out x"},
	} {
		if got := continued(c.dir, &results.Contents{Cells: c.cells, Trained: c.trained})(c.flags); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
