package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

func init() {
	register(verb{name: "doctor", summary: "what this machine can do, with the fix for what is missing",
		example: "scalewm doctor", run: runDoctor})
}

// finding is one thing the doctor looked at.
type finding struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Value string `json:"value"`         // what is there, or what is missed without it
	Fix   string `json:"fix,omitempty"` // what to do, where it is not OK
}

// machine is where the doctor looks; tests hand it a made-up one.
type machine struct {
	root     string // "" or a folder that stands for /
	checkout string // the folder that holds third_party, "" if there is none
	exeDir   string // where this binary lies
	getenv   func(string) string
}

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

func runDoctor(_ context.Context, c *command, args []string) error {
	asJSON := c.Bool("json", false, "print one JSON object")
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

// examine asks every question, the general ones first.
func examine(m machine) []finding {
	var fs []finding
	for _, look := range []func(machine) finding{
		program, system, processor, kernels, memory, disk, dataLibraries, mujocoLibrary, cubeFiles, glLibraries, gpu, peers, browser,
	} {
		fs = append(fs, look(m))
	}
	return fs
}

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
