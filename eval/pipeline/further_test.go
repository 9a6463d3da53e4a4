package pipeline

import (
	"slices"
	"strings"
	"testing"

	"scalewm/eval/results"
	"scalewm/model"
)

// TestFurther adds evaluations to a small grid and restricts them as the flags do.
func TestFurther(t *testing.T) {
	grid := func(chosen Chosen, also ...Further) []string {
		g := smallGrid(t)
		g.Tasks, g.Methods, g.Seeds, g.Precision = g.Tasks[1:], lookUp(t, model.LookUp, "lewm", "scale"), []int64{7}, "bf16"
		g.Preset.Grid.Also = also
		if err := g.AddFurther(chosen); err != nil {
			t.Fatal(err)
		}
		var more []string
		plain := smallGrid(t)
		plain.Tasks, plain.Methods, plain.Seeds = g.Tasks, g.Methods, g.Seeds
		before := names(NewWorkspace(plain, "", Options{}).Graph())
		for _, step := range names(NewWorkspace(g, "", Options{}).Graph()) {
			if !slices.Contains(before, step) {
				more = append(more, step)
			}
		}
		return more
	}
	stock := Further{Methods: []string{"lewm"}, Solvers: []string{results.MPPI}, Rules: map[string]string{"temperature": "stock"}}
	half := Further{Tasks: []string{"cube", "reacher"}, Methods: []string{"scale"}, Q: []string{"half"}, Solvers: []string{results.Descent}, Tiers: []string{"T3"}}
	for _, c := range []struct {
		name   string
		chosen Chosen
		also   Further
		want   []string
	}{
		{"other rules", Chosen{}, stock, []string{"evaluate cube lewm s7 mppi T1 temperature=stock x1", "evaluate cube lewm s7 mppi T5 temperature=stock x1"}},
		{"another state", Chosen{}, half, []string{"train cube scale@half s7", "evaluate cube scale@half s7 gd T3 x1"}},
		{"another precision", Chosen{}, Further{Methods: []string{"scale"}, Solvers: []string{results.CEM}, Tiers: []string{"T5"}, Precision: "fp32"}, []string{"evaluate cube scale s7 cem T5 precision=fp32 x1"}},
		{"the grid's precision", Chosen{}, Further{Solvers: []string{results.CEM}, Tiers: []string{"T5"}}, nil},
		{"solvers that were not chosen", Chosen{Solvers: true}, half, nil},
		{"tiers that were not chosen", Chosen{Tiers: true}, half, nil},
		{"states that were not chosen", Chosen{Qs: true}, half, nil},
		{"a task that the grid lacks", Chosen{}, Further{Tasks: []string{"reacher"}, Rules: stock.Rules}, nil},
	} {
		if got := grid(c.chosen, c.also); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	g := smallGrid(t)
	g.Temperature, g.Preset.Grid.Also = results.Tuned, []Further{{Precision: "fp32"}}
	if err := g.AddFurther(Chosen{}); err == nil || !strings.Contains(err.Error(), "no tuned temperature") {
		t.Errorf("mppi in another precision: %v", err)
	}
	for says, f := range map[string]Further{
		"changes the starts":  {Rules: map[string]string{"protocol": "strict"}},
		"no setting":          {Rules: map[string]string{"temparature": "stock"}},
		"precision is":        {Precision: "fp16"},
		"no method":           {Methods: []string{"lewn"}},
		"unknown solver":      {Solvers: []string{"cm"}},
		`"T9"`:                {Tiers: []string{"T9"}},
		"unknown temperature": {Rules: map[string]string{"temperature": "warm"}},
	} {
		if err := f.validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want an error that says %s", f, err, says)
		}
	}
}
