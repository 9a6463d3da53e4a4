package cell_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"scalewm/dataset/cell"
)

// A cell is named by its spec. A process that finds it need not compute its result
// again.
func ExampleStore() {
	dir, err := os.MkdirTemp("", "cell-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store := cell.Store{Dir: dir}
	spec := map[string]any{"base": 3, "exponent": 4}

	id, err := cell.ID("power", spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	before := store.Load(id, nil, nil)
	if err := store.Save(id, "power", spec, 81); err != nil {
		fmt.Println(err)
		return
	}
	var result int
	after := store.Load(id, nil, &result)
	fmt.Println(errors.Is(before, fs.ErrNotExist), after, result)
	// Output: true <nil> 81
}

// Units of work are assigned to shards round robin.
func ExampleParseShard() {
	shard, err := cell.ParseShard("1/3")
	if err != nil {
		fmt.Println(err)
		return
	}
	for unit := range 7 {
		if shard.Has(unit) {
			fmt.Print(unit, " ")
		}
	}
	// Output: 1 4
}
