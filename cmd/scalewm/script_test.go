package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/rng"
	"scalewm/envs"
)

// TestMain lets the scripts run this program as `scalewm`.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"scalewm": main})
}

// TestScripts runs the sessions of testdata/script, each in an empty folder.
func TestScripts(t *testing.T) {
	tiny, err := filepath.Abs("testdata/tiny.toml")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := filepath.Abs("../../dataset/convert/testdata/hdf5")
	if err != nil {
		t.Fatal(err)
	}
	self, err := exec.LookPath("scalewm")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("TINY", tiny)
			e.Setenv("THEIRS", theirs)          // HDF5 files of other programs
			e.Setenv("BIN", filepath.Dir(self)) // the folder with this program and no other one
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "cuda" {
				return false, fmt.Errorf("no such condition: %s", name)
			}
			return gpuBuild, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"truncate": truncate, "emptydir": emptydir,
			"edit": edit, "refused": refused, "owndata": ownData},
	})
}

// ownData FILE SIZE [EPISODES] writes a data set without a task: twenty episodes of 41 rows,
// or that many, in which a square moves over frames of that size.
func ownData(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: owndata FILE SIZE [EPISODES]")
	}
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	episodes, err := strconv.Atoi(append(args, "20")[2])
	ts.Check(err)
	w, err := hdf5.Create(ts.MkAbs(args[0]), hdf5.WriterOptions{FrameSize: size, Columns: []envs.Column{{Name: "action", DType: "float32", Width: 3},
		{Name: "position", DType: "float32", Width: 2}, {Name: "goal", DType: "float64", Width: 2}}})
	ts.Check(err)
	defer w.Abort()
	r := rng.Stream("own data")
	for range episodes {
		ep := hdf5.EpisodeData{Columns: map[string][]float64{}}
		x, y, goal := r.Float64(), r.Float64(), []float64{r.Float64(), r.Float64()}
		for t := range 41 {
			frame := bytes.Repeat([]byte{20, 90, 160}, size*size)
			for i := range size * size / 64 {
				at := (int(y*float64(size)*7/8)+i/(size/8))*size + int(x*float64(size)*7/8) + i%(size/8)
				copy(frame[3*at:], []byte{255, byte(t), 0})
			}
			dx, dy := r.Float64()/10-.05, r.Float64()/10-.05
			action := []float64{dx, dy, float64(t)}
			if t == 40 {
				action = slices.Repeat([]float64{math.NaN()}, 3)
			}
			ep.Frames = append(ep.Frames, frame)
			ep.Columns["action"] = append(ep.Columns["action"], action...)
			ep.Columns["position"] = append(ep.Columns["position"], x, y)
			ep.Columns["goal"] = append(ep.Columns["goal"], goal...)
			x, y = min(max(x+dx, 0), 1), min(max(y+dy, 0), 1)
		}
		ts.Check(w.Append(ep))
	}
	ts.Check(w.Close())
}

// edit FILE OLD NEW OUT writes a file with its first OLD replaced.
func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: edit FILE OLD NEW OUT")
	}
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s has no %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), []byte(strings.Replace(text, args[1], args[2], 1)), 0o666))
}

// refused DIR COMMAND runs a command that must end with the exit code for wrong usage and
// leave every file and folder below DIR unchanged.
func refused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: refused DIR COMMAND")
	}
	listing := func() string {
		var all strings.Builder
		ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			st, err := d.Info()
			if err == nil {
				fmt.Fprintln(&all, path, st.Size(), st.ModTime())
			}
			return err
		}))
		return all.String()
	}
	before := listing()
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
		ts.Fatalf("%v: %v, not refused", args[1:], err)
	}
	if after := listing(); after != before {
		ts.Fatalf("%v: refused, and changed\n%s to\n%s", args[1:], before, after)
	}
}

// truncate PATTERN removes the second half of the only file that matches.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: truncate PATTERN")
	}
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%s fits %v, not one file", args[0], found)
	}
	st, err := os.Stat(found[0])
	ts.Check(err)
	ts.Check(os.Truncate(found[0], st.Size()/2))
}

// emptydir DIR fails if the folder is not empty.
func emptydir(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: emptydir DIR")
	}
	left, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "*"))
	ts.Check(err)
	if len(left) > 0 {
		ts.Fatalf("%s holds %v", args[0], left)
	}
}
