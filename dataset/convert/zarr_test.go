package convert

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile/fuzztest"
)

// unpacked returns a folder with the content of a fixture.
func unpacked(t testing.TB, name string) string {
	t.Helper()
	z, err := zip.OpenReader("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	// CopyFS refuses an archive with two members of one name, of which the last counts.
	last := map[string]*zip.File{}
	for _, m := range z.File {
		last[m.Name] = m
	}
	z.File = z.File[:0]
	for _, m := range last {
		z.File = append(z.File, m)
	}
	dir := filepath.Join(t.TempDir(), "a.zarr")
	if err := os.CopyFS(dir, z); err != nil {
		t.Fatal(err)
	}
	if inner := filepath.Join(dir, "buffer.zarr"); name == "version2.zarr.zip" {
		return inner
	}
	return dir
}

// The expected values are those of testdata/make_zarr.py: column c of row r is 10 r + c
// in each array, however it is stored.
func TestZarr(t *testing.T) {
	for in, is := range map[string]struct {
		arrays int
		notes  []string
	}{
		"testdata/version2.zarr.zip":     {34, []string{"2 rows after the last", "text is left out", "fill/0.0 is not stored", "half_fill/0.0 is not stored"}},
		unpacked(t, "version2.zarr.zip"): {34, []string{"2 rows after the last", "text is left out", "fill/0.0 is not stored", "half_fill/0.0 is not stored"}},
		"testdata/version3.zarr.zip":     {17, []string{"2 rows after the last", "fill/c/0/0 is not stored", "half_fill/c/0/0 is not stored"}},
		unpacked(t, "version3.zarr.zip"): {17, []string{"2 rows after the last", "fill/c/0/0 is not stored", "half_fill/c/0/0 is not stored"}},
	} {
		f, notes, err := run(t, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range is.notes {
			if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, want) }) || len(notes) != len(is.notes) {
				t.Errorf("%s: notes %q, want %q", in, notes, want)
			}
		}
		if e := f.Episodes(); len(e) != 2 || e[0].Len != 3 || e[1].Len != 4 || f.FrameSize() != 8 {
			t.Fatalf("%s: episodes %v, frames of %d", in, e, f.FrameSize())
		}
		arrays, frame := 0, make([]byte, 8*8*3)
		for _, c := range f.Columns() {
			if hdf5.IsIndex(c.Name) {
				continue
			}
			arrays++
			got, err := f.Read(c.Name, 0, 7)
			if err != nil || c.Width != 3 {
				t.Fatalf("%s: %+v, %v", in, c, err)
			}
			for i, v := range got {
				want := float64(i/3*10 + i%3)
				if strings.HasSuffix(c.Name, "fill") && i < 9 {
					want = -2.5
				}
				if v != want {
					t.Errorf("%s: number %d of %s is %g, want %g", in, i, c.Name, v, want)
				}
			}
		}
		if arrays != is.arrays {
			t.Errorf("%s: %d arrays, want %d", in, arrays, is.arrays)
		}
		for row := range 7 {
			if err := f.Frame(row, frame); err != nil {
				t.Fatal(err)
			}
			for i, v := range frame {
				if want := byte(row + i/24*8 + i/3%8 + i%3*64); v != want {
					t.Fatalf("%s: row %d, byte %d: %d, want %d", in, row, i, v, want)
				}
			}
		}
	}
}

// Each case changes one file of a set. An error names the file or the cause, and no
// case needs much memory.
func TestDamagedZarr(t *testing.T) {
	edit := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte {
			var c bytes.Buffer
			if err := json.Compact(&c, b); err != nil || !strings.Contains(c.String(), old) {
				t.Errorf("%q is not in %s: %v", old, &c, err)
			}
			return bytes.Replace(c.Bytes(), []byte(old), []byte(new), 1)
		}
	}
	half := func(b []byte) []byte { return b[:len(b)/2] }
	for _, c := range []struct {
		set, file string
		change    func([]byte) []byte
		want      string
	}{
		{"2", "data/img/0.0.0.0", half, "data/img/0.0.0.0"},
		{"2", "data/gzip/0.0", half, "data/gzip/0.0: gzip"},
		{"2", "data/bz2/0.0", half, "data/bz2/0.0: bz2"},
		{"2", "data/lz4/0.0", half, "data/lz4/0.0: lz4"},
		{"2", "data/none/0.0", half, "has 16 bytes instead of 32"},
		{"2", "data/none/0.0", func(b []byte) []byte { return make([]byte, 1<<20) }, "more than 65576 bytes"},
		{"2", "data/lz4/0.0", func(b []byte) []byte { return append([]byte{0, 0, 0, 64}, b...) }, "data/lz4/0.0: lz4"},
		{"2", "data/img/.zarray", edit("[2,5,8,3]", "[2,-5,8,3]"), "its chunks have the shape"},
		{"2", "data/img/.zarray", edit("[2,5,8,3]", "[2,4611686018427387904,8,3]"), "its chunks have the shape"},
		{"2", "data/img/.zarray", edit("[9,8,8,3]", "[9,4611686018427387904,8,3]"), "have more than 536870912 bytes"},
		{"2", "data/img/.zarray", edit("[9,8,8,3]", "[-9,8,8,3]"), "its shape is [-9"},
		{"2", "data/img/.zarray", edit("[9,8,8,3]", "[5,8,8,3]"), "img has 5 rows, and the last episode ends at row 7"},
		{"2", "data/img/.zarray", edit(`"."`, `"../"`), `separated by "../"`},
		{"2", "data/img/.zarray", edit("null", `[{"id":"delta"}]`), `the codec "delta"`},
		{"2", "data/img/.zarray", edit("blosc", "imagecodecs_jpegxl"), `the codec "imagecodecs_jpegxl"`},
		{"2", "data/img/.zarray", edit(`"zarr_format":2`, `"zarr_format":1`), "version 1 of Zarr"},
		{"2", "data/img/.zarray", half, "its metadata"},
		{"2", "data/fill/.zarray", edit("-2.5", "null"), "data/fill/0.0: it is missing, and the array has no fill value"},
		{"2", "meta/episode_ends/.zarray", edit("[2]", "[9007199254740993]"), "meta/episode_ends: it has the shape"},
		{"2", "meta/episode_ends/0", half, "meta/episode_ends"},
		{"3", "data/crc/c/0/0", func(b []byte) []byte { b[3] ^= 1; return b }, "crc32c"},
		{"3", "data/shards/c/0/0", func(b []byte) []byte { b[len(b)-9] ^= 1; return b }, "the index of the shard: crc32c"},
		{"3", "data/shards_inner/c/0/0", func(b []byte) []byte { return b[:9] }, "the index of the shard"},
		{"3", "data/shards_inner/zarr.json", edit(`"chunk_shape":[2,2]`, `"chunk_shape":[3,2]`), "its shards have the shape"},
		{"3", "data/shards/zarr.json", edit("bytes", "sharding_indexed"), `the codec "sharding_indexed"`},
		{"3", "data/transposed/zarr.json", edit(`"order":[1,0]`, `"order":[0,0]`), "its axes are reordered by [0 0]"},
		{"3", "data/img/zarr.json", edit("regular", "rectilinear"), `"rectilinear"`},
		{"3", "data/img/zarr.json", edit(`"default"`, `"suffix"`), `"suffix"`},
		{"3", "data/img/zarr.json", edit("zstd", "jpeg_ls"), `the codec "jpeg_ls"`},
	} {
		dir := unpacked(t, "version"+c.set+".zarr.zip")
		path := filepath.Join(dir, c.file)
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, c.change(b), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		fuzztest.Read(t, 1<<16, func() { _, _, err = run(t, dir) })
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "(hint: ") != 1 {
			t.Errorf("%s of version %s: %v, want %q and a hint", c.file, c.set, err, c.want)
		}
	}
}

// The ends of episodes are rows of the set, in ascending order.
func TestEndsOfEpisodes(t *testing.T) {
	for want, ends := range map[string][]int64{"ends at row 3 and the one before it at row 3": {3, 3}, "ends at row 0 ": {0, 7}, "ends at row -1 ": {-1, 7}, "the last episode ends at row 10": {3, 10}} {
		dir := unpacked(t, "version2.zarr.zip")
		b, _ := binary.Append(nil, binary.LittleEndian, ends)
		meta := `{"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<i8", "compressor": null, "filters": null, "order": "C", "fill_value": 0}`
		if err := errors.Join(os.WriteFile(dir+"/meta/episode_ends/0", b, 0o666), os.WriteFile(dir+"/meta/episode_ends/.zarray", []byte(meta), 0o666)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := run(t, dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%v: %v, want %q", ends, err, want)
		}
	}
}

// A few bytes of metadata do not claim gigabytes of rows that are not stored.
func TestSparseZarr(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a.zarr")
	add := func(name, dtype, shape, chunks string) {
		meta := fmt.Sprintf(`{"zarr_format": 2, "shape": [%s], "chunks": [%s], "dtype": %q, "fill_value": 0}`, shape, chunks, dtype)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, name), 0o777), os.WriteFile(filepath.Join(dir, name, ".zarray"), []byte(meta), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	add("meta/episode_ends", "<i8", "1", "1")
	add("data/img", "|u1", "1000000,64,64,3", "1,64,64,3")
	add("data/action", "<f4", "1000000,2", "1,2")
	if err := os.WriteFile(dir+"/meta/episode_ends/0", binary.LittleEndian.AppendUint64(nil, 100_000), 0o666); err != nil {
		t.Fatal(err)
	}
	var err error
	fuzztest.Read(t, 0, func() { _, _, err = run(t, dir) })
	if err == nil || !strings.Contains(err.Error(), "claimed by a set of") || !strings.Contains(err.Error(), "(hint: ") {
		t.Error(err)
	}
}

// Names with ".." in an archive are not read, and an archive is a set wherever its root
// is.
func TestNamesInZarrArchives(t *testing.T) {
	for want, members := range map[string][]member{
		"no array meta/episode_ends": {{"a/.zgroup", []byte(`{"zarr_format": 2}`)}, {"../meta/episode_ends/.zarray", []byte("{}")}},
		"version 0 of Zarr's format": {{"a/b/meta/episode_ends/.zarray", []byte("{}")}},
		"not a valid zip file":       nil,
	} {
		b := archive(t, members...)
		if members == nil {
			b = b[1:]
		}
		if _, _, err := run(t, write(t, "x.zarr.zip", b)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	dir := unpacked(t, "version3.zarr.zip")
	if _, _, err := run(t, filepath.Dir(dir)); err == nil || !strings.Contains(err.Error(), "(hint: convert one of them, such as "+dir) {
		t.Error(err)
	}
}

// With several cameras the user names one, and --drop leaves arrays out that cannot be
// read.
func TestCamerasOfZarr(t *testing.T) {
	dir := unpacked(t, "version3.zarr.zip")
	if err := os.CopyFS(filepath.Join(dir, "data/wrist"), os.DirFS(filepath.Join(dir, "data/img"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, dir); err == nil || !strings.Contains(err.Error(), "(hint: --frames NAME, one of img, wrist)") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data/crc/c/0/0"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var notes []string
	j := Job{In: []string{dir}, Out: filepath.Join(t.TempDir(), "x.h5"), Frames: "wrist", Drop: []string{"crc"}, Note: func(s string) { notes = append(notes, s) }}
	if err := j.Run(context.Background()); err != nil || !strings.Contains(strings.Join(notes, "\n"), "the frames img are left out") {
		t.Errorf("%q, %v", notes, err)
	}
}

// Fill values in the notations of both versions, and their bits.
func TestFillValues(t *testing.T) {
	for _, c := range []struct{ dtype, fill, want string }{
		{"<f4", "1", "\x00\x00\x80?"}, {">f4", "1.0", "?\x80\x00\x00"}, {"<f4", `"NaN"`, "\x00\x00\xc0\x7f"}, {"<f4", `"-Infinity"`, "\x00\x00\x80\xff"}, {"<f4", `"0x7fc00000"`, "\x00\x00\xc0\x7f"},
		{"<f2", "-2.5", "\x00\xc1"}, {"<f2", `"NaN"`, "\x00\x7e"}, {"<f2", `"Infinity"`, "\x00\x7c"}, {"<f8", "0.5", "\x00\x00\x00\x00\x00\x00\xe0?"},
		{"<u8", "18446744073709551615", "\xff\xff\xff\xff\xff\xff\xff\xff"}, {"<i2", "-2", "\xfe\xff"}, {"|b1", "true", "\x01"}, {"|u1", "3.0", "\x03"},
		{"<f4", "null", ""}, {"<f4", `"AAAA"`, ""}, {"<f4", "", ""},
	} {
		n, err := parseNumpyType(c.dtype)
		if got := string(n.element([]byte(c.fill))); err != nil || got != c.want {
			t.Errorf("%s as %s: %q, %v, want %q", c.fill, c.dtype, got, err, c.want)
		}
	}
}

// A set with any metadata and any chunk is read or gives an error.
func FuzzZarr(f *testing.F) {
	v2 := `{"zarr_format": 2, "shape": [3, 4], "chunks": [2, 3], "dtype": ">i2", "compressor": {"id": "%s"}, "order": "F", "fill_value": NaN}`
	for _, codec := range append(zarrCodecs, "delta") {
		f.Add(fmt.Sprintf(v2, codec), []byte("\x0c\x00\x00\x00\xc0abcdefghijkl"))
	}
	f.Add(`{"zarr_format": 2, "shape": [3], "chunks": [2], "dtype": "<f2", "compressor": null, "fill_value": 2.5}`, []byte("abcd"))
	v3 := `{"zarr_format": 3, "node_type": "array", "shape": [4, 2], "data_type": "uint8", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 2]}},
		"chunk_key_encoding": {"name": "v2"}, "fill_value": 1, "codecs": [%s]}`
	f.Add(fmt.Sprintf(v3, `{"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes", {"name": "crc32c"}`), binary.LittleEndian.AppendUint32([]byte("abcdefgh"), crc32.Checksum([]byte("abcdefgh"), crc32.MakeTable(crc32.Castagnoli))))
	f.Add(fmt.Sprintf(v3, `{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2], "codecs": ["bytes"], "index_codecs": [{"name": "bytes"}]}}`),
		[]byte("abcd\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, meta string, chunk []byte) {
		chunks := &fstest.MapFile{Data: chunk}
		s := &zarrStore{FS: fstest.MapFS{"a/.zarray": {Data: []byte(meta)}, "a/0": chunks, "a/0.0": chunks, "a/c/0": chunks, "a/c/0/0": chunks}}
		fuzztest.Read(t, len(meta)+len(chunk), func() {
			a, err := s.array("a")
			// Up to their limits, chunks may have any size.
			if err != nil || a.fault != nil || len(a.shape) == 0 || a.shape[0] < 1 || a.chunkBytes() > 1<<16 || a.rowBytes() > 1<<12 {
				return
			}
			rows := min(a.shape[0], 3)
			got, err := a.rows(context.Background(), s, 0, rows)
			if err == nil && got.rows() != rows {
				t.Errorf("%d rows instead of %d", got.rows(), rows)
			}
		})
	})
}
