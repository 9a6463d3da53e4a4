package rng_test

import (
	"fmt"

	"scalewm/dataset/rng"
)

// A stream is a function of its name: creating it twice, or in another order, gives
// the same numbers.
func ExampleStream() {
	a, b := rng.Stream("example", "tworoom", 17), rng.Stream("example", "tworoom", 17)
	other := rng.Stream("example", "tworoom", 18)
	x := a.Uint64()
	fmt.Println(x == b.Uint64(), x == other.Uint64())
	// Output: true false
}

// The published seed of the first episode of a set at tier T1, and a sample of the
// planner noise that is derived from it.
func ExamplePlannerSeed() {
	seed := rng.PlannerSeed(0, "T1")
	key := rng.Key("planner", int(seed))
	fmt.Println(seed, rng.Normal(key, 0) == rng.Normal(key, 0))
	// Output: 59584227 true
}
