package pipeline

import (
	"encoding/json"
	"testing"

	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
	"scalewm/model"
	"scalewm/model/weights"
)

// Commands have the preset, device, protocol and seeds of the folder's run, and whatever
// else differs from the preset. Flags that are given are not repeated. Seeds are those of
// trainings: cells of a search with the true state have seed 0, and a training with it would
// start.
func TestContinued(t *testing.T) {
	cell := func(seed, episodes int, precision string) results.Cell {
		c := results.Cell{Result: results.Result{Device: "cpu/avx2/fp32"}}
		c.Spec = results.Spec{Method: "lewm", Solver: "cem", TrainSeed: seed, Episodes: episodes, Rules: results.Rules{Protocol: "strict", Precision: precision}}
		return c
	}
	oracle, python := cell(0, 7, ""), cell(4, 7, "fp32")
	oracle.Spec.Method, python.Spec.Python = model.OracleState, results.PythonWorld
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
		{dir: "x", flags: "-f", cells: []results.Cell{oracle, cell(3, 7, "fp32"), python}, want: "scalewm reproduce --preset PRESET --device cpu --precision fp32 --protocol strict --episodes 7 --seeds 3 -f --out x"},
	} {
		if got := continued(c.dir, &results.Contents{Cells: c.cells, Trained: c.trained})(c.flags); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// What a training's sidecar says is added for weights that the cells do not describe. The
// numbers are those of nano.toml. Unreadable sidecars are left to others.
func TestAddTrained(t *testing.T) {
	nano, err := LoadPreset("nano")
	if err != nil {
		t.Fatal(err)
	}
	r, err := nano.recipe(model.MethodOf("scale"), 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, hash := range []string{"aa", "bb"} {
		side := weights.Sidecar{Kind: model.FamilyLeWM, SHA256: hash, Method: "scale", Step: 1000, Data: "data"}
		for v, into := range map[any]*json.RawMessage{&r.Model: &side.Config, &r.Train: &side.Train} {
			if *into, err = json.Marshal(v); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(side)
		if err != nil {
			t.Fatal(err)
		}
		resultstest.Put(t, dir+"/shard/train/tworoom-scale-s1-"+hash+"/"+weights.SidecarName, string(text))
	}
	resultstest.Put(t, dir+"/train/tworoom-aux-s1/"+weights.SidecarName, "{")
	known := results.Trained{Steps: 7}
	trained := map[string]results.Trained{"bb": known}
	if err := addTrained(t.Context(), dir, trained); err != nil {
		t.Fatal(err)
	}
	x := trained["aa"]
	if x.Preset != "nano" || x.FrameSize != 64 || x.Steps != 1000 || x.Batch != 64 || x.Data != "data" || x.Parameters < 100_000 {
		t.Errorf("%+v", x)
	}
	if len(trained) != 2 || trained["bb"] != known {
		t.Errorf("%+v", trained)
	}
}
