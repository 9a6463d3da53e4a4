package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tinyPreset is nano cut down to a model that trains in a second.
func tinyPreset(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../eval/presets/nano.toml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for key, v := range map[string]int{"image_size": 32, "width": 12, "layers": 1, "mlp": 16, "dim": 8, "projector": 16, "predictor_depth": 1,
		"predictor_head_dim": 4, "predictor_mlp": 16, "batch": 8, "steps": 4, "directions": 8, "pairs": 64} {
		line := regexp.MustCompile(`(?m)^` + key + ` = .*$`)
		if !line.MatchString(text) {
			t.Fatalf("nano has no %s any more", key)
		}
		text = line.ReplaceAllString(text, fmt.Sprintf("%s = %d", key, v))
	}
	path := filepath.Join(t.TempDir(), "tiny.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTrain(t *testing.T) {
	dir := t.TempDir()
	data, preset := filepath.Join(dir, "d.h5"), tinyPreset(t)
	if _, errs, code := session("collect", "tworoom", "--episodes", "4", "--out", data); code != exitDone {
		t.Fatal(errs)
	}
	train := func(out string, more ...string) (string, string, int) {
		return session(append([]string{"train", "--task", "tworoom", "--data", data, "--preset", preset, "--out", filepath.Join(dir, out)}, more...)...)
	}
	losses := map[string]float64{}
	for _, method := range []string{"lewm", "scale", "aux", "untrained"} {
		out, errs, code := train(method, "--method", method, "--json")
		if code != exitDone {
			t.Fatalf("%s: exit %d, %s", method, code, errs)
		}
		var res struct {
			Steps   int
			Loss    float64
			Weights string
		}
		if err := json.Unmarshal([]byte(out), &res); err != nil || (res.Steps != 4) != (method == "untrained") {
			t.Errorf("%s: %s, %v", method, out, err)
		}
		losses[method] = res.Loss
		for _, f := range []string{"weights.safetensors", "weights.json", "config.toml"} {
			if _, err := os.Stat(filepath.Join(dir, method, f)); err != nil {
				t.Error(err)
			}
		}
	}
	for name, args := range map[string][]string{"reading": {"--reading", "paper"}, "half": {"--q", "half"}} { // Two-Room has the full q only
		_, errs, code := train(name, append(args, "--method", "aux")...)
		config, err := os.ReadFile(filepath.Join(dir, name, "config.toml"))
		switch name {
		case "reading":
			if code != exitDone || err != nil || !strings.Contains(string(config), `correlation = "paper"`) || !strings.Contains(string(config), `aux_loss = "paper"`) {
				t.Errorf("reading: exit %d, %s, %v", code, errs, err)
			}
		case "half":
			if code != exitUsage || !strings.Contains(errs, "no --q half") {
				t.Errorf("half: exit %d, %s", code, errs)
			}
		}
	}
	if out, _, code := train("lewm"); code != exitDone || !strings.Contains(out, fmt.Sprintf("(loss %.4f); nothing to do", losses["lewm"])) {
		t.Errorf("again: exit %d, %s", code, out)
	}
	wide := filepath.Join(dir, "wide.toml")
	text, err := os.ReadFile(preset)
	if err == nil {
		err = os.WriteFile(wide, []byte(strings.Replace(string(text), "batch = 8", "batch = 8000", 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"another training":  {[]string{"--seed", "7"}, exitUsage, "another --out"},
		"nothing to resume": {[]string{"--seed", "7", "--resume", "--out", filepath.Join(dir, "new")}, exitFailed, "no resume point"},
		"too few clips":     {[]string{"--preset", wide, "--out", filepath.Join(dir, "wide")}, exitFailed, "training clips"},
	} {
		if _, errs, code := train("lewm", c.args...); code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q", name, code, errs)
		}
	}
}

// TestTrainPolicy trains policies on the latents of other runs. Weights do not depend on
// a cache of the latents, and mistakes are reported before any work.
func TestTrainPolicy(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir := t.TempDir()
	data, other := filepath.Join(dir, "d.h5"), filepath.Join(dir, "other.h5")
	path := func(name string) string { return filepath.Join(dir, name) }
	must := func(args ...string) {
		t.Helper()
		if _, errs, code := session(args...); code != exitDone {
			t.Fatalf("%v: exit %d, %s", args, code, errs)
		}
	}
	train := func(out string, more ...string) []string {
		return append([]string{"train", "--task", "tworoom", "--data", data, "--preset", "testdata/tiny.toml", "--out", path(out)}, more...)
	}
	must("collect", "tworoom", "--episodes", "4", "--out", data)
	must("collect", "tworoom", "--episodes", "4", "--seed", "2", "--out", other)
	must(train("lewm")...)
	must(train("lewm-strict", "--protocol", "strict")...)
	must(train("lewm-other", "--protocol", "strict", "--data", other)...)
	must(train("untrained", "--method", "untrained", "--protocol", "strict")...)
	must(train("dinowm", "--method", "dinowm-random")...)
	lewm, idm := path("lewm"), path("gcidm")
	must("train", "--task", "tworoom", "--method", "gcidm", "--encoder", lewm, "--data", data, "--preset", "testdata/tiny.toml", "--out", idm)
	for name, more := range map[string][]string{
		"gcidm":           {"--method", "gcidm", "--encoder", lewm},
		"gcidm-strict":    {"--method", "gcidm", "--encoder", path("lewm-strict"), "--protocol", "strict"},
		"gcidm-untrained": {"--method", "gcidm", "--encoder", path("untrained")},
		"gcbc":            {"--method", "gcbc", "--encoder", path("lewm/weights.safetensors")},
		"gcbc-dinowm":     {"--method", "gcbc", "--encoder", path("dinowm")},
	} {
		must(train(name, more...)...)
		must(train(name+"-uncached", append(more, "--feature-cache", "off", "--workers", "1")...)...)
		for _, file := range []string{"weights.safetensors", "weights.json", "metrics.jsonl"} {
			cached, err := os.ReadFile(path(name + "/" + file))
			uncached, err2 := os.ReadFile(path(name + "-uncached/" + file))
			if err != nil || err2 != nil || string(cached) != string(uncached) {
				t.Errorf("%s: %s without a cache differs, %v, %v", name, file, err, err2)
			}
		}
	}
	if out, _, code := session(train("gcidm", "--method", "gcidm", "--encoder", lewm)...); code != exitDone || !strings.Contains(out, "nothing to do") {
		t.Errorf("again: exit %d, %s", code, out)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no encoder":          {train("x", "--method", "gcidm"), exitUsage, "policies (gcidm, gcbc) are trained on the latents of another run"},
		"an encoder for lewm": {train("x", "--encoder", lewm), exitUsage, "--encoder FOLDER names that run"},
		"a policy as encoder": {train("x", "--method", "gcbc", "--encoder", idm), exitUsage, "is itself a policy, gcidm (hint: "},
		"no such encoder":     {train("x", "--method", "gcbc", "--encoder", path("nowhere")), exitFailed, "nowhere"},
		"another task":        {train("x", "--method", "gcidm", "--encoder", lewm, "--task", "pointmaze"), exitUsage, "was trained on the task tworoom, not pointmaze (hint: "},
		"paper for strict":    {train("x", "--method", "gcidm", "--encoder", lewm, "--protocol", "strict"), exitUsage, "was trained with --protocol paper, but this training uses strict"},
		"strict for paper":    {train("x", "--method", "gcidm", "--encoder", path("lewm-strict")), exitUsage, "was trained with --protocol strict, but this training uses paper"},
		"another data set":    {train("x", "--method", "gcidm", "--encoder", path("lewm-other"), "--protocol", "strict"), exitUsage, "may have seen the episodes that strict holds out (hint: "},
		"another encoder":     {train("gcidm", "--method", "gcidm", "--encoder", path("untrained")), exitUsage, "holds a training with backbone "},
		"a task state":        {train("x", "--method", "gcidm", "--encoder", lewm, "--q", "full"), exitUsage, "--q has no effect with gcidm"},
		"a weight":            {train("x", "--method", "gcidm", "--encoder", lewm, "--scale-weight", "1"), exitUsage, "does not have scale's loss term"},
		"a backbone":          {train("x", "--method", "gcidm", "--encoder", lewm, "--backbone", path("b")), exitUsage, "none of the requested methods uses it"},
	} {
		_, errs, code := session(c.args...)
		if _, err := os.Stat(path("x")); code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 || err == nil {
			t.Errorf("%s: exit %d, %q, and a folder: %v", name, code, errs, err == nil)
		}
	}
}

func TestTrainUsage(t *testing.T) {
	base := []string{"train", "--task", "tworoom", "--data", "nowhere.h5", "--out", filepath.Join(t.TempDir(), "x")}
	own := slices.Concat([]string{"train", "--task", "none"}, base[3:])
	there := slices.Concat([]string{"train", "--task", "none", "--data", frames(t)}, base[5:])
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no task":                 {[]string{"train", "--data", "d.h5", "--out", "o"}, exitUsage, "--task"},
		"no data":                 {[]string{"train", "--task", "tworoom", "--out", "o"}, exitUsage, "--data"},
		"missing file":            {base, exitFailed, "nowhere.h5"},
		"task":                    {append(base[:1:1], "--task", "tworom", "--data", "d.h5", "--out", "o"), exitUsage, "tworoom"},
		"preset":                  {append(base, "--preset", "nanno"), exitUsage, `"nano"`},
		"reading":                 {append(base, "--method", "aux", "--reading", "both"), exitUsage, "authors or paper"},
		"no model":                {append(base, "--method", "random"), exitUsage, "no model to train"},
		"q of a task":             {append(base, "--q-columns", "state[0:2]"), exitUsage, "task tworoom has its own states (hint: "},
		"q of a preset of a task": {append(base, "--set", "train.q_columns=state"), exitUsage, "task tworoom has its own states (hint: "},
		"no q":                    {slices.Concat(own, []string{"--method", "scale"}), exitUsage, "as in --q-columns state[0:4]"},
		"no column":               {slices.Concat(own, []string{"--q-columns", "state[1:"}), exitUsage, "is not a column (hint: "},
		"unknown column":          {slices.Concat(there, []string{"--q-columns", "state,goal"}), exitUsage, "goal"},
		"no such number":          {slices.Concat(there, []string{"--q-columns", "action[7]"}), exitUsage, "action has the numbers 0 to 4 (hint: "},
	} {
		if _, errs, code := session(c.args...); code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q", name, code, errs)
		}
	}
}

func TestDeviceFlags(t *testing.T) {
	text := func(s string) *string { return &s }
	if !gpuBuild {
		if _, err := (deviceFlags{text("cuda"), text("auto"), io.Discard}).open(true); err == nil || !strings.Contains(err.Error(), "make cuda") {
			t.Errorf("cuda in a binary without it: %v", err)
		}
	}
	for _, p := range []string{"fp32", "bf16"} {
		d, err := deviceFlags{text("cpu"), text(p), io.Discard}.open(false)
		if err != nil || string(d.Kind().Precision) != p {
			t.Fatalf("%s: %v", p, err)
		}
		d.Close()
	}
}
