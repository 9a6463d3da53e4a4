package hdf5

import (
	"path/filepath"
	"testing"

	"scalewm/envs"
)

// A column's name stands in many lines; one that would break or colour them is no column.
func TestNamesOfColumns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.h5")
	w, err := Create(path, WriterOptions{Columns: []envs.Column{{Name: "action", DType: "float32", Width: 1}, {Name: "z\nscalewm: forged", DType: "float32", Width: 1},
		{Name: "\x1b[2J", DType: "float32", Width: 1}, {Name: "größe", DType: "float32", Width: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	one := []float64{0.5}
	if err := w.Append(EpisodeData{Columns: map[string][]float64{"action": one, "z\nscalewm: forged": one, "\x1b[2J": one, "größe": one}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f := opened(t, path)
	names := map[string]bool{}
	for _, c := range f.Columns() {
		names[c.Name] = true
	}
	skipped := f.Skipped()
	if !names["action"] || !names["größe"] || names["\x1b[2J"] || skipped["z\nscalewm: forged"] == "" || skipped["\x1b[2J"] == "" {
		t.Errorf("columns %v, left out %q", names, skipped)
	}
}
