package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// A verb that is interrupted in the middle of its work ends with exit code 130. One that
// ignores the signal would reach the time limit of this test.
func TestSignals(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Parallel()
	dir := t.TempDir()
	preset, err := os.ReadFile("testdata/tiny.toml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/tiny.toml", preset, 0o666); err != nil {
		t.Fatal(err)
	}
	prepare := func(args ...string) {
		cmd := exec.Command("scalewm", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	prepare("collect", "tworoom", "--out", "d.h5", "--episodes", "16")
	prepare("train", "--task", "tworoom", "--data", "d.h5", "--preset", "tiny.toml", "--out", "w")
	lengthen(t, dir+"/d.h5", dir+"/long.h5")
	rows := []byte("set,episode,tier,success\n") // enough episodes for statistics that take long
	for i := range 400_000 {
		rows = fmt.Appendf(rows, "s%d,%d,T1,%t\n", 1+i/100, i%100, i%7 < 3)
	}
	for _, arm := range []string{"a.csv", "b.csv"} {
		if err := os.WriteFile(dir+"/"+arm, rows, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	both := []os.Signal{os.Interrupt, syscall.SIGTERM}
	for i, args := range [][]string{
		{"collect", "tworoom", "--out", "c.h5", "--episodes", "2000"},
		{"bench", "--what", "env", "--rounds", "1000"},
		{"bench", "--what", "kernels"},
		{"bench", "--what", "train,plan", "--rounds", "1000"},
		{"bench", "--what", "latents,wide", "--rounds", "1000"},
		{"train", "--task", "tworoom", "--data", "d.h5", "--preset", "tiny.toml", "--steps", "10000000", "--out", "run"},
		{"reproduce", "--preset", "nano", "--tasks", "pusht", "--out", "grid"},
		{"eval", "--task", "tworoom", "--weights", "w", "--data", "d.h5", "--solver", "all", "--temperature", "stock", "--out", "cells"},
		{"analyse", "rollout", "--weights", "w", "--data", "d.h5", "--candidates", "100000"},
		{"analyse", "rank,spectrum,probe", "--weights", "w", "--data", "long.h5"},
		{"compare", "a.csv", "b.csv"},
		{"encode", "--weights", "w", "--data", "long.h5", "--out", "z.h5"},
		{"rollout", "--weights", "w", "--data", "long.h5", "--out", "p.h5"},
		{"data", "check", "long.h5"},
		{"data", "convert", "long.h5", "--out", "o.h5"},
		{"replay", "long.h5", "--pixels"},
		{"render", "long.h5", "--out", "o.gif"},
	} {
		name := args[0] + " " + args[1]
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
			cmd.Process.Signal(both[i%2])
			cmd.Wait()
			hung.Stop()
			if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
				t.Errorf("%v, %q", cmd.ProcessState, errs.String())
			}
		})
	}
}

// SIGUSR1, by which a batch system warns that the time is nearly up, ends a run with exit
// code 75, and the finished work remains.
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

// A job without progress fails after the given number of attempts; progress resets the count.
func TestRestarts(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errTimeUp)
	dir := t.TempDir()
	end := func(moved bool) error {
		r := newRestarts(ctx, nil, dir, "eval-0-1", 2)
		if moved {
			r.before = "less"
		}
		return r.check(ctx, context.Canceled)
	}
	for i, c := range []struct{ moved, stalled bool }{{false, false}, {false, false}, {true, false}, {false, false}, {false, false}, {false, true}, {false, true}} {
		if err := end(c.moved); errors.Is(err, errStalled) != c.stalled || !c.stalled && !errors.Is(err, context.Canceled) {
			t.Errorf("stop %d: %v", i, err)
		}
	}
	if err := newRestarts(t.Context(), nil, dir, "eval-0-1", 2).check(t.Context(), io.EOF); err != io.EOF {
		t.Errorf("another error became %v", err)
	}
}

// lengthen writes a data set of ten episodes, each of which repeats the first episode of
// another data set twenty times.
func lengthen(t *testing.T, from, to string) {
	t.Helper()
	src, err := hdf5.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	opt := hdf5.WriterOptions{FrameSize: envs.FrameSize, Attrs: src.Attrs()}
	ep, rows := hdf5.EpisodeData{Columns: map[string][]float64{}}, src.Episodes()[0].Len-1 // the last row has no action
	for _, c := range src.Columns() {
		if !hdf5.IsIndex(c.Name) {
			values, err := src.Read(c.Name, 0, rows)
			if err != nil {
				t.Fatal(err)
			}
			opt.Columns, ep.Columns[c.Name] = append(opt.Columns, c), slices.Repeat(values, 20)
		}
	}
	for row := range rows {
		frame := make([]byte, envs.FrameBytes)
		if err := src.Frame(row, frame); err != nil {
			t.Fatal(err)
		}
		ep.Encoded = append(ep.Encoded, hdf5.Deflate.Encode(nil, frame))
	}
	ep.Encoded = slices.Repeat(ep.Encoded, 20)
	w, err := hdf5.Create(to, opt)
	for range 40 { // seconds of work for whoever reads all of it, on a fast machine too
		if err == nil {
			err = w.Append(ep)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
