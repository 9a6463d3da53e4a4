package main

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memoryEnv is the environment variable with the number of episodes of TestMemory.
const memoryEnv = "SCALEWM_MEMORY"

// The memory of a long run depends on its settings and not on its length. Two-Room
// is collected, opened, trained on and evaluated; a line of the table has the
// largest memory of a process in each quarter of its time, in MB, and its course
// between 0 and the largest.
//
// Memory means anonymous memory (RssAnon). Pages of mapped files, which the system can
// reclaim, are listed separately.
func TestMemory(t *testing.T) {
	if os.Getenv(memoryEnv) == "" {
		t.Skip("campaign: takes minutes (hint: make campaign-memory)")
	}
	episodes, err := strconv.Atoi(os.Getenv(memoryEnv))
	if err != nil || episodes < 600 {
		t.Fatalf("%s=%s: want a number of episodes, at least 600", memoryEnv, os.Getenv(memoryEnv))
	}
	dir := t.TempDir()
	data, run := filepath.Join(dir, "data.h5"), filepath.Join(dir, "run")
	each := strconv.Itoa(episodes / 6) // of the six sets
	t.Log("| command | time | 1st quarter | 2nd | 3rd | 4th | mapped files | course |")
	t.Log("|---|---:|---:|---:|---:|---:|---:|---|")
	follow(t, "collect", "collect", "tworoom", "--episodes", strconv.Itoa(episodes), "--out", data)
	follow(t, "data info", "data", "info", data)
	follow(t, "train", "train", "--task", "tworoom", "--method", "scale", "--preset", "testdata/tiny.toml", "--steps", "2000", "--data", data, "--out", run)
	follow(t, "eval", "eval", "--task", "tworoom", "--weights", run, "--data", data, "--tier", "T5", "--episodes", each, "--out", dir)
}

// follow runs a command and logs its line of the table.
func follow(t *testing.T, name string, args ...string) {
	var said bytes.Buffer
	cmd := exec.Command("scalewm", args...)
	cmd.Stderr = &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	var own, mapped []int
	for tick := time.Tick(100 * time.Millisecond); ; {
		select {
		case <-tick:
			o, m := resident(cmd.Process.Pid)
			own, mapped = append(own, o), append(mapped, m)
			continue
		case err := <-ended:
			if err != nil {
				t.Fatalf("scalewm %v: %v\n%s", args, err, said.String())
			}
		}
		break
	}
	own, mapped = append(own, 0), append(mapped, 0)
	part := func(i, of int) int { return slices.Max(own[i*(len(own)-1)/of:][:1+(len(own)-1)/of]) }
	t.Logf("| %s | %.0f s | %d | %d | %d | %d | %d | `%s` |", name, time.Since(began).Seconds(),
		part(0, 4), part(1, 4), part(2, 4), part(3, 4), slices.Max(mapped), course(part))
}

// course draws the course of memory over forty parts of the time.
func course(part func(i, of int) int) string {
	const parts = 40
	var line strings.Builder
	for i := range parts {
		levels := []rune("▁▂▃▄▅▆▇█")
		line.WriteRune(levels[min(len(levels)*part(i, parts)/cmp.Or(part(0, 1), 1), len(levels)-1)])
	}
	return line.String()
}

// resident returns the memory of a process in MB: anonymous, and pages of mapped files. Both
// are 0 if it has ended.
func resident(pid int) (own, mapped int) {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 {
			switch kB, _ := strconv.Atoi(f[1]); f[0] {
			case "RssAnon:":
				own = kB >> 10
			case "RssFile:":
				mapped = kB >> 10
			}
		}
	}
	return own, mapped
}
