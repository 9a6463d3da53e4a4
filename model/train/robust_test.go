package train

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/tensorfile"
	"scalewm/envs"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/ref"
	"scalewm/model/lewm"
	"scalewm/model/train/metrics"
	"scalewm/model/weights"
)

// longer returns options of a training with more resume points than are retained.
func longer(t *testing.T, method string) Options {
	o := options(t, method)
	o.Config.Steps, o.Config.EvalEvery = 17, 5
	return o
}

// folder returns all files of a run except for run.json, which contains times.
func folder(t *testing.T, out string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string][]byte{}
	for _, e := range entries {
		if e.Name() == "run.json" {
			continue
		}
		if m[e.Name()], err = os.ReadFile(filepath.Join(out, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func sameFolder(t *testing.T, what string, got, want map[string][]byte) {
	t.Helper()
	for name, b := range want {
		if !bytes.Equal(got[name], b) {
			t.Errorf("%s: %s differs, or is missing", what, name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is left over", what, name)
		}
	}
}

// helperVariable is the environment variable that makes the test binary run a
// training, which prints each step and can be killed.
const helperVariable = "SCALEWM_TEST_TRAIN"

func TestHelperTrain(t *testing.T) {
	out := os.Getenv(helperVariable)
	if out == "" {
		t.Skip("only as a process of TestKill")
	}
	o := longer(t, "aux")
	o.Out, o.KeepEvery = out, 4
	o.Progress = func(done, _ int64, _ string) { fmt.Printf("step %d\n", done) }
	mustRun(t, o)
	fmt.Println("done")
}

// A training that is killed with SIGKILL repeatedly, after random numbers of steps,
// ends with the bytes of an uninterrupted one and leaves no other file.
func TestKill(t *testing.T) {
	whole := longer(t, "aux")
	whole.KeepEvery = 4
	mustRun(t, whole)
	want := folder(t, whole.Out)
	out, r := filepath.Join(t.TempDir(), "run"), rand.New(rand.NewPCG(6, uint64(os.Getpid())))
	kills := 0
	for range 100 {
		if trainUntil(t, out, 1+r.IntN(6)) {
			t.Logf("%d kills", kills)
			sameFolder(t, fmt.Sprintf("after %d kills", kills), folder(t, out), want)
			return
		}
		kills++
	}
	t.Fatal("a hundred kills did not let the training end")
}

// trainUntil runs the training in a process that is killed after the given number of
// its steps, and reports whether it finished.
func trainUntil(t *testing.T, out string, steps int) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestHelperTrain$")
	cmd.Env = append(os.Environ(), helperVariable+"="+out)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	finished := false
	for s := bufio.NewScanner(pipe); s.Scan(); {
		switch line := s.Text(); {
		case line == "done":
			finished = true
		case strings.HasPrefix(line, "step "):
			if steps--; steps == 0 {
				_ = cmd.Process.Kill()
			}
		}
	}
	_, _ = io.Copy(io.Discard, pipe)
	if err := cmd.Wait(); finished && err != nil && !strings.Contains(err.Error(), "killed") {
		t.Fatal(err)
	}
	return finished
}

// If a file of a finished run is damaged, Run reports it and trains again, with the
// same bytes. Files that a finished run does not need may be deleted.
func TestDamageIsRepaired(t *testing.T) {
	o := longer(t, "aux")
	mustRun(t, o)
	want := folder(t, o.Out)
	var told []string
	o.Note = func(text string) { told = append(told, text) }
	tear := func(path string) error { return os.Truncate(path, int64(len(want[filepath.Base(path)])/2)) }
	flip := func(path string) error {
		b := slices.Clone(want[filepath.Base(path)])
		b[len(b)/2] ^= 1
		return os.WriteFile(path, b, 0o666)
	}
	for name, spoil := range map[string]func(string) error{weights.FileName: tear, weights.SidecarName: tear, metrics.FileName: os.Remove,
		bestName: flip, weights.SidecarOf(bestName): os.Remove} {
		if err := spoil(filepath.Join(o.Out, name)); err != nil {
			t.Fatal(err)
		}
		if damaged, err := Damaged(o.Out); damaged != name {
			t.Errorf("%s is damaged, not %q (%v)", name, damaged, err)
		}
		told = nil
		if r := mustRun(t, o); r.Skipped || len(told) != 1 || !strings.Contains(told[0], name) {
			t.Errorf("%s: told %q", name, told)
		}
		sameFolder(t, "after damage to "+name, folder(t, o.Out), want)
	}
	if err := os.Remove(filepath.Join(o.Out, stepName(15))); err != nil {
		t.Fatal(err)
	}
	if r := mustRun(t, o); !r.Skipped {
		t.Error("trained again for the weights of a resume point")
	}
}

// If a resume point, or its metrics or best weights, are damaged, Run reports it and
// restarts from the beginning, with the same bytes at the end.
func TestDamagedResumePoint(t *testing.T) {
	whole := longer(t, "lewm")
	mustRun(t, whole)
	want := folder(t, whole.Out)
	for _, name := range []string{resumeName, metrics.FileName, bestName} {
		o := longer(t, "lewm")
		ctx, cancel := context.WithCancel(context.Background())
		o.Progress = func(done, _ int64, _ string) {
			if done == 8 {
				cancel()
			}
		}
		if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(o.Out, name), 50); err != nil {
			t.Fatal(err)
		}
		var told []string
		o.Progress, o.Note = nil, func(text string) { told = append(told, text) }
		mustRun(t, o)
		if len(told) != 1 || !strings.Contains(told[0], "training from the start") {
			t.Errorf("%s: told %q", name, told)
		}
		sameFolder(t, "after a torn "+name, folder(t, o.Out), want)
	}
}

// An interrupted validation is repeated before the next step.
func TestInterruptedValidation(t *testing.T) {
	whole := longer(t, "lewm")
	mustRun(t, whole)
	want := folder(t, whole.Out)
	o := longer(t, "lewm")
	ctx, cancel := context.WithCancel(context.Background())
	o.Dev = &stopping{ref.New(), cancel}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if rows, err := metrics.Read(o.Out); err != nil || slices.ContainsFunc(rows, func(r metrics.Row) bool { return r.Split == metrics.Val }) {
		t.Fatalf("the validation came to its end: %+v, %v", rows, err)
	}
	o.Dev = ref.New()
	mustRun(t, o)
	sameFolder(t, "after an interrupted validation", folder(t, o.Out), want)
}

// stopping is a device that cancels at the first mean squared error without a
// gradient, which only validations compute.
type stopping struct {
	device.Device
	cancel func()
}

func (d *stopping) MSE(loss, dpred, dtarget, pred, target device.Mat, weight float64) {
	d.Device.MSE(loss, dpred, dtarget, pred, target, weight)
	if !dpred.IsSet() {
		d.cancel()
	}
}

// The folder has the weights of the lowest validation loss and of the last three
// resume points. Each can be loaded, and its sidecar says which it is.
func TestKeptCheckpoints(t *testing.T) {
	o := longer(t, "lewm")
	mustRun(t, o)
	var have []string
	for name := range folder(t, o.Out) {
		have = append(have, name)
	}
	slices.Sort(have)
	want := []string{"best.json", "best.safetensors", "metrics.jsonl", "step-000009.json", "step-000009.safetensors", "step-000012.json",
		"step-000012.safetensors", "step-000015.json", "step-000015.safetensors", "weights.json", "weights.safetensors"}
	if !slices.Equal(have, want) {
		t.Errorf("files %v, want %v", have, want)
	}
	rows, err := metrics.Read(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	best := metrics.Row{Losses: metrics.Losses{Loss: math.Inf(1)}}
	for _, r := range rows {
		if r.Split == "val" && r.Loss < best.Loss {
			best = r
		}
	}
	for name, want := range map[string]weights.Sidecar{
		bestName: {Checkpoint: "best", Step: best.Step + 1, ValLoss: best.Loss}, stepName(12): {Checkpoint: "step", Step: 12},
		weights.FileName: {Checkpoint: "last", Step: 17},
	} {
		m, side, err := model.Load(ref.New(), filepath.Join(o.Out, name), "")
		if err != nil {
			t.Fatal(err)
		}
		m.Free()
		if side.Checkpoint != want.Checkpoint || side.Step != want.Step || side.ValLoss != want.ValLoss {
			t.Errorf("%s: %s of step %d, loss %g; want %s, %d, %g", name, side.Checkpoint, side.Step, side.ValLoss, want.Checkpoint, want.Step, want.ValLoss)
		}
	}
}

// Weights of every n steps stay next to those of the last three resume points, here of
// steps 9, 12 and 15 of 17, and no other file depends on n.
func TestKeepEvery(t *testing.T) {
	plain := longer(t, "lewm")
	mustRun(t, plain)
	for every, more := range map[int][]int{4: {4, 8, 16}, 6: {6}, 17: nil, 100: nil} {
		o := longer(t, "lewm")
		o.KeepEvery = every
		mustRun(t, o)
		got := folder(t, o.Out)
		for _, step := range more {
			path := filepath.Join(o.Out, stepName(step))
			if _, side, err := weights.Load(path); err != nil || side.Step != step || side.Checkpoint != "step" {
				t.Errorf("every %d: the weights of step %d: %v, %v", every, step, side, err)
			}
			delete(got, stepName(step))
			delete(got, weights.SidecarOf(stepName(step)))
		}
		sameFolder(t, fmt.Sprintf("weights of every %d steps", every), got, folder(t, plain.Out))
	}
	// They are the weights of that step: equal to those of a resume point there.
	o, points := longer(t, "lewm"), longer(t, "lewm")
	o.KeepEvery, points.Config.SaveEvery = 8, 4
	mustRun(t, o)
	mustRun(t, points)
	if name := stepName(8); !bytes.Equal(folder(t, o.Out)[name], folder(t, points.Out)[name]) {
		t.Errorf("%s differs from the weights of a resume point", name)
	}
	// A finished training cannot write them any more, and says so.
	var told []string
	plain.KeepEvery, plain.Note = 4, func(text string) { told = append(told, text) }
	if r := mustRun(t, plain); !r.Skipped || len(told) != 1 || !strings.Contains(told[0], stepName(4)+" is missing") {
		t.Errorf("told %q", told)
	}
}

// If a loss is not finite, the error names the term and the tensor, no checkpoint is
// written afterwards, and all earlier ones load.
func TestNotFiniteIsDiagnosed(t *testing.T) {
	o := longer(t, "lewm")
	steps := 0
	o.Dev = &poisoned{Device: ref.New(), steps: &steps, from: 8}
	_, err := Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "training step 7") || !strings.Contains(err.Error(), "first such gradient in the model's order: encoder.") {
		t.Fatalf("got %v", err)
	}
	if _, _, err := model.Load(ref.New(), filepath.Join(o.Out, stepName(6)), ""); err != nil {
		t.Error(err)
	}
	f, err := tensorfile.Open(filepath.Join(o.Out, resumeName))
	if err != nil || f.Meta["step"] != "6" {
		t.Errorf("resume point %v, %v", f, err)
	}
}

// poisoned is a device whose gradient of the mean squared error is NaN from some
// training step on. It counts steps by that kernel's calls with a gradient.
type poisoned struct {
	device.Device
	steps *int
	from  int
}

func (d *poisoned) MSE(loss, dpred, dtarget, pred, target device.Mat, weight float64) {
	d.Device.MSE(loss, dpred, dtarget, pred, target, weight)
	if !dpred.IsSet() {
		return
	}
	if *d.steps++; *d.steps == d.from {
		d.Fill(dpred, math.NaN())
	}
}

// For data that cannot be trained on, Run returns an error that names the problem,
// before the first step.
func TestHopelessData(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *Options)
		want   string
	}{
		"long clips":       {func(o *Options) { o.Model = tiny(func(c *lewm.Config) { c.FrameSkip = 7 }) }, "has the 28 rows of a clip"},
		"infinite actions": {func(o *Options) { o.Data.(*world).act[7] = math.Inf(1) }, "episode 0, step 3 (row 3): action[1] is +Inf"},
		"infinite last":    {func(o *Options) { o.Data.(*world).act[2*length-1] = math.Inf(-1) }, "action[1] is -Inf"},
		"missing actions":  {func(o *Options) { o.Data.(*world).nan = length + 2 }, "episode 1, step 2 (row 26): action[0] is NaN"},
		"other units": {func(o *Options) {
			o.Task.ActionLow, o.Task.ActionHigh = []float64{-1, -1}, []float64{1, 1}
			for i := range o.Data.(*world).act {
				o.Data.(*world).act[i] *= 100
			}
		}, "those of the task from -1 to 1"},
		"missing q": {func(o *Options) { o.Data.(*world).pos[2*length-1] = math.NaN() }, "episode 0, step 23 (row 23): y of q is NaN"},
		"constant q": {func(o *Options) {
			o.Task.Q.Of = func(_ envs.Row, dst []float64) { dst[0], dst[1] = 3, 4 }
		}, "same in all rows"},
	} {
		o := options(t, "scale")
		c.change(&o)
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Unusual data that is accepted: a component of q or of the actions that never varies
// counts as its mean, and a batch from a single episode has only pairs within clips.
func TestGuards(t *testing.T) {
	for name, change := range map[string]func(o *Options, w *world){
		"one entry of q": func(o *Options, _ *world) {
			o.Task.Q.Of = func(row envs.Row, dst []float64) { dst[0], dst[1] = row["pos"][0], 7 }
		},
		"one action": func(_ *Options, w *world) {
			for i := 1; i < len(w.act); i += 2 {
				w.act[i] = 0.5
			}
		},
		"one episode": func(_ *Options, w *world) { w.episodes, w.nan = []dataset.Episode{{Len: episodes * length}}, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, "scale")
			change(&o, o.Data.(*world))
			mustRun(t, o)
			rows, err := metrics.Read(o.Out)
			if err != nil || rows[len(rows)-1].Obj <= 0 || rows[len(rows)-1].Skipped != 0 {
				t.Errorf("%+v, %v", rows, err)
			}
		})
	}
}
