package safefile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

func mustLock(t *testing.T, dir string, o LockOptions) (release func()) {
	t.Helper()
	release, err := Lock(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// A folder has one owner at a time. A second process waits and names the owner, or
// gives up when its context ends. Nothing is left in the folder.
func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	release := mustLock(t, dir, LockOptions{})
	stopped, stop := context.WithCancel(context.Background())
	stop()
	said := ""
	if _, err := Lock(stopped, dir, LockOptions{Note: func(text string) { said = text }}); !errors.Is(err, context.Canceled) {
		t.Errorf("a taken folder, and told to stop: %v", err)
	}
	if want := fmt.Sprintf("process %d on ", os.Getpid()); !strings.Contains(said, want) || !strings.Contains(said, "hint") {
		t.Errorf("said %q, want %q", said, want)
	}
	second := make(chan error)
	go func() {
		release, err := Lock(context.Background(), dir, LockOptions{})
		if err == nil {
			release()
		}
		second <- err
	}()
	release()
	if err := <-second; err != nil {
		t.Errorf("after its release: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(context.Background(), file, LockOptions{}); err == nil {
		t.Error("a file was locked as a folder")
	}
}

// An owner whose lock was broken must not remove the lock of the new owner when it
// releases.
func TestReleaseOfABrokenLock(t *testing.T) {
	dir := t.TempDir()
	first := mustLock(t, dir, LockOptions{})
	second := mustLock(t, dir, LockOptions{Break: true})
	first()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Lock(stopped, dir, LockOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a third one beside the second: %v", err)
	}
	second()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Of many goroutines that want the lock at once, one has it at a time.
func TestLockRace(t *testing.T) {
	dir := t.TempDir()
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			release, err := Lock(t.Context(), dir, LockOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			inside.Add(-1)
			release()
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d had the lock at once", most.Load())
	}
}

// TestMain is also the main function of the process that TestLockAfterKill kills.
func TestMain(m *testing.M) {
	dir := os.Getenv("SCALEWM_TEST_LOCK")
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := Lock(context.Background(), dir, LockOptions{}); err != nil {
		panic(err)
	}
	fmt.Println("locked")
	select {}
}

// The lock of a killed process is free at once, and the file it left while taking the
// lock is removed.
func TestLockAfterKill(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SCALEWM_TEST_LOCK="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		// Output means that it has the lock.
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Lock(stopped, dir, LockOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("while its process lives: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if err := os.WriteFile(filepath.Join(dir, lockName+".elsewhere-7-1"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	mustLock(t, dir, LockOptions{})()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// leave writes the lock of a process that this host cannot see.
func leave(t *testing.T, dir string, o Owner) {
	t.Helper()
	text, err := json.Marshal(o)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, lockName), text, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The lock of another host stays until Slurm reports that its job is not running,
// until it is this process's own job, or until it is broken on request. squeue is a
// script here, with one answer per job.
func TestLockOfAnotherHost(t *testing.T) {
	bin := t.TempDir()
	squeue := "#!/bin/sh\nfor a; do case $a in 7_1) echo RUNNING;; 7_2) echo PENDING;; 7_3) ;; 7_4) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1;; 7_5) echo 'Unable to contact slurm controller' >&2; exit 1;; esac; done\n"
	if err := os.WriteFile(filepath.Join(bin, "squeue"), []byte(squeue), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("SLURM_ARRAY_JOB_ID", "9")
	t.Setenv("SLURM_ARRAY_TASK_ID", "3")
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for _, c := range []struct {
		job    string
		anyway bool
		free   bool
	}{
		{"7_1", false, false}, {"7_2", false, true}, {"7_3", false, true}, {"7_4", false, true}, {"7_5", false, false},
		{"", false, false}, {"", true, true}, {"7_1", true, true}, {"9_3", false, true},
	} {
		dir := t.TempDir()
		leave(t, dir, Owner{Host: "elsewhere", PID: 7, Job: c.job})
		release, err := Lock(stopped, dir, LockOptions{Break: c.anyway})
		if (err == nil) != c.free {
			t.Errorf("job %q, break %v: %v", c.job, c.anyway, err)
		}
		if err == nil {
			release()
		}
	}
	// Content that a full disk truncated, or that another program wrote.
	for _, text := range []string{`{"host":`, "", "{}"} {
		dir, said := t.TempDir(), ""
		if err := os.WriteFile(filepath.Join(dir, lockName), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Lock(stopped, dir, LockOptions{Note: func(s string) { said += s }}); !errors.Is(err, context.Canceled) || !strings.Contains(said, "locked by an unreadable .lock; waiting for it (hint: ") {
			t.Errorf("an unreadable lock %q: %v, said %q", text, err, said)
		}
		mustLock(t, dir, LockOptions{Break: true})()
	}
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, lockName), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(stopped, dir, LockOptions{}); !errors.Is(err, ErrUnfit) {
		t.Errorf("a pipe as a lock: %v", err)
	}
}
