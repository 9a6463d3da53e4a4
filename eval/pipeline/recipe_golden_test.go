package pipeline

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/model"
	"scalewm/model/train"
	"scalewm/model/weights"
)

var writeRecipes = flag.Bool("write-recipes", false, "write testdata/recipes.golden instead of comparing with it")

// Recipes of the built-in presets are part of the ids of cells and trainings, so they
// must never change. Each line of testdata/recipes.golden has the recipe that a
// cell's spec contains (train.RecipeOf), the weight of the term that sees the task
// state, and a hash of the geometry and train.Config, which the id of a training
// hashes. The file was written by the version of the program that read presets with
// train.sigreg, train.scale_weight and train.aux_weight.
func TestRecipesKeepTheirIDs(t *testing.T) {
	const golden = "testdata/recipes.golden"
	var got strings.Builder
	for _, name := range PresetNames() {
		p, err := LoadPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range model.Methods() {
			for _, task := range []struct {
				name    string
				actions int
			}{{"pusht", 2}, {"reacher", 2}, {"cube", 5}, {"tworoom", 2}, {"pointmaze", 2}, {"pendulum", 1}} {
				m.Pretrained = false // its backbone is in no preset
				if !m.HasModel() {
					continue
				}
				r, err := p.recipe(m, task.actions, nil)
				if err != nil {
					continue // laptop has no DINO-WM
				}
				s := &weights.Sidecar{Kind: m.Family, Method: m.Name, Task: task.name, QName: "full"}
				if s.Config, err = json.Marshal(r.Model); err == nil {
					s.Train, err = json.Marshal(r.Train)
				}
				if err != nil {
					t.Fatal(err)
				}
				id, err := cell.ID("train", []any{s.Config, s.Train})
				if err != nil {
					t.Fatal(err)
				}
				of := train.RecipeOf(s)
				fmt.Fprintf(&got, "%s %s %s %s %g %s\n", name, m.Name, task.name, of.Hash, of.Weight, id)
			}
		}
	}
	if *writeRecipes {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		for i, line := range strings.Split(got.String(), "\n") {
			if w := strings.Split(string(want), "\n"); i >= len(w) || w[i] != line {
				t.Fatalf("line %d is %q, want that of %s", i+1, line, golden)
			}
		}
		t.Fatalf("fewer lines than %s", golden)
	}
}
