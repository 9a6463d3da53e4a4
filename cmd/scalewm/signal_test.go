package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A verb that is told to stop in the middle of its work ends with 130. One that
// does not listen would be ended by the limit of this test.
func TestSignals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	preset, err := os.ReadFile("testdata/tiny.toml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/tiny.toml", preset, 0o666); err != nil {
		t.Fatal(err)
	}
	prepare := exec.Command("scalewm", "collect", "tworoom", "--out", "d.h5", "--episodes", "16")
	prepare.Dir = dir
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, args := range map[string][]string{
		"collect":   {"collect", "tworoom", "--out", "c.h5", "--episodes", "2000"},
		"bench":     {"bench", "--what", "env", "--rounds", "1000"},
		"train":     {"train", "--task", "tworoom", "--data", "d.h5", "--preset", "tiny.toml", "--steps", "10000000", "--out", "run"},
		"reproduce": {"reproduce", "--preset", "nano", "--tasks", "pusht", "--out", "grid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var errs bytes.Buffer
			cmd := exec.Command("scalewm", args...)
			cmd.Dir, cmd.Stderr = dir, &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			hung := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
			time.Sleep(time.Second) // somewhere in the middle
			cmd.Process.Signal(os.Interrupt)
			cmd.Wait()
			hung.Stop()
			if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
				t.Errorf("%v, %q", cmd.ProcessState, errs.String())
			}
		})
	}
}

// SIGUSR1, a batch system's word that the time is nearly up, ends a run in order with
// 75, and what it has done is kept.
func TestTimeUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	preset, err := os.ReadFile("testdata/tiny.toml")
	if err != nil {
		t.Fatal(err)
	}
	slow := bytes.Replace(preset, []byte("steps = 8"), []byte("steps = 100000"), 1)
	if err := os.WriteFile(dir+"/slow.toml", slow, 0o666); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd := exec.Command("scalewm", "reproduce", "--preset", "slow.toml", "--tasks", "tworoom", "--methods", "lewm", "--out", "out", "--restarts", "1")
	cmd.Dir, cmd.Stderr = dir, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer hung.Stop()
	run := dir + "/out/train/tworoom-lewm-s3072/"
	for waits := 0; waits < 5000; waits++ { // until the first line of metrics, a training under way
		if st, err := os.Stat(run + "metrics.jsonl"); err == nil && st.Size() > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cmd.Process.Signal(syscall.SIGUSR1)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitTimeUp {
		t.Fatalf("exit %d, want %d\n%s", code, exitTimeUp, errs.String())
	}
	if _, err := os.Stat(run + "resume.safetensors"); err != nil {
		t.Errorf("no resume point: %v", err)
	}
	if left, _ := os.ReadDir(dir + "/out/jobs"); len(left) != 0 {
		t.Errorf("a run that came along is counted as one that did not: %v", left)
	}
}

// What stands still so often in a row fails, and what comes along is counted anew.
func TestRestarts(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errTimeUp)
	dir := t.TempDir()
	end := func(moved bool) error {
		r := newRestarts(ctx, nil, dir, "eval-0-1", 2)
		if moved {
			r.before = "less"
		}
		return r.after(ctx, context.Canceled)
	}
	for i, c := range []struct{ moved, stalled bool }{{false, false}, {false, false}, {true, false}, {false, false}, {false, false}, {false, true}, {false, true}} {
		if err := end(c.moved); errors.Is(err, errStalled) != c.stalled || !c.stalled && !errors.Is(err, context.Canceled) {
			t.Errorf("stop %d: %v", i, err)
		}
	}
	if err := newRestarts(t.Context(), nil, dir, "eval-0-1", 2).after(t.Context(), io.EOF); err != io.EOF {
		t.Errorf("another error became %v", err)
	}
}
