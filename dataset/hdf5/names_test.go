package hdf5

import (
	"path/filepath"
	"strings"
	"testing"

	"scalewm/envs"
)

// The name of a column is printed in many lines. A name that would break or colour
// them is not a column's.
func TestNamesOfColumns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.h5")
	columns := []envs.Column{{Name: "action", DType: "float32", Width: 1}, {Name: "größe", DType: "float32", Width: 1}}
	w, err := Create(path, WriterOptions{Columns: columns})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"z\nscalewm: forged", "\x1b[2J"} {
		err := withLib(func() error { // the writer itself rejects such names
			c, err := w.newColumn(envs.Column{Name: name, DType: "float32", Width: 1})
			if err == nil {
				err = c.flush(1)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	one := []float64{0.5}
	if err := w.Append(EpisodeData{Columns: map[string][]float64{"action": one, "größe": one}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "a/b", "a\x00b", "\x1b[2J", strings.Repeat("x", maxName+1)} {
		_, err := Create(filepath.Join(t.TempDir(), "x.h5"), WriterOptions{Columns: []envs.Column{{Name: name, DType: "float32", Width: 1}}})
		if err == nil || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("the name %q: %v", name, err)
		}
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
