package main

import (
	"bytes"
	"os"
	"os/exec"
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
