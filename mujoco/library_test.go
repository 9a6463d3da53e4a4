package mujoco

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/mujoco/internal/mjc"
)

func TestOpenSaysWhatIsMissing(t *testing.T) {
	t.Setenv(Variable, "/absent")
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "/absent/libmujoco.so.3.11.0") || !strings.Contains(err.Error(), Variable) {
		t.Errorf("with a wrong variable: %v", err)
	}
	t.Setenv(Variable, "")
	t.Chdir(t.TempDir())
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "(hint: make setup in a checkout, or SCALEWM_MUJOCO=FILE)") {
		t.Errorf("outside a checkout: %v", err)
	}
	if err := builtWith(3012000); !strings.Contains(err.Error(), "3012000") || !strings.Contains(err.Error(), "3011000") {
		t.Errorf("wrong headers: %v", err)
	}
}

// TestWrongLibraries opens files that are not libmujoco, or another version of it.
func TestWrongLibraries(t *testing.T) {
	if mjc.Headers() == 0 {
		t.Skip("mujoco: library not fetched")
	}
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	must(t, os.WriteFile(text, []byte("no library"), 0o644))
	for name, tc := range map[string]struct{ source, want string }{
		"newer":  {"int mj_version(void) { return 3012000; }", "3012000"},
		"no one": {"int other(void) { return 1; }", "version 0"},
		"empty":  {"int mj_version(void) { return 3011000; }", "no function"},
	} {
		lib := filepath.Join(dir, name+".so")
		cc := exec.Command("gcc", "-shared", "-fPIC", "-x", "c", "-o", lib, "-")
		cc.Stdin = strings.NewReader(tc.source)
		if out, err := cc.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := mjc.Open(lib); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), lib) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := mjc.Open(text); err == nil {
		t.Error("a text file opens")
	}
}

// TestBuildWithoutHeaders compiles the C files in a folder without the headers, as in a
// checkout without network: the program links, and mjc_open returns an error.
func TestBuildWithoutHeaders(t *testing.T) {
	dir := t.TempDir()
	sources, err := filepath.Glob("internal/mjc/*.[ch]")
	must(t, err)
	args := []string{"-o", filepath.Join(dir, "main"), filepath.Join(dir, "main.c")}
	for _, f := range sources {
		b, err := os.ReadFile(f)
		must(t, err)
		copied := filepath.Join(dir, filepath.Base(f))
		must(t, os.WriteFile(copied, b, 0o644))
		if strings.HasSuffix(f, ".c") {
			args = append(args, copied)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "main.c"), []byte(`#include <stdio.h>
#include "mjc.h"
int main(void) {
  char text[MJC_TEXT];
  int rc = mjc_open("any", text);
  printf("%d %d %d %s", rc, mjc_headers(), mjc_run == NULL, text);
}
`), 0o644))
	if out, err := exec.Command("gcc", append(args, "-ldl", "-lpthread")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(args[1]).Output()
	if want := "-1 0 1 built without its headers"; err != nil || string(out) != want {
		t.Errorf("%q (%v), want %q", out, err, want)
	}
	if err := builtWith(0); !strings.Contains(err.Error(), "without its headers (hint: make setup") {
		t.Errorf("without headers: %v", err)
	}
}
