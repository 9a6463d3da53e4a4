package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The recipe "a new setting of an evaluation": a field of results.Rules and a row of
// results.Settings. The program built with both has the flag, writes the value into the
// specs of cells, does not pair different values, and accepts the keyword from Python.
// Without the flag, ids of cells are unchanged.
func TestNewSetting(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	const path = "../../eval/results/rules.go"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := string(text)
	for after, line := range map[string]string{
		"type Rules struct {\n":       "\tWind int `json:\"wind,omitempty\"` // m/s\n",
		"var Settings = []Setting{\n": "\t{Name: \"wind\", Flag: \"wind\", Usage: \"`speed` of the wind\", Pair: true, Usual: \"0\", Say: \"wind %s\", Field: func(r *Rules) any { return &r.Wind }},\n",
	} {
		if strings.Count(changed, after) != 1 {
			t.Fatalf("%s has no single line %q", path, after)
		}
		changed = strings.Replace(changed, after, after+line, 1)
	}
	dir := t.TempDir()
	source, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return name
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{source: write("rules.go", []byte(changed))}})
	if err != nil {
		t.Fatal(err)
	}
	overlay, self := write("overlay.json", replace), filepath.Join(dir, "scalewm")
	run := func(want bool, args ...string) string {
		t.Helper()
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if (err == nil) != want {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run(true, "go", "build", "-overlay", overlay, "-o", self, ".")
	if help := run(true, self, "reproduce", "--help"); !strings.Contains(help, "--wind SPEED ") {
		t.Errorf("no flag in\n%s", help)
	}
	data := filepath.Join(dir, "d.h5")
	run(true, self, "collect", "tworoom", "--episodes", "4", "--out", data)
	spec := func(out string, program func(args ...string), flags ...string) (id string, spec map[string]any) {
		t.Helper()
		out = filepath.Join(dir, out)
		program(append([]string{"eval", "--task", "tworoom", "--random", "--data", data, "--sets", "s101", "--episodes", "2", "--out", out}, flags...)...)
		cells, _ := filepath.Glob(filepath.Join(out, "cells", strings.Repeat("?", 32)+".json"))
		if len(cells) != 1 {
			t.Fatalf("cells %q", cells)
		}
		var cell struct{ Spec map[string]any }
		b, err := os.ReadFile(cells[0])
		if err == nil {
			err = json.Unmarshal(b, &cell)
		}
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Base(cells[0]), cell.Spec
	}
	theirs := func(args ...string) { run(true, append([]string{self}, args...)...) }
	ours := func(args ...string) {
		if out, errs, code := session(args...); code != exitDone {
			t.Fatalf("exit %d\n%s%s", code, out, errs)
		}
	}
	old, _ := spec("ours", ours)
	still, calm := spec("calm", theirs)
	other, windy := spec("windy", theirs, "--wind", "3")
	if _, said := calm["wind"]; said || old != still || other == still || windy["wind"] != 3.0 {
		t.Errorf("cells %s by this program, %s with %v and %s with %v", old, still, calm, other, windy)
	}
	if refused := run(false, self, "compare", filepath.Join(dir, "windy"), filepath.Join(dir, "calm")); !strings.Contains(refused, "wind is 3 in one arm and 0 in the other") {
		t.Errorf("compared: %s", refused)
	}
	if keywords := run(true, "go", "test", "-overlay", overlay, "-run", "^TestSettingsAreKeywords$", "-v", "../libscalewm"); !strings.Contains(keywords, "keyword wind, by default 0\n") {
		t.Errorf("no keyword in\n%s", keywords)
	}
}
