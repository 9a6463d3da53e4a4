package envs_test

import (
	"fmt"
	"math/rand/v2"

	"scalewm/envs"
	_ "scalewm/envs/tworoom" // registers the task
)

// Set a state and a goal, and step the world until the goal is met.
func Example() {
	task, err := envs.Lookup("tworoom")
	if err != nil {
		fmt.Println(err)
		return
	}
	world, err := task.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer world.Close()
	if err := world.Reset(rand.New(rand.NewPCG(1, 2))); err != nil {
		fmt.Println(err)
		return
	}
	if err := world.SetState(envs.Row{"state": {60, 112}}); err != nil {
		fmt.Println(err)
		return
	}
	if err := world.SetGoal(envs.Row{"state": {90, 112}}); err != nil {
		fmt.Println(err)
		return
	}
	for step := 1; ; step++ {
		out, err := world.Step([]float64{1, 0})
		if err != nil {
			fmt.Println(err)
			return
		}
		if out.Terminated {
			at := make([]float64, 2)
			err := world.Observe("state", at)
			fmt.Println(task.Spec.Title, "solved after step", step, "at", at, err)
			return
		}
	}
	// Output: Two-Room solved after step 3 at [75 112] <nil>
}
