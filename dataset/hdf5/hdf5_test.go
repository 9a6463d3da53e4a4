package hdf5

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"scalewm/dataset"
	"scalewm/envs"
)

// frameOf returns a frame that differs in every row and is neither flat nor noise.
func frameOf(row int) []byte {
	f := make([]byte, envs.FrameBytes)
	for i := range f {
		f[i] = byte(i/1000*7 + row*13 + i%3)
	}
	return f
}

var testColumns = []envs.Column{
	{Name: "action", DType: "float32", Width: 2},
	{Name: "state", DType: "float64", Width: 3},
	{Name: "terminated", DType: "uint8", Width: 1},
	{Name: "count", DType: "int64", Width: 1},
}

func testEpisode(offset, n int) EpisodeData {
	e := EpisodeData{Columns: map[string][]float64{}}
	for i := range n {
		r := float64(offset + i)
		a := []float64{r / 4, -r}
		if i == n-1 {
			a = []float64{math.NaN(), math.NaN()}
		}
		e.Columns["action"] = append(e.Columns["action"], a...)
		e.Columns["state"] = append(e.Columns["state"], r, math.Pi*r, -r)
		e.Columns["terminated"] = append(e.Columns["terminated"], float64(i%2))
		e.Columns["count"] = append(e.Columns["count"], -r*1e12)
		e.Frames = append(e.Frames, frameOf(offset+i))
	}
	return e
}

func writeTest(t *testing.T, path string, filter Filter, lens ...int) {
	t.Helper()
	w, err := Create(path, WriterOptions{Columns: testColumns, FrameSize: envs.FrameSize, Filter: filter, Attrs: map[string]string{"env": "tworoom", "empty": ""}})
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, n := range lens {
		if err := w.Append(testEpisode(at, n)); err != nil {
			t.Fatal(err)
		}
		at += n
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, filter := range []Filter{Deflate, Zstd, None} {
		path := filepath.Join(t.TempDir(), "d.h5")
		writeTest(t, path, filter, 5, 1, 40)
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Rows() != 46 {
			t.Fatalf("%s: %d rows", filter, f.Rows())
		}
		if d := cmp.Diff([]dataset.Episode{{Offset: 0, Len: 5}, {Offset: 5, Len: 1}, {Offset: 6, Len: 40}}, f.Episodes()); d != "" {
			t.Error(d)
		}
		if v, _ := f.Attr("env"); v != "tworoom" {
			t.Errorf("env is %q", v)
		}
		at := 0
		for _, n := range []int{5, 1, 40} {
			want := testEpisode(at, n)
			for _, c := range testColumns {
				got, err := f.Read(c.Name, at, at+n)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want.Columns[c.Name], got, cmpopts.EquateNaNs()); d != "" {
					t.Errorf("%s: %s", c.Name, d)
				}
			}
			for i := range n {
				got := make([]byte, envs.FrameBytes)
				if err := f.Frame(at+i, got); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want.Frames[i]) {
					t.Errorf("frame %d differs", at+i)
				}
			}
			at += n
		}
	}
}

// Equal data give equal bytes, and no object has a time, which would change from one
// second to the next: that is bit 5 of the flags of each object header.
func TestSameBytes(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.h5"), filepath.Join(dir, "b.h5")
	writeTest(t, a, Deflate, 3, 4)
	writeTest(t, b, Deflate, 3, 4)
	first, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("equal data gave different bytes")
	}
	f, err := Open(a)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	headers := []uint64{binary.LittleEndian.Uint64(first[36:])} // of the root group, in the superblock
	for _, d := range f.list.sets {
		headers = append(headers, d.header)
	}
	for _, at := range headers {
		if h := first[at:]; string(h[:4]) != "OHDR" || h[5]&0x20 != 0 {
			t.Errorf("the object at %d keeps times: % x", at, h[:6])
		}
	}
}
