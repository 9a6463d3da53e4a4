package hdf5

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"scalewm/dataset"
	"scalewm/envs"
)

// fixturePixel and fixtureValue are the formulas by which testdata/make.py computes
// values.
func fixturePixel(row, y, x, c int) byte { return byte(row*7 + y/8*3 + x/16*5 + c*11) }

func fixtureValue(row, k int) float64 { return float64(row*3%64 + k*16 - 32) }

func openFixture(t *testing.T, name string) *File {
	t.Helper()
	f, err := Open("testdata/" + name + ".h5")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Pixels in every kind of storage, read in another order than that of the file.
func TestFixtureFrames(t *testing.T) {
	for _, name := range []string{"plain_pixels", "gzip_shuffle", "gzip_7", "boxes", "lzf_growing", "zstd", "published", "latest"} {
		f := openFixture(t, name)
		frame := make([]byte, envs.FrameBytes)
		for i := range f.Rows() {
			row := i * 17 % f.Rows()
			if err := f.Frame(row, frame); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for p, got := range frame {
				if want := fixturePixel(row, p/3/224, p/3%224, p%3); got != want {
					t.Fatalf("%s: row %d byte %d is %d, want %d", name, row, p, got, want)
				}
			}
		}
	}
}

func checkColumn(t *testing.T, f *File, column string, width int, want func(row, k int) float64) {
	t.Helper()
	for _, span := range [][2]int{{0, f.Rows()}, {3, 5}, {f.Rows() - 1, f.Rows()}, {f.Rows() / 2, f.Rows()}} {
		from, to := min(span[0], f.Rows()), min(span[1], f.Rows())
		got, err := f.Read(column, from, to)
		if err != nil {
			t.Errorf("%s: %v", f.Path(), err)
			return
		}
		if len(got) != (to-from)*width {
			t.Errorf("%s: %s has %d numbers, want %d", f.Path(), column, len(got), (to-from)*width)
			return
		}
		for i, v := range got {
			if w := want(from+i/width, i%width); v != w {
				t.Errorf("%s: %s row %d entry %d is %v, want %v", f.Path(), column, from+i/width, i%width, v, w)
				return
			}
		}
	}
}

func TestFixtureStates(t *testing.T) {
	for _, name := range []string{"plain", "plain_pixels", "gzip_shuffle", "gzip_7", "boxes", "lzf_growing", "zstd", "published", "swm_writer", "latest"} {
		checkColumn(t, openFixture(t, name), "state", 7, fixtureValue)
	}
}

func TestFixtureEpisodes(t *testing.T) {
	for name, want := range map[string][]dataset.Episode{
		"gzip_shuffle": {{Offset: 0, Len: 5}, {Offset: 5, Len: 6}, {Offset: 11, Len: 12}},
		"published":    {{Offset: 0, Len: 60}, {Offset: 60, Len: 70}}, // int64
		"swm_writer":   {{Offset: 0, Len: 5}, {Offset: 5, Len: 6}},
	} {
		if d := cmp.Diff(want, openFixture(t, name).Episodes()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Blosc with each codec, without shuffle and with byte and bit shuffle, on elements
// of 1, 4 and 8 bytes.
func TestFixtureBlosc(t *testing.T) {
	f := openFixture(t, "blosc")
	seen := 0
	for _, c := range f.Columns() {
		if !strings.Contains(c.Name, "_") || IsIndex(c.Name) {
			continue
		}
		seen++
		want := fixtureValue
		if strings.HasSuffix(c.Name, "u1") {
			want = func(row, k int) float64 { return float64(uint8(int(fixtureValue(row, k)))) }
		}
		checkColumn(t, f, c.Name, 5, want)
	}
	if seen != 5*3*3+1 {
		t.Errorf("%d columns, want 46", seen)
	}
}

// Every kind of chunk index. "sparse" was written only in rows 500 to 504 (fill value
// -7).
func TestFixtureIndexes(t *testing.T) {
	for _, name := range []string{"indexes", "indexes_old"} {
		f := openFixture(t, name)
		for _, c := range []string{"paged_gzip", "growing", "growing_gzip", "single", "single_gzip", "implicit"} {
			checkColumn(t, f, c, 1, fixtureValue)
		}
		checkColumn(t, f, "btree2", 2, fixtureValue)
		checkColumn(t, f, "paged", 1, func(row, k int) float64 { return float64(row * 3 % 64) })
		checkColumn(t, f, "never", 1, func(row, k int) float64 { return 9 })
		checkColumn(t, f, "sparse", 1, func(row, k int) float64 {
			if row >= 500 && row < 505 {
				return fixtureValue(row, k)
			}
			return -7
		})
		for _, c := range []string{"paged", "paged_gzip", "growing", "growing_gzip", "single", "single_gzip", "implicit", "btree2"} {
			if f.sets[c].refs == nil {
				t.Errorf("%s: the index of %s was left to the library", name, c)
			}
		}
	}
}

// A chunk index that only libhdf5 reads. Rows 4 to 7 were written (fill value -7).
func TestFixtureSideways(t *testing.T) {
	f := openFixture(t, "sideways")
	checkColumn(t, f, "sideways", 3, func(row, k int) float64 {
		if row >= 4 && row < 8 {
			return fixtureValue(row, k)
		}
		return -7
	})
	if f.sets["sideways"].refs != nil {
		t.Error("the index did not go through the library: the fall-back is untested")
	}
}

// Files in the newest format: data sets that the installed libhdf5 cannot open are
// described by our own parser of object headers.
func TestFixtureLatest(t *testing.T) {
	f := openFixture(t, "latest")
	flag := func(row, k int) float64 {
		if fixtureValue(row, k) > 0 {
			return 1
		}
		return 0
	}
	checkColumn(t, f, "flag", 1, flag)
	checkColumn(t, f, "flag_plain", 1, flag)
	checkColumn(t, f, "fixed_gzip", 2, fixtureValue)
	checkColumn(t, f, "single_blosc", 5, fixtureValue)
	checkColumn(t, f, "sparse", 1, func(row, k int) float64 {
		if row == 6 || row == 7 {
			return fixtureValue(row, k)
		}
		return -7
	})
	checkColumn(t, openFixture(t, "swm_writer"), "done", 1, func(row, _ int) float64 {
		if row == 4 || row == 10 {
			return 1
		}
		return 0
	})
}

// Our parser of object headers agrees with libhdf5 on every fixture.
func TestDescribeAgreesWithLibrary(t *testing.T) {
	names := []string{"plain", "gzip_shuffle", "gzip_7", "lzf_growing", "zstd", "published", "blosc", "types", "indexes", "indexes_old"}
	for _, name := range names {
		f := openFixture(t, name)
		for _, d := range f.list.sets {
			own, err := describe(newCursor(f.in, 1<<20), d.name, d.header)
			if errors.Is(err, errIndex) {
				// Only libhdf5 reads this index.
				continue
			}
			if err != nil {
				t.Errorf("%s: %s: %v", name, d.name, err)
				continue
			}
			if d.layout != layoutChunked {
				d.chunk = nil
			}
			d.id, own.compact = own.id, nil
			if own.dtype() == "" && d.dtype() == "" {
				continue
			}
			// libhdf5 reports the base type, and our parser the enum.
			if d.isBool {
				own.class, d.class = 0, 0
			}
			if diff := cmp.Diff(d, own, cmp.AllowUnexported(description{}, filterInfo{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s: %s", name, d.name, diff)
			}
		}
	}
}

func TestFixtureTypes(t *testing.T) {
	f := openFixture(t, "types")
	want := map[string]string{"flag": "uint8", "t_f2": "float16", "t_bf8": "float64", "t_bi2": "int16", "t_u8": "uint64", "matrix": "float64"}
	for _, c := range f.Columns() {
		if w, ok := want[c.Name]; ok && c.DType != w {
			t.Errorf("%s is %s, want %s", c.Name, c.DType, w)
		}
		if strings.HasPrefix(c.Name, "t_") {
			checkColumn(t, f, c.Name, 2, func(row, k int) float64 { return math.Abs(fixtureValue(row, k)) })
		}
	}
	checkColumn(t, f, "matrix", 6, fixtureValue)
	checkColumn(t, f, "flag", 1, func(row, k int) float64 {
		if fixtureValue(row, k) > 0 {
			return 1
		}
		return 0
	})
	if d := cmp.Diff(map[string]string{"words": "not numbers", "ep_return": "one entry per episode"}, f.Skipped()); d != "" {
		t.Error(d)
	}
	if v, _ := f.Attr("env"); v != "tworoom" {
		t.Errorf("variable-length attribute is %q", v)
	}
	if v, _ := f.Attr("fixed"); v != "fixed text" {
		t.Errorf("fixed-length attribute is %q", v)
	}
}

func TestFixtureUserBlock(t *testing.T) {
	f := openFixture(t, "userblock")
	checkColumn(t, f, "state", 7, fixtureValue)
	checkColumn(t, f, "contiguous", 7, fixtureValue)
}

// Values of half precision. The expected ones are numpy's, entered by hand.
func TestHalf(t *testing.T) {
	got, err := openFixture(t, "types").Read("half", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{0, 1, -2, 65504, 0x1p-24, math.Inf(1), math.Inf(-1), math.NaN(), 0.3330078125, 0x1p-23}
	for i, w := range want {
		if got[i] != w && !(math.IsNaN(w) && math.IsNaN(got[i])) {
			t.Errorf("half %d is %v, want %v", i, got[i], w)
		}
	}
}

// A data set that grows to 150,000 rows has super blocks and pages in its index,
// which begin after 131,000 elements.
func TestLongExtensibleArray(t *testing.T) {
	const rows = 150_000
	path := t.TempDir() + "/long.h5"
	w, err := Create(path, WriterOptions{Columns: []envs.Column{{Name: "x", DType: "uint8", Width: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	err = withLib(func() error {
		id, err := w.newSet("long", "uint8", []int{1}, 0, 0)
		if err != nil {
			return err
		}
		if err := extend(id, []int{rows}); err != nil {
			return err
		}
		for i := range rows {
			if i%1000 == 999 { // unwritten: fill value 0
				continue
			}
			if err := writeChunk(id, []int{i}, []byte{byte(i % 251)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(EpisodeData{Columns: map[string][]float64{"x": make([]float64, rows)}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.sets["long"].refs == nil {
		t.Error("the index was left to the library")
	}
	checkColumn(t, f, "long", 1, func(row, _ int) float64 {
		if row%1000 == 999 {
			return 0
		}
		return float64(row % 251)
	})
}
