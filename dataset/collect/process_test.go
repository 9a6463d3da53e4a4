package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain serves as the worker process if the environment says so, like the
// program's main.
func TestMain(m *testing.M) {
	if os.Getenv(ServeVariable) == "" {
		os.Exit(m.Run())
	}
	if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func spawn(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, os.Args[0]) }

var drawnTest = Spec{Task: "drawn", Episodes: 20, Seed: 4}

// drawn prepares a collection in processes.
func drawn(t *testing.T, s Spec) *Job {
	t.Helper()
	return mustPrepare(t, filepath.Join(t.TempDir(), "d.h5"), s)
}

// Processes produce the bytes that goroutines produce, for any number of processes.
func TestProcessesMakeTheSameBytes(t *testing.T) {
	alone := drawn(t, drawnTest)
	alone.Spawn = nil
	if _, err := alone.Run(t.Context(), 2, nil); err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 3, 50} {
		j := drawn(t, drawnTest)
		if len(j.parts) != 20 {
			t.Fatalf("%d parts of 20 episodes", len(j.parts))
		}
		var last [2]int64
		r, err := j.Run(t.Context(), workers, func(done, total int64, _ string) { last = [2]int64{done, total} })
		if err != nil {
			t.Fatal(err)
		}
		if last != [2]int64{20, 20} || r.NewRows != r.Rows || r.Episodes != 20 {
			t.Errorf("%d processes: %v %+v", workers, last, r)
		}
		if !bytes.Equal(read(t, alone.Out), read(t, j.Out)) {
			t.Errorf("%d processes make other bytes", workers)
		}
	}
}

// Parts that a process finished before it was stopped are not recorded again.
func TestProcessesResume(t *testing.T) {
	j := drawn(t, drawnTest)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := j.Run(ctx, 2, func(done, _ int64, _ string) {
		if done == 7 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the run was not stopped: %v", err)
	}
	j.Close()
	r, err := mustPrepare(t, j.Out, drawnTest).Run(t.Context(), 2, nil)
	if err != nil || r.NewRows >= r.Rows*14/20 || r.NewRows == 0 {
		t.Errorf("the second run simulated %d of %d rows (%v)", r.NewRows, r.Rows, err)
	}
}

func TestProcessesThatFail(t *testing.T) {
	for policy, wants := range map[string][]string{
		"broken": {"episode ", "step 4", "NaN", "d.h5"},
		"dies":   {"a worker process ended", "exit status 7", "the card is on fire", "(hint:", "d.h5"},
	} {
		s := drawnTest
		s.Policy = policy
		_, err := drawn(t, s).Run(t.Context(), 2, nil)
		refused(t, policy, err, wants...)
	}
	j := drawn(t, drawnTest)
	j.Spawn = func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "/nowhere/scalewm") }
	_, err := j.Run(t.Context(), 2, nil)
	refused(t, "no program", err, "starting a worker process", "/nowhere/scalewm", "(hint:")
	for script, wants := range map[string][]string{
		"echo no library >&2; exit 127": {"a worker process ended", "exit status 127", "no library", "(hint:"},
		"exit 0":                        {"a worker process, /bin/sh, does not answer", "(hint:"},
	} {
		j := drawn(t, drawnTest)
		// More than a pipe buffers before someone reads.
		j.Out += strings.Repeat("x", 1<<17)
		j.Spawn = func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "/bin/sh", "-c", script) }
		_, err := j.Run(t.Context(), 2, nil)
		refused(t, script, err, wants...)
	}
}

// A process ends in the middle of its work when its parent dies.
func TestServeEndsWithItsMaster(t *testing.T) {
	ours, theirs := io.Pipe()
	var said bytes.Buffer
	ended := make(chan error)
	go func() { ended <- Serve(context.Background(), ours, &said) }()
	tell := json.NewEncoder(theirs)
	if err := errors.Join(tell.Encode(setup{filepath.Join(t.TempDir(), "d.h5"), drawnTest}), tell.Encode(request{0, 1 << 40})); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// For any input, Serve answers or returns.
func FuzzServe(f *testing.F) {
	f.Add("{}\n{}")
	f.Add(`{"Spec":{"task":"drawn","policy":"walk","episodes":2}} {"From":0,"To":1}`)
	f.Add(`{"Spec":{"task":"drawn","episodes":2}} {"From":-5,"To":-4} ]`)
	f.Fuzz(func(t *testing.T, in string) {
		if bytes.Contains([]byte(in), []byte("Out")) {
			t.Skip("files are written where Out says")
		}
		t.Chdir(t.TempDir())
		Serve(t.Context(), bytes.NewReader([]byte(in)), io.Discard)
	})
}
