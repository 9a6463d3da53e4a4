package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// installed leaves the Python package with a library built now in a folder for PYTHONPATH.
func installed(t *testing.T) string {
	t.Helper()
	site := t.TempDir()
	if err := os.CopyFS(filepath.Join(site, "scalewm"), os.DirFS("scalewm")); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", filepath.Join(site, "scalewm", "libscalewm.so"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the library: %v\n%s", err, out)
	}
	return site
}

// stable-worldmodel's World drives our worlds under its own names, and from its states and
// with its actions shows what it shows on its own.
func TestPeersWorld(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if _, err := os.Stat(python); err != nil {
		t.Skip("peers: SCALEWM_PEERS names no Python with stable-worldmodel")
	}
	cmd := exec.Command(python, "testdata/peers_world.py")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+installed(t), "STABLEWM_HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
