package hdf5

import (
	"encoding/json"
	"slices"
	"testing"
)

// The expected names and shapes are attributes of the file, from h5py and NumPy
// (testdata/make_schema.py).
func TestSchema(t *testing.T) {
	tree := openTree(t, "testdata/schema.h5")
	named := 0
	for name, s := range tree.Sets() {
		want, known := tree.Attr(name + ":dtype")
		dtype, shape, err := s.Schema()
		if !known {
			if err == nil {
				t.Errorf("%s is %s, want an error", name, dtype)
			}
			continue
		}
		named++
		text, _ := tree.Attr(name + ":shape")
		var dims []uint64
		if json.Unmarshal([]byte(text), &dims) != nil || err != nil || dtype != want || !slices.Equal(shape, dims) {
			t.Errorf("%s is %s %v, %v, want %s %s", name, dtype, shape, err, want, text)
		}
	}
	if named != 36 || len(tree.Sets()) != 38 {
		t.Errorf("%d of %d data sets have a name", named, len(tree.Sets()))
	}
}

// libhdf5 1.10 cannot open most data sets of this file, so our parser reads their
// headers. The expected types are h5py's.
func TestSchemaOfNewerFile(t *testing.T) {
	tree := openTree(t, "testdata/latest.h5")
	for name, want := range map[string]string{"flag": "bool", "flag_plain": "bool", "sparse": "float32", "single_blosc": "float64", "ep_idx": "int32", "pixels": "uint8"} {
		if dtype, _, err := tree.Sets()[name].Schema(); dtype != want || err != nil {
			t.Errorf("%s is %s, %v, want %s", name, dtype, err, want)
		}
	}
}
