package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestNFS runs two machines on one folder of a real NFS server: a user-mode Linux with a
// server and a mount for each machine. Only one of them trains. The training of a lost
// machine resumes with --break-lock. Cells that both compute at once are complete.
func TestNFS(t *testing.T) {
	if os.Getenv("SCALEWM_NFS_TEST") == "" {
		t.Skip("make test-nfs runs it")
	}
	// Its kernel saves less of the registers than such a processor has, and panics with the first process.
	if flags, err := os.ReadFile("/proc/cpuinfo"); err != nil || bytes.Contains(flags, []byte(" amx_tile")) {
		t.Skipf("user-mode Linux does not run on processors with AMX (%v)", err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "nfs") // which the machine's own mounts do not hide
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	build := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	build("build", "-o", filepath.Join(dir, "scalewm"), ".")
	build("test", "-c", "-o", filepath.Join(dir, "cell.test"), "scalewm/dataset/cell")
	preset, err := os.ReadFile("testdata/tiny.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{"steps = 8", "steps = 2000"}, {"save_every = 2", "save_every = 50"}, {"eval_every = 4", "eval_every = 100"}} {
		preset = bytes.Replace(preset, []byte(change[0]), []byte(change[1]), 1)
	}
	if err := os.WriteFile(filepath.Join(dir, "slow.toml"), preset, 0o666); err != nil {
		t.Fatal(err)
	}
	init, err := filepath.Abs("testdata/nfs/init.sh")
	if err != nil {
		t.Fatal(err)
	}
	prepare := `cp "$1"/*.sh "$2" && chmod +x "$2/init.sh" && mkdir -p "$2/root/lib" && ln -s /usr/lib/uml/modules "$2/root/lib/modules" && depmod -b "$2/root" "$(ls /usr/lib/uml/modules)"`
	if out, err := exec.Command("bash", "-c", prepare, "-", filepath.Dir(init), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, stop := context.WithTimeout(t.Context(), 15*time.Minute)
	defer stop()
	uml := exec.CommandContext(ctx, "linux.uml", "mem=1G", "root=none", "rootfstype=hostfs", "hostfs=/", "rootflags=/", "rw", "init="+filepath.Join(dir, "init.sh"),
		"SCALEWM_NFS="+dir, "quiet", "con=null", "con0=null,fd:1", "con1=null")
	console, _ := uml.CombinedOutput() // it ends by switching itself off
	out, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatalf("%v\n%s", err, console)
	}
	want := regexp.MustCompile(`(?s)== a training that both are asked for.*\n1\n1\n0\n== a machine is lost\n(?:.* Killed .*\n)?waits: 124\nbreaks: 0\n1\n== 10,000 cells that both make\n10000\n0\n.*rc 0\n$`)
	if !want.Match(out) {
		logs := ""
		for _, name := range []string{"a.log", "b.log"} {
			text, _ := os.ReadFile(filepath.Join(dir, name))
			logs += name + ":\n" + string(text)
		}
		t.Errorf("%s\n%s", out, logs)
	}
	t.Log(strings.ReplaceAll(string(out), "\n", "\n  "))
}
