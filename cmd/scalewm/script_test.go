package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts call this very program as `scalewm`.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"scalewm": main})
}

// TestScripts runs the sessions of testdata/script, each in an empty folder.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"truncate": truncate, "emptydir": emptydir},
	})
}

// truncate PATTERN tears the one file that fits: its second half is lost.
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

// emptydir DIR fails if the folder holds anything.
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
