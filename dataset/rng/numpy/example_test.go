package numpy_test

import (
	"fmt"

	"scalewm/dataset/rng/numpy"
)

// The earliest start of the published set s101 of Cube: the set takes
// numpy.random.default_rng(101).choice(1759999, 100, replace=False), sorted. Each of
// the 10,000 episodes has 176 rows that have a goal row 25 rows later.
func ExampleGenerator_Choice() {
	drawn := numpy.New(101).Choice(10_000*176-1, 100)
	first := drawn[0]
	for _, d := range drawn {
		first = min(first, d)
	}
	fmt.Printf("episode %d, row %d\n", first/176, first%176)
	// Output: episode 30, row 42
}
