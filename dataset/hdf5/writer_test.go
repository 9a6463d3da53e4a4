package hdf5

import (
	"context"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/safefile"
	"scalewm/envs"
)

// An unfinished file does not have its final name, a second writer gets an error, and
// Abort leaves no file.
func TestWriterAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "d.h5")
	w, err := Create(path, WriterOptions{Columns: testColumns, FrameSize: envs.FrameSize})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(testEpisode(0, 3)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the final name exists before Close")
	}
	_, err = Create(path, WriterOptions{Columns: testColumns})
	oneLine(t, "second writer", err, "another process")
	w.Abort()
	w.Abort()
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 0 {
		t.Errorf("Abort left %v", left)
	}
	// The temporary file of a killed writer is used again.
	if err := os.WriteFile(safefile.Aside(path), []byte("torn"), 0o666); err != nil {
		t.Fatal(err)
	}
	writeTest(t, path, Deflate, 2)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("Close left %v", left)
	}
}

func TestWriterRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Create(filepath.Join(file, "d.h5"), WriterOptions{})
	oneLine(t, "no folder", err, "a folder and a file compete")
	_, err = Create(filepath.Join(dir, "d.h5"), WriterOptions{Columns: []envs.Column{{Name: "x", DType: "complex64", Width: 1}}})
	oneLine(t, "type", err, "complex64")
	w, err := Create(filepath.Join(dir, "d.h5"), WriterOptions{Columns: testColumns, FrameSize: envs.FrameSize})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	short := testEpisode(0, 3)
	short.Columns["state"] = short.Columns["state"][:6]
	oneLine(t, "lengths", w.Append(short), "state has 2 rows", "3")
	missing := testEpisode(0, 3)
	delete(missing.Columns, "count")
	oneLine(t, "missing", w.Append(missing), "column count is missing")
	frames := testEpisode(0, 3)
	frames.Frames = frames.Frames[:2]
	oneLine(t, "frames", w.Append(frames), "pixels has 2 rows")
	value := testEpisode(0, 3)
	value.Columns["terminated"][1] = 256
	oneLine(t, "value", w.Append(value), "256 is not a value of type uint8")
	// After a failed write nothing more is written.
	oneLine(t, "close", w.Close(), "256")
	empty, err := Create(filepath.Join(dir, "e.h5"), WriterOptions{Columns: testColumns})
	if err != nil {
		t.Fatal(err)
	}
	oneLine(t, "empty", empty.Close(), "no episodes")
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// The bounds are those of two's complement and IEEE 754.
func TestNarrow(t *testing.T) {
	for _, c := range []struct {
		dtype string
		v     float64
		want  string // "" for an error
	}{
		{"uint8", 255, "\xff"}, {"uint8", -1, ""}, {"uint8", 0.5, ""}, {"int8", -128, "\x80"}, {"int8", 128, ""},
		{"int16", -2, "\xfe\xff"}, {"uint32", 1 << 31, "\x00\x00\x00\x80"}, {"int64", -1, strings.Repeat("\xff", 8)},
		{"uint64", math.Ldexp(1, 63), "\x00\x00\x00\x00\x00\x00\x00\x80"}, {"uint64", math.Ldexp(1, 64), ""},
		{"int32", math.NaN(), ""}, {"int32", math.Inf(1), ""}, {"float32", 1, "\x00\x00\x80\x3f"}, {"float64", -2, "\x00\x00\x00\x00\x00\x00\x00\xc0"},
	} {
		got, err := narrow(nil, c.dtype, c.v)
		if (err != nil) != (c.want == "") || err == nil && string(got) != c.want {
			t.Errorf("%v as %s: % x, %v", c.v, c.dtype, got, err)
		}
	}
}

func TestNeedSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.h5")
	if err := NeedSpace(path, 1); err != nil {
		t.Error(err)
	}
	oneLine(t, "an exabyte", NeedSpace(path, 1<<60), path, "1152921504.6 GB", "hint")
}

// A disk that fills up in the middle, as a child process whose files may not grow
// beyond 1 MB. It must print one line and leave no file.
func TestDiskFull(t *testing.T) {
	if path := os.Getenv("HDF5_TEST_FULL"); path != "" {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		w, err := Create(path, WriterOptions{Columns: testColumns, FrameSize: envs.FrameSize, Filter: None})
		for i := 0; err == nil && i < 5; i++ {
			err = w.Append(testEpisode(3*i, 3))
		}
		if err2 := w.Close(); err2 == nil {
			t.Fatal("Close succeeded after a failed write")
		}
		oneLine(t, "full disk", err, path, "File too large")
		return
	}
	path := filepath.Join(t.TempDir(), "d.h5")
	child := exec.Command(os.Args[0], "-test.run=TestDiskFull")
	child.Env = append(os.Environ(), "HDF5_TEST_FULL="+path)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// A column of shape (rows, 1) keeps it, through a conversion too: readers that
// subtract arrays of the shapes (rows) and (rows, 1) would get a matrix.
func TestMatrixColumnsKeepTheirShape(t *testing.T) {
	dir := t.TempDir()
	path, again := filepath.Join(dir, "a.h5"), filepath.Join(dir, "b.h5")
	columns := []envs.Column{{Name: "time", DType: "float64", Width: 1, Matrix: true}, {Name: "yaw", DType: "float32", Width: 1}}
	w, err := Create(path, WriterOptions{Columns: columns})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(EpisodeData{Columns: map[string][]float64{"time": {1, 2, 3}, "yaw": {4, 5, 6}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f := opened(t, path)
	if err := Convert(context.Background(), f, again, Deflate, nil); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*File{f, opened(t, again)} {
		for _, want := range columns {
			if got, err := dataset.FindColumn(f, want.Name); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: no %+v among %+v", f.Path(), want, f.Columns())
			}
		}
		if got, err := f.Read("time", 0, 3); err != nil || !slices.Equal(got, []float64{1, 2, 3}) {
			t.Errorf("%s: time %v, %v", f.Path(), got, err)
		}
	}
}

func opened(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
