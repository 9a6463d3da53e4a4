package collect

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// testPart makes parts of 3 episodes.
const testPart = 33

var testSpec = Spec{Task: "fake", Episodes: 20, Seed: 4}

func mustPrepare(t *testing.T, out string, s Spec) *Job {
	t.Helper()
	j, err := prepare(context.Background(), out, s, cell.Shard{}, testPart)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	j.Spawn = spawn
	return j
}

func mustRun(t *testing.T, out string, s Spec, workers int) Result {
	t.Helper()
	r, err := mustPrepare(t, out, s).Run(context.Background(), workers, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func refused(t *testing.T, what string, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	for _, w := range wants {
		if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q does not say %q in one line", what, err, w)
		}
	}
}

// Rows are those of the reference recorder: one for the reset and one per step, with
// the action of row t taken in the state of row t, and NaN in the last row
// (docs/sources.md#recorder-rows).
func TestRows(t *testing.T) {
	out := filepath.Join(t.TempDir(), "d.h5")
	mustRun(t, out, testSpec, 2)
	f, err := hdf5.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	early := 0
	for i, e := range f.Episodes() {
		col := map[string][]float64{}
		for _, c := range f.Columns() {
			if col[c.Name], err = f.Read(c.Name, e.Offset, e.Offset+e.Len); err != nil {
				t.Fatal(err)
			}
		}
		if col["hidden"][0] != 0 {
			t.Errorf("episode %d begins with hidden state %v of another one", i, col["hidden"][0])
		}
		last := e.Len - 1
		if e.Len < 11 {
			early++
		}
		for s := range e.Len {
			done := s == last
			if col["steps"][s] != float64(s) || col["step_idx"][s] != float64(s) || col["ep_idx"][s] != float64(i) {
				t.Errorf("episode %d row %d: steps %v, step_idx %v, ep_idx %v", i, s, col["steps"][s], col["step_idx"][s], col["ep_idx"][s])
			}
			if math.IsNaN(col["action"][2*s]) != done {
				t.Errorf("episode %d row %d of %d: action %v", i, s, e.Len, col["action"][2*s])
			}
			if !done && col["place"][2*s]+col["action"][2*s] != col["place"][2*s+2] {
				t.Errorf("episode %d: action of row %d is not the one that leaves it", i, s)
			}
			if (s == 0) != math.IsNaN(col["reward"][s]) || s > 0 && col["reward"][s] != col["place"][2*s] {
				t.Errorf("episode %d row %d: reward %v", i, s, col["reward"][s])
			}
			if won := col["place"][2*s] > 2; s > 0 && (col["terminated"][s] != flag(won) || col["truncated"][s] != flag(done && !won)) {
				t.Errorf("episode %d row %d: terminated %v, truncated %v", i, s, col["terminated"][s], col["truncated"][s])
			}
		}
	}
	if early == 0 || early == len(f.Episodes()) {
		t.Errorf("%d of %d episodes end early: both kinds are needed", early, len(f.Episodes()))
	}
	if rep, err := dataset.Check(context.Background(), f, nil); err != nil || !rep.OK() {
		t.Errorf("%v %v", rep, err)
	}
	if v, _ := f.Attr("floor"); v != "dry" {
		t.Errorf("switch floor is %q", v)
	}
}

func TestSameBytesForAnyWorkers(t *testing.T) {
	dir := t.TempDir()
	one, four := filepath.Join(dir, "1.h5"), filepath.Join(dir, "4.h5")
	mustRun(t, one, testSpec, 1)
	mustRun(t, four, testSpec, 4)
	if !bytes.Equal(read(t, one), read(t, four)) {
		t.Error("the bytes depend on the number of workers")
	}
	for name, change := range map[string]func(*Spec){
		"seed": func(s *Spec) { s.Seed++ }, "switch": func(s *Spec) { s.Switches = envs.Options{"floor": "wet"} },
	} {
		s := testSpec
		change(&s)
		other := filepath.Join(dir, name)
		mustRun(t, other, s, 2)
		if bytes.Equal(read(t, one), read(t, other)) {
			t.Errorf("another %s gives the same bytes", name)
		}
	}
}

// An interrupted run leaves finished parts. The next one records only the others and
// produces the bytes of an uninterrupted run. Torn parts are recorded again.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	whole, out := filepath.Join(dir, "whole.h5"), filepath.Join(dir, "d.h5")
	full := mustRun(t, whole, testSpec, 2)
	j := mustPrepare(t, out, testSpec)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := j.Run(ctx, 1, func(done, total int64, _ string) {
		if done == 10 {
			cancel()
		}
	})
	if err == nil || ctx.Err() == nil {
		t.Fatalf("the run was not stopped: %v", err)
	}
	j.Close()
	if _, err := os.Stat(out); err == nil {
		t.Fatal("the stopped run left a file under the final name")
	}
	parts, _ := filepath.Glob(out + ".parts/*.part")
	if len(parts) != 3 {
		t.Fatalf("%d parts of 3 episodes after 10 episodes", len(parts))
	}
	b := read(t, parts[0])
	b[len(b)/2] ^= 1
	if err := os.WriteFile(parts[0], b, 0o666); err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, out, testSpec, 3)
	if r.NewRows >= full.NewRows || r.NewRows == 0 {
		t.Errorf("the second run simulated %d of %d rows", r.NewRows, full.NewRows)
	}
	if !bytes.Equal(read(t, whole), read(t, out)) {
		t.Error("a stopped run ends with other bytes")
	}
	if left, _ := filepath.Glob(out + ".*"); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// A dangling link is left alone, because where the file should be is unknown.
func TestDanglingLink(t *testing.T) {
	out := filepath.Join(t.TempDir(), "d.h5")
	if err := os.Symlink("gone.h5", out); err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(t.Context(), out, testSpec); err == nil || !strings.Contains(err.Error(), "a link to gone.h5, which does not exist (hint: ") {
		t.Error(err)
	}
	if left, _ := filepath.Glob(out + ".*"); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// TestKilled is the same test with SIGKILL, at random moments of a separate process,
// assembly included, that has goroutines or processes at work. Each kill comes later
// than the one before, so that the test ends.
func TestKilled(t *testing.T) {
	for _, s := range []Spec{testSpec, drawnTest} {
		t.Run(s.Task, func(t *testing.T) { killed(t, s) })
	}
}

func killed(t *testing.T, s Spec) {
	if out := os.Getenv("COLLECT_TEST_OUT"); out != "" {
		after, err := time.ParseDuration(os.Getenv("COLLECT_TEST_KILL"))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(after, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		mustRun(t, out, s, 2)
		return
	}
	dir := t.TempDir()
	whole, out := filepath.Join(dir, "whole.h5"), filepath.Join(dir, "d.h5")
	mustRun(t, whole, s, 2)
	kills := 0
	for try := 0; ; try++ {
		child := exec.Command(os.Args[0], "-test.run=TestKilled/"+s.Task)
		wait := time.Duration(try*try+rand.IntN(40*(try+1))) * time.Millisecond
		child.Env = append(os.Environ(), "COLLECT_TEST_OUT="+out, "COLLECT_TEST_KILL="+wait.String())
		msg, err := child.CombinedOutput()
		if err == nil {
			break
		}
		if child.ProcessState.ExitCode() != -1 {
			t.Fatalf("%v: %s", err, msg)
		}
		kills++
	}
	if !bytes.Equal(read(t, whole), read(t, out)) {
		t.Errorf("after %d kills the bytes differ", kills)
	}
	if left, _ := filepath.Glob(out + ".*"); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "d.h5")
	mustRun(t, out, testSpec, 2)
	before := read(t, out)
	if j := mustPrepare(t, out, testSpec); !j.Done {
		t.Error("a finished file is not recognised")
	}
	if r := mustRun(t, out, testSpec, 1); r.NewRows != 0 || r.Episodes != 20 {
		t.Errorf("a finished file was made again: %+v", r)
	}
	for _, c := range []struct {
		out    string
		change func(*Spec)
		want   string
	}{
		{out, func(s *Spec) { s.Episodes = 21 }, "another data set"},
		{out, func(s *Spec) { s.Switches = envs.Options{"floor": "wet"} }, "another data set"},
		{filepath.Join(dir, "x.h5"), func(s *Spec) { s.Task = "chess" }, `"chess"`},
		{filepath.Join(dir, "x.h5"), func(s *Spec) { s.Policy = "sleep" }, `"sleep"`},
		{filepath.Join(dir, "x.h5"), func(s *Spec) { s.Episodes = 0 }, "0 episodes"},
		{filepath.Join(dir, "x.h5"), func(s *Spec) { s.Switches = envs.Options{"floor": "icy"} }, "icy"},
		{filepath.Join(dir, "x.h5"), func(s *Spec) { s.Episodes = 1 << 40 }, "hint"},
		{"/proc/nowhere/x.h5", func(s *Spec) {}, "/proc/nowhere"},
	} {
		s := testSpec
		c.change(&s)
		_, err := prepare(context.Background(), c.out, s, cell.Shard{}, testPart)
		refused(t, c.want, err, c.want)
	}
	if !bytes.Equal(before, read(t, out)) {
		t.Error("a refused run changed the file")
	}
	busy := mustPrepare(t, filepath.Join(dir, "busy.h5"), testSpec)
	_, err := prepare(context.Background(), busy.Out, testSpec, cell.Shard{}, testPart)
	refused(t, "two runs", err, "another run", "busy.h5")
}

func TestPolicyOfNaN(t *testing.T) {
	out := filepath.Join(t.TempDir(), "d.h5")
	s := testSpec
	s.Policy = "broken"
	_, err := prepare(context.Background(), out, s, cell.Shard{}, testPart)
	refused(t, "NaN", err, "episode 0, step 4", "NaN", "d.h5")
	if _, err := os.Stat(out); err == nil {
		t.Error("a file under the final name")
	}
}

// A context that ends while the first rows are measured ends Prepare, which leaves
// the output unlocked.
func TestPrepareInterrupted(t *testing.T) {
	out := filepath.Join(t.TempDir(), "d.h5")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := prepare(ctx, out, testSpec, cell.Shard{}, testPart); !errors.Is(err, context.Canceled) {
		t.Errorf("prepared after a cancel: %v", err)
	}
	mustRun(t, out, testSpec, 1)
}

// An episode whose simulation diverges ends with the row before, which has no action.
// The other episodes are collected.
func TestDivergedEpisodes(t *testing.T) {
	out := filepath.Join(t.TempDir(), "d.h5")
	s := testSpec
	s.Policy = "wild"
	mustRun(t, out, s, 2)
	f, err := hdf5.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, e := range f.Episodes() {
		truncated, err := f.Read("truncated", e.Offset, e.Offset+e.Len)
		if err != nil {
			t.Fatal(err)
		}
		action, err := f.Read("action", e.Offset, e.Offset+e.Len)
		if err != nil {
			t.Fatal(err)
		}
		if e.Len != 4 || truncated[2] != 0 || truncated[3] != 1 || math.IsNaN(action[5]) || !math.IsNaN(action[6]) {
			t.Errorf("episode %d: %d rows, truncated %v, actions %v", i, e.Len, truncated, action)
		}
	}
}

// Jobs with shares of a data set may run at the same time, but not together with a
// job that assembles it. The file is the same for any parts that they leave
// unfinished.
func TestShares(t *testing.T) {
	whole, out := filepath.Join(t.TempDir(), "d.h5"), filepath.Join(t.TempDir(), "d.h5")
	mustRun(t, whole, testSpec, 2)
	var jobs []*Job
	// Two of three shares.
	for i := range 2 {
		j, err := prepare(t.Context(), out, testSpec, cell.Shard{I: i, N: 3}, testPart)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		jobs = append(jobs, j)
	}
	_, err := prepare(t.Context(), out, testSpec, cell.Shard{}, testPart)
	refused(t, "the whole beside shares", err, "another run", "d.h5")
	rows := 0
	for _, j := range jobs {
		r, err := j.Run(t.Context(), 2, nil)
		if err != nil || r.NewRows == 0 || r.Episodes != 0 {
			t.Fatalf("a share: %+v, %v", r, err)
		}
		rows += r.NewRows
	}
	if _, err := os.Stat(out); err == nil {
		t.Fatal("a share put the file together")
	}
	r := mustRun(t, out, testSpec, 2)
	if rows+r.NewRows != r.Rows {
		t.Errorf("%d rows were made by shares and %d by the whole, of %d", rows, r.NewRows, r.Rows)
	}
	if !bytes.Equal(read(t, out), read(t, whole)) {
		t.Error("the file is another one")
	}
}
