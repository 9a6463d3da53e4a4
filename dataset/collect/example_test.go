package collect_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"scalewm/dataset/collect"
	_ "scalewm/envs/tworoom"
)

// One episode of Two-Room with random actions. The same spec gives the same bytes for
// any number of workers, so a second run finds the file finished.
func Example() {
	dir, err := os.MkdirTemp("", "collect-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	spec := collect.Spec{Task: "tworoom", Policy: "uniform", Episodes: 1, Seed: 1}
	for range 2 {
		job, err := collect.Prepare(context.Background(), filepath.Join(dir, "walk.h5"), spec)
		if err != nil {
			fmt.Println(err)
			return
		}
		done := job.Done
		result, err := job.Run(context.Background(), 0, func(done, total int64, note string) {})
		job.Close()
		fmt.Println(done, result.Episodes, result.Rows, result.NewRows == result.Rows, err)
	}
	// Output:
	// false 1 101 true <nil>
	// true 1 101 false <nil>
}
