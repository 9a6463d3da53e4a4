package infer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"scalewm/eval/infer"
)

// Two arms from CSV files are paired by episode. Of 100 episodes both solve 90, seven
// are solved only by the first and one only by the second.
func ExampleCompare() {
	dir, err := os.MkdirTemp("", "paired-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	var arms [2]*infer.Side
	for i, solved := range []func(e int) bool{
		func(e int) bool { return e < 97 },
		func(e int) bool { return e < 90 || e == 99 },
	} {
		var b strings.Builder
		b.WriteString("set,episode,tier,success\n")
		for e := range 100 {
			fmt.Fprintf(&b, "s101,%d,T1,%v\n", e, solved(e))
		}
		path := filepath.Join(dir, fmt.Sprintf("arm%d.csv", i))
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			fmt.Println(err)
			return
		}
		if arms[i], err = infer.Load(context.Background(), path, infer.Filter{}); err != nil {
			fmt.Println(err)
			return
		}
	}
	r := infer.Compare(arms[0], arms[1], infer.Options{}).ByTier[0]
	fmt.Printf("%s: %+.0f points [%.1f, %.1f], p = %.4f, %d and %d\n", r.Tier, r.Diff, r.Lo, r.Hi, r.P, r.OnlyA, r.OnlyB)
	// Output: T1: +6 points [0.0, 13.0], p = 0.0703, 7 and 1
}
