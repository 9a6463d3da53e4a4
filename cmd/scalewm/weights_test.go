package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"scalewm/dataset/safefile"
	"scalewm/model/lewm"
)

// published is a checkpoint written by PyTorch, with the tensor names of transformers 5,
// inside a trainer's dict (model/lewm/testdata/lewm_paper.py), with action blocks of 25
// numbers.
const published = "../../model/lewm/testdata/reference/lewm_paper_five"

// trained is a checkpoint of Lightning with a moving average (model/lewm/testdata/trainer.py),
// with action blocks of 10 numbers, as Two-Room has them.
const trained = "../../model/lewm/testdata/trainer"

// notes matches the lines of noteWeights.
var notes = regexp.MustCompile("(?m)^note: .*\n")

// withoutNotes returns what a command printed on stderr other than notes of a checkpoint.
func withoutNotes(errs string) string { return notes.ReplaceAllString(errs, "") }

// weightsSession runs `weights ARGS --json`.
func weightsSession(t *testing.T, args ...string) weightsInfo {
	t.Helper()
	out, errs, code := session(append([]string{"weights", "--json"}, args...)...)
	var i weightsInfo
	if err := json.Unmarshal([]byte(out), &i); code != exitDone || err != nil {
		t.Fatalf("%v: exit %d, %v: %s%s", args, code, err, out, errs)
	}
	return i
}

// geometryOf returns the geometry of a model of the LeWM family.
func geometryOf(t *testing.T, i weightsInfo) (c lewm.Config) {
	t.Helper()
	if err := json.Unmarshal(i.Config, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Converting a published checkpoint to our format and back preserves its tensors.
func TestWeightsThereAndBack(t *testing.T) {
	dir := t.TempDir()
	ours, pt, four := filepath.Join(dir, "ours"), filepath.Join(dir, "pt"), filepath.Join(dir, "four", "epoch.pt")
	want := weightsSession(t, "info", published)
	if want.Task != "" || want.Method != "lewm" || geometryOf(t, want).ActionWidth() != 25 || want.DTypes["I64"] != 2 {
		t.Errorf("published: %+v", want)
	}
	got := weightsSession(t, "convert", published, ours, "--method", "scale")
	if got.Method != "scale" || got.Task != "" || got.File != filepath.Join(ours, "weights.safetensors") {
		t.Errorf("ours: %+v", got)
	}
	for _, c := range [][]string{{ours, pt}, {pt, four, "--transformers", "4"}} {
		got = weightsSession(t, append([]string{"convert"}, c...)...)
		if got.Method != "scale" || geometryOf(t, got) != geometryOf(t, want) || !cmp.Equal(got.Tensors, want.Tensors) || got.Values != want.Values {
			t.Errorf("%v: %+v", c, got)
		}
	}
	again := weightsSession(t, "convert", four, filepath.Join(dir, "again.safetensors"))
	if first := weightsSession(t, "info", ours); first.SHA256 != again.SHA256 {
		t.Error("the tensors changed on the way")
	}
	text, _, code := session("weights", "info", pt)
	if code != exitDone || !strings.Contains(text, "20 px, patch 4, 2 layers of 20, 4 heads") {
		t.Errorf("info: %s", text)
	}
	text, _, code = session("weights", "convert", ours, filepath.Join(dir, "text.pt"))
	if code != exitDone || !strings.Contains(text, "names      of transformers 5") {
		t.Errorf("convert: %s", text)
	}
}

func TestWeightsRefusals(t *testing.T) {
	dir := t.TempDir()
	weightsSession(t, "convert", published, dir)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown action":    {[]string{"show", published}, exitUsage, "unknown action"},
		"info of two":       {[]string{"info", published, dir}, exitUsage, "unexpected argument"},
		"convert of one":    {[]string{"convert", published}, exitUsage, "needs IN OUT"},
		"no such method":    {[]string{"convert", published, dir + "/x", "--method", "best"}, exitUsage, "best"},
		"no such task":      {[]string{"convert", published, dir + "/x", "--task", "chess"}, exitUsage, "chess"},
		"another task":      {[]string{"convert", published, dir + "/x", "--task", "tworoom"}, exitFailed, "(hint: "},
		"transformers 6":    {[]string{"convert", published, dir + "/x.safetensors", "--transformers", "6"}, exitUsage, "4 or 5"},
		"transformers 3":    {[]string{"convert", published, dir + "/x.pt", "--transformers", "3"}, exitUsage, "4 or 5"},
		"already exists":    {[]string{"convert", published, dir}, exitFailed, "already exists"},
		"nothing there":     {[]string{"info", dir + "/none"}, exitFailed, "(hint: "},
		"not a checkpoint":  {[]string{"info", "weights_test.go"}, exitFailed, "(hint: "},
		"a whole module":    {[]string{"info", "../../dataset/tensorfile/testdata/module.pt"}, exitFailed, `(hint: in Python, m = torch.load(p, weights_only=False); torch.save(m.state_dict(), "weights.pt"))`},
		"no config.json":    {[]string{"info", "../../dataset/tensorfile/testdata/plain.pt"}, exitFailed, "neither a sidecar plain.json of scalewm nor a config.json"},
		"two models":        {[]string{"convert", trained, dir + "/x"}, exitFailed, "--key NAME: state_dict, ema.weights"},
		"key of our own":    {[]string{"info", dir, "--key", "model"}, exitFailed, "leave --key out"},
		"nothing was said":  {nil, exitUsage, "weights needs"},
		"a flag of its own": {[]string{"info", published, "--precision", "fp32"}, exitUsage, "precision"},
	} {
		_, errs, code := session(append([]string{"weights"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, want %d and %q in one line", name, code, errs, c.code, c.want)
		}
	}
	if left, _ := filepath.Glob(dir + "/x*"); len(left) > 0 {
		t.Errorf("refusals left %v", left)
	}
}

// A failed conversion leaves no file that would make the same command fail.
func TestWeightsConvertAgain(t *testing.T) {
	for _, in := range []string{published, t.TempDir()} {
		out := filepath.Join(t.TempDir(), "pt")
		ending := "weights.safetensors"
		if in != published {
			weightsSession(t, "convert", published, in)
			ending = "weights.pt"
		}
		blocked := safefile.Aside(filepath.Join(out, ending)) // a folder, as little writable as a full disk
		if err := os.MkdirAll(blocked, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, errs, code := session("weights", "convert", in, out); code != exitFailed || strings.Contains(errs, "already exists") {
			t.Errorf("exit %d: %s", code, errs)
		}
		if err := os.Remove(blocked); err != nil {
			t.Fatal(err)
		}
		weightsSession(t, "convert", in, out)
	}
}

// A conversion into the folder of its input is an error and changes nothing.
func TestWeightsConvertIntoItself(t *testing.T) {
	in := t.TempDir()
	if err := os.CopyFS(in, os.DirFS(published)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(in)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(in, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{in, in}, {in, in + "/"}, {in, link}, {link, in}, {in, in + "/x.safetensors"}, {filepath.Join(in, "weights.pt"), in}} {
		if _, errs, code := session("weights", "convert", c[0], c[1]); code != exitFailed || !strings.Contains(errs, "in the folder of the input (hint: ") {
			t.Errorf("%v: exit %d: %s", c, code, errs)
		}
	}
	if after, _ := os.ReadDir(in); len(after) != len(before) {
		t.Errorf("files %v became %v", before, after)
	}
}

// PyTorch's safe loader and stable-worldmodel's strict one read the converted files
// (testdata/load_strict.py), and encode with them as with the published checkpoint.
func TestPeersReadWeights(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if python == "" {
		t.Skip("peers: SCALEWM_PEERS names no Python with torch, transformers and stable-worldmodel")
	}
	dir := t.TempDir()
	weightsSession(t, "convert", published, dir+"/weights.pt")
	out, err := exec.Command(python, "testdata/load_strict.py", dir, published).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "equal") {
		t.Errorf("%v: %s", err, out)
	}
}

// Every verb that reads a checkpoint has --key, and says on stderr which model of a file was
// read, which was not, and which tensors were left out.
func TestNotesOfWeights(t *testing.T) {
	dir := t.TempDir()
	data, out, ours := filepath.Join(dir, "data.h5"), filepath.Join(dir, "out"), filepath.Join(dir, "ours")
	if _, errs, code := session("collect", "tworoom", "--episodes", "8", "--out", data); code != exitDone {
		t.Fatal(errs)
	}
	for _, args := range [][]string{
		{"weights", "info", trained},
		{"weights", "convert", trained, ours, "--task", "tworoom"},
		{"encode", "--weights", trained, "--data", data, "--out", filepath.Join(dir, "emb.h5")},
		{"rollout", "--weights", trained + "/last.ckpt", "--data", data, "--out", filepath.Join(dir, "pred.h5")},
		{"eval", "--weights", trained + "/last.ckpt", "--task", "tworoom", "--data", data, "--out", out, "--tier", "T5", "--sets", "s101", "--episodes", "2"},
		{"analyse", "cost", "--weights", trained, "--task", "tworoom", "--data", data, "--seconds", "1"},
		{"reproduce", "--weights", "lewm=" + trained, "--preset", "nano", "--tasks", "tworoom", "--methods", "lewm", "--data", "tworoom=" + data, "--out", filepath.Join(dir, "grid"),
			"--tiers", "T5", "--sets", "s101", "--episodes", "2", "--analyses", "none"},
	} {
		said, errs, code := session(args...)
		if !strings.Contains(said+errs, "--key NAME: state_dict, ema.weights") || code == exitDone {
			t.Errorf("%v: exit %d: %s%s", args, code, said, errs)
		}
		said, errs, code = session(append(args, "--key", "ema.weights")...)
		for _, want := range []string{"read ema.weights; not read: state_dict\n", "left out tensors that are not the model's: n_averaged (1)\n"} {
			if code != exitDone || strings.Count(errs, want) != 1 {
				t.Errorf("%v: exit %d: %q once in %s%s", args, code, want, said, errs)
			}
		}
	}
	// The notes stay with the converted checkpoint.
	for _, path := range []string{ours, filepath.Join(dir, "grid", "train", "tworoom-lewm-s3072")} {
		if i := weightsSession(t, "info", path); len(i.Notes) != 2 {
			t.Errorf("%s: %+v", path, i)
		}
	}
	// The two models of a file have different results.
	if _, errs, code := session("eval", "--weights", trained, "--key", "state_dict", "--task", "tworoom", "--data", data, "--out", out, "--tier", "T5", "--sets", "s101", "--episodes", "2"); code != exitDone || strings.Contains(errs, "reused") {
		t.Errorf("exit %d: %s", code, errs)
	}
	for _, args := range [][]string{{"eval", "--random", "--key", "x", "--task", "tworoom", "--data", data, "--out", out}, {"reproduce", "--key", "x", "--out", out}, {"analyse", "rank", out, "--key", "x"}} {
		if _, errs, code := session(args...); code != exitUsage || !strings.Contains(errs, "--key") || !strings.Contains(errs, "(hint: ") {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}
}

// A published model is read from a file in every form in which trainers save it
// (testdata/peers/checkpoints.py), with the numbers of the plain state dict.
func TestPeersCheckpoints(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if _, err := os.Stat(python); err != nil {
		t.Skip("peers: SCALEWM_PEERS names no Python with torch, pytorch_lightning and stable-worldmodel")
	}
	dir := t.TempDir()
	if out, err := exec.Command(python, "-B", "testdata/peers/checkpoints.py", dir, published).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var expected []struct {
		Folder, Want string
		Args, Say    []string
	}
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err == nil {
		err = json.Unmarshal(b, &expected)
	}
	if err != nil || len(expected) < 80 {
		t.Fatal(len(expected), err)
	}
	converted := 0
	hash := func(folder string, args ...string) (sum, said string, code int) {
		converted++
		out := filepath.Join(dir, "converted", strconv.Itoa(converted))
		text, errs, code := session(append([]string{"weights", "convert", filepath.Join(dir, folder), out, "--json"}, args...)...)
		var i weightsInfo
		if code == exitDone {
			if err := json.Unmarshal([]byte(text), &i); err != nil {
				t.Fatal(err)
			}
		}
		return i.SHA256, strings.ReplaceAll(errs, filepath.Join(dir, folder), ""), code
	}
	plain := map[string]string{}
	for _, e := range expected {
		if _, known := plain[e.Want]; e.Want != "" && !known {
			plain[e.Want], _, _ = hash(e.Want)
		}
		sum, said, code := hash(e.Folder, e.Args...)
		ok := sum == plain[e.Want] && code == exitDone
		if e.Want == "" {
			ok = code == exitFailed && strings.Count(said, "\n") == 1 && strings.Contains(said, "(hint: ")
		}
		if missing := slices.DeleteFunc(e.Say, func(word string) bool { return strings.Contains(said, word) }); !ok || len(missing) > 0 {
			t.Errorf("%s %v: exit %d, want %q, and %q in %s", e.Folder, e.Args, code, e.Want, missing, said)
		}
	}
	if plain["model"] == plain["ema"] {
		t.Error("the two models are equal")
	}
}
