package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
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
		"a whole module":    {[]string{"info", "../../model/weights/testdata/module.pt"}, exitFailed, "config.json"},
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
