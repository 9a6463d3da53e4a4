package hdf5_test

import (
	"fmt"
	"os"
	"path/filepath"

	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// Two episodes are written and read back.
func Example() {
	dir, err := os.MkdirTemp("", "hdf5-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "walk.h5")

	w, err := hdf5.Create(path, hdf5.WriterOptions{
		Columns: []envs.Column{{Name: "position", DType: "float32", Width: 2}},
		Attrs:   map[string]string{"env": "walk"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Abort does nothing after Close.
	defer w.Abort()
	for _, rows := range [][]float64{{0, 0, 1, 0, 2, 0}, {5, 5, 5, 6}} {
		if err := w.Append(hdf5.EpisodeData{Columns: map[string][]float64{"position": rows}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}

	f, err := hdf5.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	last := f.Episodes()[1]
	values, err := f.Read("position", last.Offset, last.Offset+last.Len)
	env, _ := f.Attr("env")
	fmt.Println(env, f.Rows(), last, values, err)
	// Output: walk 5 {3 2} [5 5 5 6] <nil>
}
