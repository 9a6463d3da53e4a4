package hdf5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
)

func openTree(t testing.TB, path string) *Tree {
	t.Helper()
	tree, err := OpenTree(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

func groupOf(t testing.TB, g *Group, names ...string) *Group {
	t.Helper()
	for _, name := range names {
		var err error
		if g, err = g.Group(name); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// The expected values are those of testdata/make_tree.py.
func TestTree(t *testing.T) {
	for _, name := range []string{"tree.h5", "tree_latest.h5"} {
		tree := openTree(t, filepath.Join("testdata", name))
		if g, o := tree.Groups(), tree.Others(); !slices.Equal(g, []string{"data", "many", "soft"}) || len(o) != 2 || !strings.Contains(o["elsewhere"], "another file") || o["nothing"] == "" {
			t.Errorf("%s: groups %q, others %q", name, g, o)
		}
		if got, want := tree.Contents(), "data/, many/, soft/"; got != want {
			t.Errorf("%s: contents %q, want %q", name, got, want)
		}
		demo := groupOf(t, tree.Group, "soft", "demo_0")
		for attr, want := range map[string]string{"num_samples": "5", "scale": "0.25", "note": "first", "pair": ""} {
			if got, ok := demo.Attr(attr); got != want || ok != (want != "") {
				t.Errorf("%s: attribute %s is %q, want %q", name, attr, got, want)
			}
		}
		if a := demo.Attrs(); len(a) != 1 {
			t.Errorf("%s: texts %q", name, a)
		}
		checkSets(t, name, demo)
		// A group in itself opens like any other.
		if g := groupOf(t, demo, "up", "demo_0"); g.Sets()["big"] == nil {
			t.Errorf("%s: the link upwards has %s", name, g.Contents())
		}
		many := groupOf(t, tree.Group, "many")
		for i := range 40 {
			g := groupOf(t, many, fmt.Sprintf("episode_%d", i))
			if x, err := g.Sets()["x"].Read(0, 1); err != nil || !bytes.Equal(x, []byte{byte(i)}) {
				t.Errorf("%s: group %d has %d, %v", name, i, x, err)
			}
			g.Close()
		}
		if len(many.children) != 0 || tree.open != 5 {
			t.Errorf("%s: %d groups are open, %d of them in many", name, tree.open, len(many.children))
		}
		_, err := tree.Group.Group("elsewhere")
		oneLine(t, "a link to another file", err, `no group "elsewhere"`)
	}
}

// checkSets checks the data sets of demo_0.
func checkSets(t *testing.T, name string, g *Group) {
	t.Helper()
	for set, want := range map[string]struct {
		dtype string
		shape []int
		row   []byte
		fault string
	}{
		"actions": {"float64", []int{5, 2}, []byte{0, 0, 0, 0, 0, 0, 0x10, 0x40, 0, 0, 0, 0, 0, 0, 0x12, 0x40}, ""},
		"half":    {"float16", []int{5}, []byte{0, 0x44}, ""},
		"flag":    {"uint8", []int{5}, []byte{1}, ""},
		"big":     {"int32", []int{5}, []byte{4, 0, 0, 0}, ""},
		"bytes":   {"bytes", []int{5}, nil, ""},
		"words":   {"", nil, nil, "text"},
		"one":     {"int64", nil, nil, "single value"},
		"floats":  {"", nil, nil, "variable length"},
	} {
		s := g.Sets()[set]
		if s == nil || s.DType() != want.dtype || !slices.Equal(s.Shape(), want.shape) || !strings.Contains(s.Fault(), want.fault) || want.fault == "" != (s.Fault() == "") {
			t.Errorf("%s: %s is %+v", name, set, s)
			continue
		}
		row, err := s.Read(4, min(5, 4+len(want.row)))
		if want.row == nil {
			oneLine(t, set, err)
		} else if err != nil || !bytes.Equal(row, want.row) || s.RowBytes() != len(row) {
			t.Errorf("%s: row 4 of %s is %x, %v", name, set, row, err)
		}
	}
	got, err := g.Sets()["bytes"].ReadBytes(0, 5)
	if err != nil || len(got) != 5 {
		t.Fatalf("%s: %d byte strings, %v", name, len(got), err)
	}
	for i, n := range []int{3, 5000, 0, 1, 7} {
		if len(got[i]) != n || n > 0 && (got[i][0] != byte(i) || got[i][n-1] != byte(n-1+i)) {
			t.Errorf("%s: byte string %d has %d bytes", name, i, len(got[i]))
		}
	}
	_, err = g.Sets()["half"].ReadBytes(0, 1)
	oneLine(t, "numbers", err, "byte strings")
	_, err = g.Sets()["half"].Read(3, 6)
	oneLine(t, "rows", err, "rows 3 to 6 of 5")
}

// Rows that a file of this size cannot have are an error before memory is allocated.
func TestTreeOfClaims(t *testing.T) {
	tree := openTree(t, "testdata/tree.h5")
	s := groupOf(t, tree.Group, "data", "demo_0").Sets()["half"]
	// Rows that were never written take no space.
	s.layout, s.offset, s.dims = layoutContig, undefAddr, []uint64{1 << 39}
	fuzztest.Read(t, 0, func() {
		_, err := s.Read(0, 1<<38)
		oneLine(t, "a claim", err, "cannot be in a file of this size", "hint")
	})
	s.dims = []uint64{1 << 41}
	if f := s.description.fault(); !strings.Contains(f, "not plausible") {
		t.Error(f)
	}
	wide := description{class: classFloat, elem: 8, dims: []uint64{1, 1 << 39, 1 << 39}}
	if f := wide.fault(); !strings.Contains(f, "not plausible") {
		t.Error(f)
	}
}

// Groups that contain themselves end a walk.
func TestTreeOfCycles(t *testing.T) {
	g := groupOf(t, openTree(t, "testdata/tree.h5").Group, "data", "demo_0")
	var err error
	for range maxOpen {
		if g, err = g.Group("up"); err == nil {
			g, err = g.Group("demo_0")
		}
		if err != nil {
			break
		}
	}
	oneLine(t, "a cycle", err, "more than 1024 groups", "hint")
}

func TestOpenBadTrees(t *testing.T) {
	b, err := os.ReadFile("testdata/tree_latest.h5")
	if err != nil {
		t.Fatal(err)
	}
	half, flipped := b[:len(b)/2], bytes.Clone(b)
	// Byte 30 of the object header of a group, which the file's checksums cover.
	at := bytes.Index(b, []byte("episode_7"))
	flipped[at] ^= 1
	for name, content := range map[string][]byte{"empty": nil, "text": []byte("not HDF5"), "half": half} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := OpenTree(path)
		oneLine(t, name, err, path, "hint")
	}
	path := filepath.Join(t.TempDir(), "flipped")
	if err := os.WriteFile(path, flipped, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = openTree(t, path).Group.Group("many")
	oneLine(t, "flipped", err, "its group many", "checksum", "hint")
	_, err = OpenTree(filepath.Join(t.TempDir(), "none"))
	oneLine(t, "missing", err, "none", "hint")
}

// walkTree opens all groups and reads the first rows of all data sets, up to a depth
// and a number of groups.
func walkTree(g *Group, depth int, left *int) {
	for _, name := range slices.Sorted(maps.Keys(g.Sets())) {
		s := g.Sets()[name]
		_, _, _ = s.Schema()
		if s.Fault() != "" || s.RowBytes() > 1<<14 {
			continue
		}
		n := min(s.Shape()[0], 8)
		_, _ = s.Read(0, n)
		_, _ = s.ReadBytes(0, n)
	}
	for _, name := range g.Groups() {
		if *left--; depth == 0 || *left < 0 {
			return
		}
		if child, err := g.Group(name); err == nil {
			walkTree(child, depth-1, left)
			child.Close()
		}
	}
}

// FuzzTree walks an edited file of groups. It has checksums: libhdf5 1.10 reads outside
// its memory if the metadata of files without them are damaged.
func FuzzTree(f *testing.F) {
	b, err := os.ReadFile("testdata/tree_latest.h5")
	if err != nil {
		f.Fatal(err)
	}
	w := edited{bytes: b}
	if w.File, err = os.Create(filepath.Join(f.TempDir(), "tree")); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { w.Close() })
	if _, err := w.Write(b); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	for _, sig := range []string{"GCOL", "OHDR", "FRHP", "BTHD"} {
		f.Add(binary.LittleEndian.AppendUint32(nil, uint32(bytes.Index(b, []byte(sig))+8)|1<<24))
	}
	f.Fuzz(func(t *testing.T, edits []byte) {
		defer w.edit(edits)()
		fuzztest.Read(t, len(w.bytes), func() {
			tree, err := OpenTree(w.Name())
			if err != nil {
				return
			}
			left := 20
			walkTree(tree.Group, 4, &left)
			if err := tree.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

// FuzzGlobalHeap reads objects of malformed collections.
func FuzzGlobalHeap(f *testing.F) {
	b, err := os.ReadFile("testdata/tree.h5")
	if err != nil {
		f.Fatal(err)
	}
	at := bytes.Index(b, []byte("GCOL"))
	f.Add(b[at:min(len(b), at+8192)], uint16(0), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, addr, number uint16) {
		fuzztest.Read(t, len(b), func() {
			h := heap{newCursor(bytes.NewReader(b), int64(len(b))), map[uint64]map[uint32][]byte{}}
			first, err := h.object(uint64(addr), uint32(number))
			again, err2 := h.object(uint64(addr), uint32(number))
			if (err == nil) != (err2 == nil) || !bytes.Equal(first, again) {
				t.Error(errors.Join(err, err2))
			}
		})
	})
}
