package convert

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile/fuzztest"
)

func run(t *testing.T, in ...string) (*hdf5.File, []string, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.h5")
	var notes []string
	j := Job{In: in, Out: out, Note: func(s string) { notes = append(notes, s) }}
	if err := j.Run(context.Background()); err != nil {
		if _, statErr := os.Stat(out); !errors.Is(statErr, fs.ErrNotExist) {
			t.Errorf("something is there after %v", err)
		}
		return nil, notes, err
	}
	f, err := hdf5.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, notes, nil
}

// The expected values are those of testdata/make.py.
func TestEpisodesOfNumPy(t *testing.T) {
	f, notes, err := run(t, "testdata/a.npz", "testdata/b.npz")
	if err != nil {
		t.Fatal(err)
	}
	if e := f.Episodes(); len(e) != 2 || e[0].Len != 5 || e[1].Offset != 5 || e[1].Len != 3 || f.FrameSize() != 8 {
		t.Fatalf("episodes %v, frames of %d", e, f.FrameSize())
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "seed") {
		t.Errorf("notes %q", notes)
	}
	frame := make([]byte, 8*8*3)
	for row := range 8 {
		k, step := row/5, row%5
		if err := f.Frame(row, frame); err != nil {
			t.Fatal(err)
		}
		for i, v := range frame {
			if want := byte(step*16 + i/24*8 + i/3%8 + i%3 + k); v != want {
				t.Fatalf("row %d, byte %d: %d, want %d", row, i, v, want)
			}
		}
		action, _ := f.Read("action", row, row+1)
		state, _ := f.Read("state", row, row+1)
		flag, err := f.Read("flag", row, row+1)
		if err != nil || state[0] != float64(step) || state[1] != -float64(step) || flag[0] != float64(1-step%2) {
			t.Errorf("row %d: state %v, flag %v, %v", row, state, flag, err)
		}
		if last := row == 4 || row == 7; last != math.IsNaN(action[0]) || !last && action[0] != float64(step)+.5*float64(k) {
			t.Errorf("row %d: action %v", row, action)
		}
	}
	whole, _ := f.Fingerprint()
	// The folder has make.py too, which is ignored.
	again, _, err := run(t, "testdata")
	if err != nil {
		t.Fatal(err)
	}
	if print, _ := again.Fingerprint(); print != whole {
		t.Error("the folder gives other data than its files")
	}
}

// The expected values are those of testdata/make_folders.py. Films need ffmpeg.
func TestFolders(t *testing.T) {
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Log("without ffmpeg on the PATH, films are only refused")
	}
	for name, is := range map[string]struct {
		state string
		film  bool
		notes int
	}{"films": {"state", true, 0}, "pictures": {"state", false, 0}, "lerobot2": {"proprio", false, 2}, "lerobot3": {"proprio", true, 2}} {
		t.Run(name, func(t *testing.T) {
			f, notes, err := run(t, "testdata/"+name)
			if _, noFFmpeg := exec.LookPath("ffmpeg"); noFFmpeg != nil && is.film {
				if err == nil || !strings.Contains(err.Error(), "(hint: apt-get install ffmpeg)") {
					t.Fatal(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(notes) != is.notes {
				t.Errorf("notes %q", notes)
			}
			if e := f.Episodes(); len(e) != 2 || e[0].Len != 3 || e[1].Len != 4 || f.FrameSize() != 32 {
				t.Fatalf("episodes %v, frames of %d", e, f.FrameSize())
			}
			frame := make([]byte, 32*32*3)
			for row := range 7 {
				k, step := row/3, row%3
				if row > 2 {
					k, step = 1, row-3
				}
				action, err := f.Read("action", row, row+1)
				if err != nil || action[0] != float64(step)+float64(k)/2 || action[1] != -float64(step) {
					t.Errorf("row %d: action %v, %v", row, action, err)
				}
				state, err := f.Read(is.state, row, row+1)
				if err != nil || len(state) != 3 || state[0] != float64(step) || state[1] != float64(k) || state[2] != float64(10*step) {
					t.Errorf("row %d: state %v, %v", row, state, err)
				}
				if err := f.Frame(row, frame); err != nil {
					t.Fatal(err)
				}
				for i, v := range frame {
					if want := []int{20 + 30*step, 200 - 40*k, 90}[i%3]; int(v) < want-6 || int(v) > want+6 {
						t.Fatalf("row %d, byte %d: %d, want %d", row, i, v, want)
					}
				}
			}
		})
	}
}

// A folder's name may contain the special characters of file patterns.
func TestFoldersOfAnyName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[x]*?")
	for _, name := range []string{"pictures", "lerobot2"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS("testdata/"+name)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := run(t, filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "lerobot3"), os.DirFS("testdata/lerobot3")); err != nil {
		t.Fatal(err)
	}
	if l, err := (&Job{In: []string{filepath.Join(dir, "lerobot3")}}).open(t.Context()); err != nil || l.episodes() != 2 {
		t.Errorf("%+v, %v", l, err)
	}
}

// A script takes the place of ffmpeg. Its output decides, not the content of the
// films, whose first episode has three rows.
func TestFilmsThatDoNotFit(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	bin := t.TempDir()
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	defer func(was time.Duration) { frameTimeout = was }(frameTimeout)
	frameTimeout = 2 * time.Second
	const three = `for i in 1 2 3; do printf 'P6\n2 2\n255\n0123456789ab'; done`
	for name, is := range map[string]struct{ script, want string }{
		"not square, without end": {`while :; do printf 'P6\n4 2\n255\n0123456789abcdef01234567'; done`, "frames are 4 x 2 pixels.*(hint: --fit crop"},
		"two frames":              {`for i in 1 2; do printf 'P6\n2 2\n255\n0123456789ab'; done`, "frame 2 of the film .*there are rows for 3 frames (hint: "},
		"half a frame":            {`printf 'P6\n2 2\n255\n012345'; echo torn >&2; exit 1`, "frame 0 of the film .*ffmpeg says: torn .exit status 1. (hint: "},
		"a quiet half":            {`printf 'P6\n2 2\n255\n012345'`, "frame 0 of the film .*ended within it (hint: "},
		"an exit code behind":     {three + `; exit 3`, "frame 3 of the film .*exit status 3"},
		"words behind":            {three + `; printf 'at\033[2J the\n end' >&2`, `says: at \[2J the end .exit status 0`},
		"endless words":           {three + `; head -c 9999999 /dev/zero | tr '\0' x >&2`, "says: x{300} .exit "},
		"four frames":             {three + `; printf 'P6\n2 2\n255\n0123456789ab'`, "has 4 frames for 3 rows (hint: "},
		"no frames":               {`exec sleep 60`, "frame 0 .*no further frame in .*s (hint: "},
		"stalls after two":        {`for i in 1 2; do printf 'P6\n2 2\n255\n0123456789ab'; done; sleep 60`, "frame 2 .*no further frame in .*s (hint: "},
		"no end":                  {three + `; exec >&- ; sleep 60`, "frame 3 .*no further frame in .*s (hint: "},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(bin, "ffmpeg"), []byte("#!/bin/sh\n"+is.script+"\n"), 0o777); err != nil {
				t.Fatal(err)
			}
			_, _, err := run(t, "testdata/films")
			if want := strings.ReplaceAll(is.want, "(", `\(`); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

func TestWhatCannotBeConverted(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("lerobot/meta/info.json", `{"codebase_version": "v1.6"}`)
	write("films/ep_len.npz", "")
	for _, camera := range []string{"top", "side"} {
		write("cameras/"+camera+"/ep_0_step_0.jpeg", "")
	}
	lengths, err := os.ReadFile("testdata/pictures/ep_len.npz")
	if err != nil {
		t.Fatal(err)
	}
	write("cameras/ep_len.npz", string(lengths))
	write("lance/_versions/1.manifest", "")
	torn, err := os.ReadFile("testdata/b.npz")
	if err != nil {
		t.Fatal(err)
	}
	for want, in := range map[string][]string{
		"versions 2 and 3":                      {filepath.Join(dir, "lerobot")},
		"--frames NAME":                         {filepath.Join(dir, "cameras")},
		"(hint: np.savez writes":                {filepath.Join(dir, "films")},
		"the layout Lance":                      {filepath.Join(dir, "lance")},
		"np.savez writes":                       {write("torn.npz", string(torn[:len(torn)/2]))},
		"none of the layouts":                   {t.TempDir()},
		"several inputs must all be .npz files": {"testdata/a.npz", "testdata/make.py"},
	} {
		if _, _, err := run(t, in...); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%v: %v, want %q and a hint", in, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := (Job{In: []string{"testdata/a.npz"}, Out: filepath.Join(dir, "x.h5")}).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// npy returns a file with a header and data.
func npy(header, data string) []byte {
	b := append([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(header)))...)
	return append(append(b, header...), data...)
}

func TestHeaders(t *testing.T) {
	b := npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }\n", "\x01\x00\xff\xff")
	a, err := readNPY(bytes.NewReader(b), int64(len(b)))
	if v, _ := a.integers(); err != nil || a.rows() != 2 || a.width() != 1 || v[0] != 1 || v[1] != -1 {
		t.Errorf("%+v, %v, %v", a, v, err)
	}
	for header, want := range map[string]string{
		"{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }":                            "not of a numeric type",
		"{'descr': '<U7', 'fortran_order': False, 'shape': (2,), }":                            "not of a numeric type",
		"{'descr': '<f16', 'fortran_order': False, 'shape': (2,), }":                           "not of a numeric type",
		"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }":                             "not of a numeric type",
		"{'descr': [('a', '<i2')], 'fortran_order': False, 'shape': (2,), }":                   "not of a numeric type",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }":                            "its header says 6",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (1,), }":                            "its header says 2 ",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (513,), }":                          "its header says 1026",
		"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999), }":      "too large",
		"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999999999), }": "too large",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (99999999999, 0), }":                "rows without numbers",
		"{'descr': '<i2', 'fortran_order': False, 'shape': (99999999, 0), }":                   "rows without numbers",
		"nothing": "does not have NumPy's header",
	} {
		b := npy(header, "abcd")
		if strings.Contains(header, ", 0)") {
			b = npy(header, "")
		}
		if _, err := readNPY(bytes.NewReader(b), int64(len(b))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", header, err, want)
		}
	}
}

// A small .npz file with 32 MB of zeros after one number uses only the memory of one
// number.
func TestBomb(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bomb.npz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.Create("action.npy")
	if err == nil {
		_, err = w.Write(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }\n", ""))
	}
	zeros := make([]byte, 1<<20)
	for range 32 {
		_, err2 := w.Write(zeros)
		err = errors.Join(err, err2)
	}
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	fuzztest.Read(t, 0, func() { _, err = readNPZ(path, everyArray, new([]string)) })
	if err == nil || !strings.Contains(err.Error(), "its header says 4 (hint: ") {
		t.Error(err)
	}
}

// All byte orders and both orders of indices give the same numbers.
func TestOrdersOfNumbers(t *testing.T) {
	// (2, 3) numbers 1 to 6, row by row, and 1.5 and -2 in half precision.
	for header, data := range map[string]string{
		"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }": "\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00\x06\x00",
		"{'descr': '>i2', 'fortran_order': False, 'shape': (2, 3), }": "\x00\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00\x06",
		"{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }":  "\x01\x04\x02\x05\x03\x06",
	} {
		b := npy(header, data)
		a, err := readNPY(bytes.NewReader(b), int64(len(b)))
		if v, _ := a.integers(); err != nil || !slices.Equal(v, []int{1, 2, 3, 4, 5, 6}) {
			t.Errorf("%s: %v, %v", header, v, err)
		}
	}
	for descr, data := range map[string]string{"<f2": "\x00\x3e\x00\xc0", ">f2": "\x3e\x00\xc0\x00"} {
		b := npy("{'descr': '"+descr+"', 'fortran_order': False, 'shape': (2,), }", data)
		a, err := readNPY(bytes.NewReader(b), int64(len(b)))
		if err != nil || a.dtype != "float32" || a.number(0) != 1.5 || a.number(1) != -2 {
			t.Errorf("%s: %+v, %v", descr, a, err)
		}
	}
}

func FuzzNPY(f *testing.F) {
	f.Add(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n", "abcdefgh"))
	f.Add(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 2, 3), }\n", "abcdefghijkl"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Read(t, len(b), func() {
			a, err := readNPY(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				return
			}
			j := Job{Size: 4, Fit: FitLetterbox, Actions: Leading}
			_, _ = j.take(rows{arrays: map[string]array{"pixels": a, "action": a, "state": a}})
		})
	})
}

// A table of any content is read or gives an error.
func FuzzTable(f *testing.F) {
	for _, path := range []string{"testdata/lerobot2/data/chunk-000/episode_000000.parquet", "testdata/lerobot3/meta/episodes/chunk-000/file-000.parquet"} {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	path := filepath.Join(f.TempDir(), "t.parquet")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		fuzztest.Read(t, len(b), func() {
			table, err := openTable(path)
			if err != nil {
				return
			}
			defer table.close()
			_, _ = table.numbers("episode_index", 1)
			_, _ = table.feature("action", leRobotFeature{Type: "float32", Shape: []int{2}}, 0, 1)
			_, _ = table.pictures("observation.image", 0, 1, (&Job{}).fit)
		})
	})
}

// Names of features stay inside the folder of the data set.
func FuzzLeRobotInfo(f *testing.F) {
	b, err := os.ReadFile("testdata/lerobot3/meta/info.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var info leRobotInfo
		fuzztest.Read(t, len(b), func() { err = info.parse(b) })
		for name := range info.Features {
			if err == nil && (!filepath.IsLocal(name) || strings.Contains(name, "/")) {
				t.Errorf("the feature %q", name)
			}
		}
	})
}
