package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"scalewm/dataset"
	"scalewm/dataset/convert"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

const edge = 6

// lengths are those of the episodes of the recording. The second has no action before
// its last one.
var lengths = []int{4, 1, 7}

// recording writes a data set with columns of every type, and returns its path. The
// last action of each episode is NaN, and numbers differ in all rows.
func recording(t testing.TB, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "recording.h5")
	columns := []envs.Column{{Name: "action", DType: "float32", Width: 2}, {Name: "proprio", DType: "float64", Width: 3}, {Name: "matrix", DType: "float32", Width: 1, Matrix: true}}
	for dtype := range sizes {
		columns = append(columns, envs.Column{Name: dtype, DType: dtype, Width: 1})
	}
	for _, name := range more {
		columns = append(columns, envs.Column{Name: name, DType: "float32", Width: 1})
	}
	w, err := hdf5.Create(path, hdf5.WriterOptions{FrameSize: edge, Columns: columns, Attrs: map[string]string{"env": "nowhere"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	row := 0
	for _, n := range lengths {
		e := hdf5.EpisodeData{Columns: map[string][]float64{}, Raw: map[string][]byte{}}
		for step := range n {
			row++
			for _, c := range columns {
				for k := range c.Width {
					v := float64(10*row + k)
					if c.Name == "action" && step == n-1 {
						v = math.NaN()
					}
					// Beyond what float64 can hold.
					if c.DType == "int64" || c.DType == "uint64" {
						e.Raw[c.Name] = binary.LittleEndian.AppendUint64(e.Raw[c.Name], uint64(1<<60+row))
					} else {
						e.Columns[c.Name] = append(e.Columns[c.Name], v)
					}
				}
			}
			frame := make([]byte, 3*edge*edge)
			for i := range frame {
				frame[i] = byte(row*31 + i*7)
			}
			e.Frames = append(e.Frames, frame)
		}
		if err := w.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// exported exports a data set to a new folder, and returns its path and the notes.
func exported(t testing.TB, in, to string) (out, notes string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), to)
	_, err := Job{In: in, Out: out, To: to, FPS: 10, Note: func(s string) { notes += s + "\n" }}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out, notes
}

// open opens a data set until the end of the test.
func open(t testing.TB, path string) *hdf5.File {
	t.Helper()
	f, err := hdf5.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// back converts an export to a data set of ours.
func back(t testing.TB, dir string) *hdf5.File {
	t.Helper()
	out := filepath.Join(t.TempDir(), "back.h5")
	if err := (convert.Job{In: []string{dir}, Out: out, Note: func(string) {}}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return open(t, out)
}

// bytesOf returns all rows of a column.
func bytesOf(t testing.TB, f *hdf5.File, name string) []byte {
	t.Helper()
	c, err := dataset.FindColumn(f, name)
	if err != nil {
		t.Fatal(err)
	}
	e, err := f.Copy([]envs.Column{c}, dataset.Episode{Len: f.Rows()})
	if err != nil {
		t.Fatal(err)
	}
	return e.Raw[name]
}

// TestRoundTrip exports and converts back: all columns of every type, and the frames,
// have the same bytes. npz keeps the missing actions. The others repeat the action
// before, and the episode of one row gets 0.
func TestRoundTrip(t *testing.T) {
	in := recording(t)
	src := open(t, in)
	for _, to := range []string{"lerobot", "zarr", "npz"} {
		dir, notes := exported(t, in, to)
		f := back(t, dir)
		if !slices.Equal(f.Episodes(), src.Episodes()) {
			t.Errorf("%s: episodes %v, want %v", to, f.Episodes(), src.Episodes())
		}
		for _, c := range src.Columns() {
			want := bytesOf(t, src, c.Name)
			if c.Name == "action" && to != "npz" {
				// Rows 3 and 11 repeat 2 and 10, row 4 has no other one.
				copy(want[3*8:], want[2*8:3*8])
				clear(want[4*8 : 5*8])
				copy(want[11*8:], want[10*8:11*8])
			}
			if got := bytesOf(t, f, c.Name); !hdf5.IsIndex(c.Name) && !bytes.Equal(got, want) {
				t.Errorf("%s: the column %s is % x, want % x", to, c.Name, got, want)
			}
		}
		got, want := make([]byte, 3*edge*edge), make([]byte, 3*edge*edge)
		for row := range src.Rows() {
			if err := errors.Join(f.Frame(row, got), src.Frame(row, want)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: the frame of row %d differs, %v", to, row, err)
			}
		}
		if repeats := strings.Contains(notes, "3 of 3 episodes have no last action (NaN); it repeats the action before it"); repeats != (to != "npz") {
			t.Errorf("%s: notes %s", to, notes)
		}
		if !strings.Contains(notes, "attributes are left out: env") {
			t.Errorf("%s: notes %s", to, notes)
		}
		if to != "npz" {
			continue
		}
		a, err := src.Fingerprint()
		b, err2 := f.Fingerprint()
		if err := errors.Join(err, err2); err != nil || a != b {
			t.Errorf("npz: fingerprint %s, want %s, %v", b, a, err)
		}
		if c, err := dataset.FindColumn(f, "matrix"); err != nil || !c.Matrix {
			t.Errorf("npz: the column matrix has lost its second axis, %v", err)
		}
	}
}

// When a table of LeRobot is large, the next episode begins another one.
func TestTablesOfLeRobot(t *testing.T) {
	src := open(t, recording(t))
	j := Job{Note: func(string) {}, FPS: 10}
	s := j.describe(src, formats[0])
	dir := t.TempDir()
	w, err := createLeRobot(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	w.(*leRobot).limit = 0
	for i, at := range src.Episodes() {
		e, err := s.read(t.Context(), src, at)
		if err != nil {
			t.Fatal(err)
		}
		e.index, e.first = i, at.Offset
		if err := w.append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		s.rows += e.rows
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(filepath.Join(dir, "data/chunk-000")); err != nil || len(files) != len(lengths) {
		t.Errorf("tables %v, %v; want one for each episode", files, err)
	}
	type indices struct {
		Index   int64 `parquet:"index"`
		Episode int64 `parquet:"episode_index"`
		Frame   int64 `parquet:"frame_index"`
	}
	rows, err := parquet.ReadFile[indices](filepath.Join(dir, "data/chunk-000/file-002.parquet"))
	if want := (indices{6, 2, 1}); err != nil || len(rows) != 7 || rows[1] != want {
		t.Errorf("rows %v, %v; want 7, the second %v", rows, err, want)
	}
	f := back(t, dir)
	if got, want := bytesOf(t, f, "int64"), bytesOf(t, src, "int64"); !bytes.Equal(got, want) {
		t.Errorf("rows % x, want % x", got, want)
	}
}

// Names of columns that a format has for itself, or that lead out of a folder, are
// left out. A name that is taken already is not used again.
func TestNames(t *testing.T) {
	in := recording(t, "..", "timestamp", "observation.image", "state")
	before, _ := os.ReadDir(filepath.Dir(in))
	for _, to := range Formats() {
		dir, notes := exported(t, in, to)
		if !strings.Contains(notes, "the column .. is left out: its name is not that of a file") {
			t.Errorf("%s: notes %s", to, notes)
		}
		if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 1 {
			t.Errorf("%s: %v next to the folder", to, left)
		}
		if to == "lerobot" {
			for _, want := range []string{"the column timestamp is left out: the format has its own", "proprio is called observation.state in the export"} {
				if !strings.Contains(notes, want) {
					t.Errorf("no note %q in %s", want, notes)
				}
			}
			info, err := os.ReadFile(filepath.Join(dir, "meta/info.json"))
			for _, want := range []string{`"pixels": {`, `"observation.image": {`, `"observation.state": {`, `"state": {`} {
				if !strings.Contains(string(info), want) {
					t.Errorf("no feature %s in %s, %v", want, info, err)
				}
			}
		}
	}
	if after, _ := os.ReadDir(filepath.Dir(in)); len(after) != len(before) {
		t.Errorf("%v next to the data set", after)
	}
}

// A missing value is exported as it is, except in the last action, and counted.
func TestMissingValues(t *testing.T) {
	s := &set{columns: []column{{Column: envs.Column{Name: "reward", DType: "float32", Width: 1}}, {Column: envs.Column{Name: "action", DType: "float64", Width: 1}}}, unknown: map[int]int{}}
	nan := math.NaN()
	floats := func(v ...float64) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		return b
	}
	reward := binary.LittleEndian.AppendUint32(make([]byte, 8), math.Float32bits(float32(nan)))
	e := &episode{rows: 3, values: [][]byte{reward, floats(nan, 5, nan)}}
	s.complete(e)
	if got := numbers("float64", e.values[1]); !math.IsNaN(got[0]) || got[1] != 5 || got[2] != 5 {
		t.Errorf("actions %v, want NaN, 5, 5", got)
	}
	if got := numbers("float32", e.values[0]); !math.IsNaN(got[2]) {
		t.Errorf("rewards %v, want NaN at the end", got)
	}
	if s.repeated != 1 || s.unknown[0] != 1 || s.unknown[1] != 1 {
		t.Errorf("repeated %d, unknown %v", s.repeated, s.unknown)
	}
}

// An interrupt, and an existing folder, leave nothing new.
func TestNothingIsLeft(t *testing.T) {
	in := recording(t)
	for _, to := range Formats() {
		out := filepath.Join(t.TempDir(), "out")
		ctx, stop := context.WithCancel(t.Context())
		j := Job{In: in, Out: out, To: to, FPS: 10, Note: func(string) {}, Progress: func(done, total int64, _ string) {
			if done == 2 {
				stop()
			}
		}}
		if _, err := j.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want the interrupt", to, err)
		}
		if left, err := os.ReadDir(filepath.Dir(out)); err != nil || len(left) != 0 {
			t.Errorf("%s: %v left, %v", to, left, err)
		}
		if err := os.Mkdir(out, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already exists (hint: ") {
			t.Errorf("%s: an existing folder: %v", to, err)
		}
		if left, err := os.ReadDir(out); err != nil || len(left) != 0 {
			t.Errorf("%s: %v in the existing folder, %v", to, left, err)
		}
	}
}

// listed is a source with other episodes.
type listed struct {
	dataset.Source
	rows     int
	episodes []dataset.Episode
}

func (l listed) Rows() int                   { return l.rows }
func (l listed) Episodes() []dataset.Episode { return l.episodes }

// A small file can declare many episodes over the same rows, and rows that are not
// stored.
func TestHostileEpisodes(t *testing.T) {
	s := &set{edge: 224, columns: []column{{Column: envs.Column{DType: "float32", Width: 2}}}}
	shared := listed{rows: 100, episodes: []dataset.Episode{{Len: 100}, {Len: 100}}}
	if err := s.check(shared); err == nil || !strings.Contains(err.Error(), "episode 1 has 100 rows of 150536 bytes, or shares rows with others (hint: ") {
		t.Errorf("episodes that share rows: %v", err)
	}
	// 8 GB are 57062 rows of 150536 bytes, rounded down.
	long := listed{rows: 1 << 40, episodes: []dataset.Episode{{Len: 57063}}}
	if err := (&set{edge: 224, columns: s.columns}).check(long); err == nil || !strings.Contains(err.Error(), "at most 8 GB") {
		t.Errorf("an episode that does not fit memory: %v", err)
	}
	long.episodes[0].Len--
	if err := (&set{edge: 224, columns: s.columns}).check(long); err != nil {
		t.Error(err)
	}
}
