package replay_test

import (
	"context"
	"fmt"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/replay"
	// The import registers the task of the recording.
	_ "scalewm/envs/tworoom"
)

// Three recorded episodes of the reference Two-Room are simulated again: no number of
// the agent's position differs, and no flag.
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
