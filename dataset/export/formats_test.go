package export

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// A chunk has at most 2 MB, the last one is padded with zeros, and chunks are numbered
// along the first axis.
func TestChunksOfZarr(t *testing.T) {
	dir := t.TempDir()
	w, err := createZarr(dir, &set{pixels: "img", edge: 400, rows: 10, episodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	// A frame has 480,000 bytes, of which four fit.
	for i := range 2 {
		e := &episode{index: i, first: 5 * i, rows: 5, frames: make([]byte, 5*480000)}
		for k := range e.frames {
			e.frames[k] = byte(1 + 5*i + k/480000)
		}
		if err := w.append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	row := 0
	for chunk := range 3 {
		b, err := os.ReadFile(filepath.Join(dir, "data/img", fmt.Sprintf("%d.0.0.0", chunk)))
		if err == nil {
			b, err = d.DecodeAll(b, nil)
		}
		if err != nil || len(b) != 4*480000 {
			t.Fatalf("chunk %d has %d bytes, %v", chunk, len(b), err)
		}
		for k := range 4 {
			want := byte(0)
			if row++; row <= 10 {
				want = byte(row)
			}
			if b[k*480000] != want || b[(k+1)*480000-1] != want {
				t.Errorf("row %d of chunk %d has %d, want %d", k, chunk, b[k*480000], want)
			}
		}
	}
	if files, err := os.ReadDir(filepath.Join(dir, "data/img")); err != nil || len(files) != 4 {
		t.Errorf("%v, %v; want three chunks and .zarray", files, err)
	}
}

// Columns of all types that h5py writes, float16 and other byte orders among them, have
// the numbers that the reader returns.
func TestTypes(t *testing.T) {
	src := open(t, "../hdf5/testdata/types.h5")
	s := Job{In: "types.h5", Note: func(string) {}}.describe(src, formats[0])
	at := src.Episodes()[0]
	e, err := s.read(t.Context(), src, at)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, c := range s.columns {
		seen[s.stored[i].DType] = true
		want, err := src.Read(c.Name, at.Offset, at.Offset+at.Len)
		if got := numbers(c.DType, e.values[i]); err != nil || !slices.EqualFunc(got, want, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }) {
			t.Errorf("%s is %v, want %v, %v", c.Name, got, want, err)
		}
	}
	for _, dtype := range []string{"float16", "int16", "uint64"} {
		if !seen[dtype] {
			t.Errorf("the fixture has no %s", dtype)
		}
	}
}

// Nesting levels of lists of lists, by the definition of Parquet
// (https://github.com/apache/parquet-format/blob/master/README.md#nested-encoding).
func TestRepetition(t *testing.T) {
	for _, c := range []struct {
		shape []int
		want  []int
	}{
		{nil, []int{0}},
		{[]int{3}, []int{0, 1, 1}},
		{[]int{2, 3}, []int{0, 2, 2, 1, 2, 2}},
		{[]int{3, 1, 1}, []int{0, 1, 1}},
		{[]int{2, 2, 2}, []int{0, 3, 2, 3, 1, 3, 2, 3}},
	} {
		var got []int
		for k := range c.want {
			got = append(got, repetition(k, c.shape))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("shape %v: levels %v, want %v", c.shape, got, c.want)
		}
	}
}

// The numbers of 1 to 5 and 10 to 50 by hand; NaN does not count, and neither do
// values whose squares are infinite.
func TestStats(t *testing.T) {
	s := describe([]float64{1, 10, 2, 20, 3, 30, 4, 40, 5, 50, math.NaN(), math.Inf(1), 1e200, -1e300}, 2)
	near := func(what string, got []float64, want ...float64) {
		t.Helper()
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-12*math.Abs(want[i]) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
	}
	near("min", s.min, 1, 10)
	near("max", s.max, 5, 50)
	near("mean", s.mean, 3, 30)
	near("std", s.std, math.Sqrt2, 10*math.Sqrt2)
	near("q01", s.quantiles[0], 1.04, 10.4)
	near("q50", s.quantiles[2], 3, 30)
	if s.count != 7 {
		t.Errorf("count %d, want 7 rows", s.count)
	}
	// A column without any number.
	near("nothing", describe([]float64{math.NaN()}, 1).std, 0)
	// Frames of 0 and 255: the colour red has one of each, blue only 255.
	f := describeFrames([]byte{0, 0, 255, 255, 0, 255}, 2)
	near("mean of colours", f.mean, .5, 0, 1)
	near("std of colours", f.std, .5, 0, 0)
	// The union of {1, 2} and {6}: mean 3, variance (4 + 1 + 9) / 3.
	u := describe([]float64{1, 2}, 1)
	u.add(describe([]float64{6}, 1))
	near("min of both", u.min, 1)
	near("max of both", u.max, 6)
	near("mean of both", u.mean, 3)
	near("std of both", u.std, math.Sqrt(14./3))
}
