package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

func init() {
	register(verb{name: "doctor", summary: "check what this machine supports and how to fix what is missing",
		example: "scalewm doctor", run: runDoctor})
}

// finding is the result of one check of the machine.
type finding struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Value string `json:"value"`         // what was found, or the consequences of its absence
	Fix   string `json:"fix,omitempty"` // what to do if not OK
}

// machine is the machine that the checks look at. Tests use a folder with made-up
// files in place of /.
type machine struct {
	root     string // prefix of absolute paths: "" or a folder with a test's files
	checkout string // the folder that contains third_party; "" if there is none
	exeDir   string // folder of this binary
	getenv   func(string) string
}

// thisMachine returns the real machine. The checkout is looked for above the binary
// first, then above the working folder.
func thisMachine() machine {
	m := machine{getenv: os.Getenv}
	if exe, err := os.Executable(); err == nil {
		m.exeDir = dirOf(exe)
	}
	for _, start := range []string{m.exeDir, workingDir()} {
		if m.checkout = checkoutAbove(start); m.checkout != "" {
			break
		}
	}
	return m
}

// runDoctor prints all findings, one line each, or one JSON object. A missing part is
// not an error (exitDone): most parts are needed by some tasks or tests only. It
// changes nothing and loads no library.
func runDoctor(_ context.Context, c *command, args []string) error {
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	findings := examine(thisMachine())
	if *asJSON {
		return c.printJSON(map[string]any{"version": version(), "checks": findings})
	}
	printFindings(c.stdout, findings)
	return nil
}

// examine runs all checks, general ones first.
func examine(m machine) []finding {
	var fs []finding
	// The order of the output: the program and the machine, libraries, then what tests use.
	for _, look := range []func(machine) finding{
		program, system, processor, kernels, memory, disk, dataLibraries, mujocoLibrary, cubeFiles, glLibraries, gpu, peers, browser,
	} {
		fs = append(fs, look(m))
	}
	return fs
}

// printFindings prints a line for each finding, and its fix if there is one.
func printFindings(w io.Writer, fs []finding) {
	for _, f := range fs {
		state := "ok"
		if !f.OK {
			state = "missing"
		}
		fmt.Fprintf(w, "%-8s %-12s %s\n", state, f.Name, f.Value)
		if f.Fix != "" {
			fmt.Fprintf(w, "%-8s %-12s fix: %s\n", "", "", f.Fix)
		}
	}
}
