package convert

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile/fuzztest"
)

// floats returns numbers as float32.
func floats[T byte | float32](v []T) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
	}
	return b
}

// member returns a member of an archive with one row for each number.
func rowsOf(name, descr string, shape string, data []byte) member {
	return member{name + ".npy", npy(fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape), string(data))}
}

// marks returns n flags, set at the given rows.
func marks(n int, at ...int) []byte {
	b := make([]byte, n)
	for _, t := range at {
		b[t] = 1
	}
	return b
}

// replayFile returns a .npz file in the layout of a replay buffer. Its frames are of
// one pixel, whose red value is the row's number from id on.
func replayFile(t testing.TB, id int, actions []float32, first, last []int) []byte {
	t.Helper()
	n := len(actions)
	var frames []byte
	for i := range n {
		frames = append(frames, byte(id+i), 0, 0)
	}
	return archive(t, rowsOf("image", "|u1", fmt.Sprintf("(%d, 1, 1, 3)", n), frames), rowsOf("action", "<f4", fmt.Sprintf("(%d, 1)", n), floats(actions)),
		rowsOf("is_first", "|b1", fmt.Sprintf("(%d,)", n), marks(n, first...)), rowsOf("is_last", "|b1", fmt.Sprintf("(%d,)", n), marks(n, last...)))
}

// folderOf writes files to a folder.
func folderOf(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, b, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// content returns the lengths of the episodes, the red value of each row's frame and
// the actions.
func content(t *testing.T, f *hdf5.File) (lengths []int, red []byte, actions []float64) {
	t.Helper()
	for _, e := range f.Episodes() {
		lengths = append(lengths, e.Len)
	}
	frame := make([]byte, 3*f.FrameSize()*f.FrameSize())
	for row := range f.Rows() {
		if err := f.Frame(row, frame); err != nil {
			t.Fatal(err)
		}
		red = append(red, frame[0])
	}
	actions, err := f.Read("action", 0, f.Rows())
	if err != nil {
		t.Fatal(err)
	}
	return lengths, red, actions
}

// same compares numbers, of which NaN equals NaN.
func same(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) })
}

// The zeros tell which convention a replay buffer has. Chunks of DreamerV3 continue in
// the file that their name names, whatever the order of names.
func TestDreamer(t *testing.T) {
	nan := math.NaN()
	one := []byte{0, 1, 2, 3, 4, 5}
	for name, is := range map[string]struct {
		files   map[string][]byte
		lengths []int
		red     []byte
		actions []float64
		want    string
	}{
		"V2, leading": {map[string][]byte{"a-1-3.npz": replayFile(t, 0, []float32{0, 1, 2}, []int{0}, []int{2}), "b-1-3.npz": replayFile(t, 3, []float32{0, 4, 5}, []int{0}, []int{2})},
			[]int{3, 3}, one, []float64{1, 2, nan, 4, 5, nan}, ""},
		"V3, one chunk": {map[string][]byte{"a-1-0-6.npz": replayFile(t, 0, []float32{1, 2, 0, 4, 5, 0}, []int{0, 3}, []int{2, 5})},
			[]int{3, 3}, one, []float64{1, 2, nan, 4, 5, nan}, ""},
		"V3, chunks out of order": {map[string][]byte{"b-first-second-4.npz": replayFile(t, 0, []float32{1, 2, 0, 4}, []int{0, 3}, []int{2}), "a-second-0-2.npz": replayFile(t, 4, []float32{5, 0}, nil, []int{1})},
			[]int{3, 3}, one, []float64{1, 2, nan, 4, 5, nan}, ""},
		"V3, the first chunk is lost": {map[string][]byte{"a-second-0-4.npz": replayFile(t, 0, []float32{5, 0, 1, 0}, []int{2}, []int{1, 3})},
			[]int{2, 2}, one[:4], []float64{5, nan, 1, nan}, ""},
		"a circle of names": {map[string][]byte{"a-x-y-2.npz": replayFile(t, 0, []float32{1, 0}, []int{0}, []int{1}), "b-y-x-2.npz": replayFile(t, 2, []float32{1, 0}, []int{0}, []int{1})},
			[]int{2, 2}, one[:4], []float64{1, nan, 1, nan}, ""},
		"zeros at both ends": {map[string][]byte{"a.npz": replayFile(t, 0, []float32{0, 1, 0}, []int{0}, []int{2})}, nil, nil, nil, "--actions leading or --actions leaving"},
		"no zeros":           {map[string][]byte{"a.npz": replayFile(t, 0, []float32{1, 1, 1}, []int{0}, []int{2})}, nil, nil, nil, "--actions leading or --actions leaving"},
		"other arrays": {map[string][]byte{"b-1-2-1.npz": replayFile(t, 0, []float32{1}, []int{0}, nil),
			"a-2-3-1.npz": archive(t, rowsOf("action", "<f4", "(1, 1)", floats([]float32{0})), rowsOf("is_last", "|b1", "(1,)", marks(1, 0)), rowsOf("is_first", "|b1", "(1,)", marks(1)), rowsOf("more", "|u1", "(1,)", marks(1)))},
			nil, nil, nil, "an array more, which the file before does not have"},
	} {
		f, notes, err := run(t, folderOf(t, is.files))
		if is.want != "" {
			if err == nil || !strings.Contains(err.Error(), is.want) || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("%s: %v, want %q", name, err, is.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if lengths, red, actions := content(t, f); !slices.Equal(lengths, is.lengths) || !slices.Equal(red, is.red) || !same(actions, is.actions) {
			t.Errorf("%s: episodes %v, frames %v, actions %v, notes %q", name, lengths, red, actions, notes)
		}
	}
}

// The user's word decides where the zeros do not.
func TestAlignment(t *testing.T) {
	in := folderOf(t, map[string][]byte{"a.npz": replayFile(t, 0, []float32{3, 1, 2}, []int{0}, []int{2})})
	for how, want := range map[Alignment][]float64{Leading: {1, 2, math.NaN()}, Leaving: {3, 1, math.NaN()}} {
		out := filepath.Join(t.TempDir(), "out.h5")
		if err := (Job{In: []string{in}, Out: out, Actions: how, Note: func(string) {}}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		f, err := hdf5.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, _, actions := content(t, f); !same(actions, want) {
			t.Errorf("%s: %v, want %v", how, actions, want)
		}
	}
}

// The types of steps of dm_env mark the rows as is_first and is_last do, and before
// DreamerV2 a file with discount is one episode.
func TestOlderReplay(t *testing.T) {
	frames := rowsOf("image", "|u1", "(4, 1, 1, 3)", []byte{0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0})
	action := rowsOf("action", "<f4", "(4, 1)", floats([]float32{0, 1, 0, 3}))
	for name, is := range map[string]struct {
		flags   member
		lengths []int
	}{
		"step_type": {rowsOf("step_type", "<i4", "(4,)", []byte{0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}), []int{2, 2}},
		"discount":  {rowsOf("discount", "<f4", "(4,)", floats([]float32{1, 1, 1, 0})), []int{4}},
	} {
		f, _, err := run(t, folderOf(t, map[string][]byte{"a.npz": archive(t, frames, action, is.flags)}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if lengths, _, actions := content(t, f); !slices.Equal(lengths, is.lengths) || actions[0] != 1 {
			t.Errorf("%s: episodes %v, actions %v", name, lengths, actions)
		}
	}
}

// OGBench's rows are cut at terminals of any type. The last action of an episode leads
// nowhere. Rows after the last terminal are an episode.
func TestOGBench(t *testing.T) {
	nan := math.NaN()
	frames := rowsOf("observations", "|u1", "(5, 1, 1, 3)", []byte{0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0})
	action := rowsOf("actions", "<f4", "(5, 1)", floats([]float32{10, 11, 12, 13, 14}))
	few := rowsOf("button_states", "<f4", "(3,)", floats([]float32{1, 2, 3}))
	for name, is := range map[string]struct {
		flags   member
		lengths []int
		actions []float64
	}{
		"bool":  {rowsOf("terminals", "|b1", "(5,)", marks(5, 1, 4)), []int{2, 3}, []float64{10, nan, 12, 13, nan}},
		"float": {rowsOf("terminals", "<f4", "(5,)", floats(marks(5, 1))), []int{2, 3}, []float64{10, nan, 12, 13, nan}},
		"none":  {rowsOf("terminals", "|b1", "(5,)", marks(5)), []int{5}, []float64{10, 11, 12, 13, nan}},
	} {
		f, notes, err := run(t, write(t, "x.npz", archive(t, frames, action, is.flags, few)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		lengths, red, actions := content(t, f)
		if !slices.Equal(lengths, is.lengths) || !same(actions, is.actions) || !slices.Equal(red, []byte{0, 1, 2, 3, 4}) {
			t.Errorf("%s: episodes %v, frames %v, actions %v", name, lengths, red, actions)
		}
		if all := strings.Join(notes, "\n"); !strings.Contains(all, "button_states has the shape [3]") || !strings.Contains(all, "action is called actions") {
			t.Errorf("%s: notes %q", name, notes)
		}
	}
	_, _, err := run(t, write(t, "x.npz", archive(t, frames, action, rowsOf("terminals", "|b1", "(5, 2)", marks(10)))))
	if err == nil || !strings.Contains(err.Error(), "ends of episodes have the shape [5 2]") {
		t.Error(err)
	}
	state := rowsOf("observations", "<f4", "(5, 2)", floats(marks(10)))
	if _, _, err := run(t, write(t, "x.npz", archive(t, state, action, rowsOf("terminals", "|b1", "(5,)", marks(5))))); err == nil || !strings.Contains(err.Error(), "it has no frames") {
		t.Error(err)
	}
}

// A set without actions, and names that do not exist or are taken, are errors.
func TestNamesOfColumns(t *testing.T) {
	frames := rowsOf("image", "|u1", "(2, 1, 1, 3)", []byte{0, 0, 0, 1, 0, 0})
	side := rowsOf("side", "|u1", "(2, 1, 1, 3)", []byte{5, 0, 0, 6, 0, 0})
	force := rowsOf("force", "<f4", "(2, 1)", floats([]float32{7, 8}))
	state := rowsOf("state", "<f4", "(2, 1)", floats([]float32{1, 2}))
	path := write(t, "x.npz", archive(t, frames, side, force, state))
	for name, is := range map[string]struct {
		j    Job
		want string
	}{
		"right":           {Job{Frames: "side", Columns: map[string]string{"action": "force"}, Drop: []string{"state"}}, ""},
		"several cameras": {Job{Columns: map[string]string{"action": "force"}}, "(hint: --frames NAME, one of image, side)"},
		"no action":       {Job{Frames: "image"}, "it has no actions (hint: --column action=NAME names their column; it has force, pixels, state)"},
		"no such column":  {Job{Frames: "image", Columns: map[string]string{"action": "torque"}}, `it has no column "torque"`},
		"taken":           {Job{Frames: "image", Columns: map[string]string{"state": "force"}}, `it has a column "state" already`},
		"nothing to drop": {Job{Frames: "image", Drop: []string{"x"}}, `it has no column "x" to drop`},
		"no such camera":  {Job{Frames: "top"}, "(hint: --frames is one of image, side)"},
	} {
		j := is.j
		j.In, j.Out, j.Note = []string{path}, filepath.Join(t.TempDir(), "out.h5"), func(string) {}
		err := j.Run(t.Context())
		if is.want != "" {
			if err == nil || !strings.Contains(err.Error(), is.want) {
				t.Errorf("%s: %v, want %q", name, err, is.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := hdf5.Open(j.Out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, red, actions := content(t, f)
		if _, err := f.Read("state", 0, 1); err == nil || !slices.Equal(red, []byte{5, 6}) || !same(actions, []float64{7, 8}) {
			t.Errorf("%v, %v, %v", red, actions, err)
		}
	}
}

// Each layout is recognised by its names, whatever else is in the folder.
func TestRecognise(t *testing.T) {
	npz := archive(t, rowsOf("action", "<f4", "(1,)", floats([]float32{1})))
	for want, files := range map[string][]string{
		"LeRobot":                    {"meta/info.json", "data/chunk-000/file-000.parquet"},
		"stable-worldmodel's folder": {"ep_len.npz", "action.npz"},
		"Lance":                      {"_versions/1.manifest"},
		"RLDS":                       {"1.0.0/x-train.tfrecord-00000-of-00001"},
		"NumPy episodes":             {"a.npz"},
		"":                           {"readme.txt", ".hidden.npz"},
	} {
		in := map[string][]byte{}
		for _, name := range files {
			in[name] = npz
		}
		err := Recognise(folderOf(t, in))
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), "has the layout "+want+" (hint: ") || !strings.Contains(err.Error(), "convert") {
			t.Errorf("%v: %v, want %q", files, err, want)
		}
	}
}

// Numbers in names count as numbers, and the order is total.
func TestNaturalOrder(t *testing.T) {
	want := []string{"", "a", "a1", "a01", "a2", "a2b", "a10", "b", "demo_2", "demo_10", "x9-1", "x10-0"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, natural)
	// Names that differ in leading zeros only are in the order of texts.
	want[2], want[3] = "a01", "a1"
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A replay buffer or a file of OGBench of any content is read or gives an error.
func FuzzReplay(f *testing.F) {
	f.Add(replayFile(f, 0, []float32{0, 1, 2}, []int{0}, []int{2}))
	f.Add(archive(f, rowsOf("observations", "|u1", "(2, 1, 1, 3)", make([]byte, 6)), rowsOf("actions", "<f4", "(2, 1)", make([]byte, 8)), rowsOf("terminals", "|b1", "(2,)", []byte{1, 0})))
	path := filepath.Join(f.TempDir(), "x-0-1-2.npz")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		// The limit allows what deflate makes of a byte, as in FuzzNPZ, and several
		// passes over the file.
		fuzztest.Read(t, 12*len(b), func() {
			for _, open := range []func(context.Context, *input, *Job) (recording, error){openOGBench, openDreamer} {
				j := &Job{In: []string{path}}
				r, err := open(t.Context(), &input{paths: j.In}, j)
				if err != nil {
					continue
				}
				for i := range min(r.episodes(), 8) {
					from, err := r.episode(i)
					if err != nil {
						break
					}
					_, _ = j.take(from)
				}
				r.close()
			}
		})
	})
}

// Integer actions keep their type, with a note that training needs another one. They
// cannot be missing in the last row.
func TestIntegerActions(t *testing.T) {
	frames := rowsOf("pixels", "|u1", "(2, 1, 1, 3)", make([]byte, 6))
	path := write(t, "x.npz", archive(t, frames, rowsOf("action", "|u1", "(2,)", []byte{3, 1})))
	f, notes, err := run(t, path)
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "its actions are uint8 and stay so; train takes discrete actions one-hot encoded") {
		t.Fatalf("notes %q, %v", notes, err)
	}
	if c := f.Columns(); c[0].Name != "action" || c[0].DType != "uint8" {
		t.Errorf("%+v", c)
	}
	err = Job{In: []string{path}, Out: filepath.Join(t.TempDir(), "x.h5"), Actions: Leading, Note: func(string) {}}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), `np.eye(n, dtype="float32")[x] for n discrete actions`) {
		t.Error(err)
	}
}
