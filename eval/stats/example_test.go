package stats_test

import (
	"fmt"

	"scalewm/eval/stats"
)

// Of 100 paired episodes both arms solve 90, only A solves seven, only B solves one,
// and neither solves two. The interval is that of the difference of their rates.
func ExampleNewcombe() {
	i := stats.Newcombe(stats.Fourfold{Both: 90, OnlyA: 7, OnlyB: 1, Neither: 2}, .95)
	fmt.Printf("+6.0 points [%.1f, %.1f]\n", 100*i.Lo, 100*i.Hi)
	// Output: +6.0 points [0.0, 13.0]
}

// Only the pairs that differ count: seven that only A solves, and one that only B
// solves.
func ExampleMcNemar() {
	exact, mid := stats.McNemar(7, 1)
	fmt.Printf("p = %.4f, mid-p = %.4f\n", exact, mid)
	// Output: p = 0.0703, mid-p = 0.0391
}

// Six sets all favour A. No test over six sets can have a smaller p.
func ExampleSignFlipExact() {
	fmt.Println(stats.SignFlipExact([]int{3, 4, 4, 8, 3, 5}))
	// Output: 0.03125
}

// Three p-values are adjusted, so that any false rejection among them is unlikely.
func ExampleHolm() {
	fmt.Printf("%.3f\n", stats.Holm([]float64{.01, .04, .03}))
	// Output: [0.030 0.060 0.060]
}
