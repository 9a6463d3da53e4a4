package replay_test

import (
	"context"
	"fmt"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/replay"
	_ "scalewm/envs/tworoom" // the task that the recording is of
)

// Three recorded episodes of the original Two-Room are simulated anew: no number
// of the agent's position differs, and no flag.
func Example() {
	f, err := hdf5.Open("testdata/tworoom_states.h5")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	r, err := replay.Run(context.Background(), f, replay.Options{Episodes: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	state := r.Columns["state"]
	fmt.Println(r.Env, state.MaxAbs, state.RowsEqual == r.Rows, r.Terminated.Wrong)
	// Output: tworoom 0 true 0
}
