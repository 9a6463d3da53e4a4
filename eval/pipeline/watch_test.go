package pipeline

import (
	"path/filepath"
	"slices"
	"testing"

	"scalewm/envs"
	_ "scalewm/envs/tworoom"
	"scalewm/model"
	"scalewm/model/train/metrics"
)

// A training in progress is shown with the steps or epochs of its recipe: in
// nano, DINO-WM's differ from LeWM's.
func TestWatchTellsOfTrainings(t *testing.T) {
	task, err := envs.Lookup("tworoom")
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorkspace(Grid{Tasks: []envs.Task{task}, Seeds: []int64{1}}, t.TempDir(), Options{})
	preset, err := LoadPreset("nano", "train.steps=7", "dinowm.steps=9")
	if err != nil {
		t.Fatal(err)
	}
	w.Grid.Preset = *preset
	for _, name := range []string{"lewm", "dinowm-random"} {
		m, err := model.LookUp(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Grid.Methods = append(w.Grid.Methods, m)
		log, err := metrics.Open(filepath.Join(w.dir, "train", "tworoom-"+name+"-s1"), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Write(metrics.Row{Step: 2, Split: metrics.Train, Losses: metrics.Losses{Loss: 0.5}}); err != nil {
			t.Fatal(err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	look := func(want ...string) {
		t.Helper()
		l, err := NewWatcher(w).Look(t.Context())
		if err != nil || !slices.Equal(l.Training, want) {
			t.Errorf("%q, want %q (%v)", l.Training, want, err)
		}
	}
	look("tworoom lewm s1: step 3 of 7, loss 0.5000", "tworoom dinowm-random s1: step 3 of 9, loss 0.5000")
	w.Grid.Preset.Models["dinowm"] = w.Grid.Preset.Models["dinowm"].With(model.Schedule{Batch: 4, Epochs: 10, LR: 5e-4})
	look("tworoom lewm s1: step 3 of 7, loss 0.5000", "tworoom dinowm-random s1: step 3, of 10 epochs, loss 0.5000")
}
