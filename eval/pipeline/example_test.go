package pipeline_test

import (
	"fmt"

	"scalewm/envs"
	_ "scalewm/envs/tworoom"
	"scalewm/eval"
	"scalewm/eval/pipeline"
	"scalewm/eval/results"
	"scalewm/model"
)

// The steps of a small grid, in the order in which they run, and what each needs.
func ExampleWorkspace_Graph() {
	task, err := envs.Lookup("tworoom")
	if err != nil {
		fmt.Println(err)
		return
	}
	scale, err := model.LookUp("scale")
	if err != nil {
		fmt.Println(err)
		return
	}
	w := pipeline.NewWorkspace(pipeline.Grid{
		Tasks: []envs.Task{task}, Methods: []model.Method{scale}, Seeds: []int64{3072},
		Axes: pipeline.Axes{Solvers: []string{results.CEM}, Tiers: eval.Tiers()[:1], Sets: []string{"s101"}},
	}, "", pipeline.Options{})
	for _, s := range w.Graph() {
		fmt.Println(s.ID(), s.Needs())
	}
	// Output:
	// collect tworoom []
	// train tworoom scale s3072 [collect tworoom]
	// evaluate tworoom scale s3072 cem T1 [train tworoom scale s3072 collect tworoom]
	// report []
}
