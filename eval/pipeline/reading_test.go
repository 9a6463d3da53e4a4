package pipeline

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"scalewm/envs"
	"scalewm/model"
	"scalewm/model/train"
)

// A preset file has the values of the one that it starts from except for its own keys,
// and its config.toml has all values and needs no other file.
func TestPresetOfAnother(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("base.toml", "of = \"nano\"\n[train]\nlr = 0.25\nbatch = 3\n[eval]\ntiers = [\"T5\"]\n")
	mine := write("sub/mine.toml", "of = \"../base.toml\"\n[train]\nbatch = 5\n[train.weights]\nsigreg = 0.5\n[collect.at_most]\ncube = 7\n")
	got, err := LoadPreset(mine, "train.clip=2")
	if err != nil {
		t.Fatal(err)
	}
	want, err := LoadPreset("nano", "train.lr=0.25", "train.batch=5", `eval.tiers=["T5"]`, "train.weights.sigreg=0.5", "collect.at_most.cube=7", "train.clip=2")
	if err != nil {
		t.Fatal(err)
	}
	want.Name = "mine"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := got.WriteTo(filepath.Join(dir, "run")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "base.toml")); err != nil {
		t.Fatal(err)
	}
	back, err := LoadPreset(filepath.Join(dir, "run", "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	want.Name = "config"
	if d := cmp.Diff(want, back); d != "" {
		t.Error(d)
	}
	for text, says := range map[string]string{
		`of = "nanno"`:                          `did you mean "nano"?`,
		`of = "gone.toml"`:                      "gone.toml",
		`of = "loop.toml"`:                      "starts from more than 8 others",
		`of = 3`:                                "incompatible types",
		"of = \"nano\"\n[train]\nlrr = 3":       `did you mean "train.lr"?`,
		"of = \"nano\"\n[train]\nlr = -3":       "lr is -3",
		"[train]\nof = \"nano\"":                `unknown key "train.of"`,
		"of = \"nano\"\nreading = \"neither\"":  `reading is "neither" (hint: authors or paper)`,
		nanoText(t) + "\n[x]\nof = \"nano\"\n":  "unknown key",
		"reading = \"paper\"\n" + nanoText(t):   "both reading and train.aux_loss are given",
		"of = \"nano\"\n" + nanoText(t) + "\n[": "line ",
	} {
		if _, err := LoadPreset(write("loop.toml", text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, want an error that says %s", text, err, says)
		}
	}
}

// tree returns all keys of a preset with their values, as its config.toml has them.
func tree(t *testing.T, p *Preset) map[string]string {
	t.Helper()
	text, err := p.encode()
	if err != nil {
		t.Fatal(err)
	}
	var tables map[string]any
	if _, err := toml.Decode(text, &tables); err != nil {
		t.Fatal(err)
	}
	flat := map[string]string{}
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		if table, ok := v.(map[string]any); ok {
			for k, v := range table {
				walk(strings.TrimPrefix(prefix+"."+k, "."), v)
			}
			return
		}
		flat[prefix] = fmt.Sprint(v)
	}
	walk("", tables)
	return flat
}

// printed differs from paper in the switches and in tier T2 only, and the other
// reading leads back to paper.
func TestPrintedIsPaperButForTheSwitches(t *testing.T) {
	load := func(name string, changes ...string) map[string]string {
		t.Helper()
		p, err := LoadPreset(name, changes...)
		if err != nil {
			t.Fatal(err)
		}
		return tree(t, p)
	}
	paper, printed := load("paper"), load("printed")
	got := map[string][2]string{}
	for key := range maps.Keys(printed) {
		if paper[key] != printed[key] {
			got[key] = [2]string{paper[key], printed[key]}
		}
	}
	want := map[string][2]string{
		"train.correlation": {"authors", "paper"}, "train.aux_loss": {"authors", "paper"}, "eval.tiers": {"[T1 T2 T3 T4 T5]", "[T1 T2p T3 T4 T5]"},
		"model.linear_projector": {"", "true"}, "train.adam": {"", "true"}, "train.distinct_pairs": {"", "true"}, "train.pooled_sigreg": {"", "true"},
		"train.prediction_sum": {"", "true"}, "train.q_by_task.reacher": {"", "half"}, "train.q_by_task.cube": {"", "half"},
	}
	if d := cmp.Diff(want, got); d != "" || len(paper) > len(printed) {
		t.Error(d, slices.Sorted(maps.Keys(paper)))
	}
	if d := cmp.Diff(paper, load("printed", "reading=authors")); d != "" {
		t.Error(d)
	}
	// A change after the reading is one switch alone.
	delete(printed, "train.adam")
	if d := cmp.Diff(printed, load("paper", "reading=paper", "train.adam=false")); d != "" {
		t.Error(d)
	}
}

// The states q of the trainings have the numbers that the paper prints, by task
// (docs/sources.md#task-state-q).
func TestPrintedStates(t *testing.T) {
	p, err := LoadPreset("printed")
	if err != nil {
		t.Fatal(err)
	}
	for task, want := range map[string]int{"pusht": 6, "reacher": 2, "cube": 5, "tworoom": 2, "pointmaze": 2} {
		a := arm{task: lookUp(t, envs.Lookup, task)[0], method: model.MethodOf("scale")}
		o, err := Training{Preset: a.preset(*p), Task: a.task, Method: a.method}.Options(nil, train.Options{}, 0)
		if err != nil || len(o.Task.Q.Parts) != want {
			t.Errorf("%s: %d numbers, want %d: %v", task, len(o.Task.Q.Parts), want, err)
		}
	}
	// A state chosen for an arm replaces the one of its task.
	a := arm{task: lookUp(t, envs.Lookup, "cube")[0], variant: variant{q: "native"}}
	if q := a.preset(*p).Train; q.Q != "native" || q.QByTask != nil || p.Train.QByTask["cube"] != "half" {
		t.Errorf("%+v", q)
	}
}

// The table of docs/protocol.md names exactly the keys that a reading sets in its rows with
// an R, and no key that presets do not have.
func TestSwitchesInTheTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Paper, code and this program")
	known := presetKeys()
	var named []string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 5 {
			continue
		}
		for i, m := range regexp.MustCompile("`((?:model|train|eval|collect)\\.[a-z_.]+)`").FindAllStringSubmatch(cells[4], -1) {
			if !slices.Contains(known, m[1]) {
				t.Errorf("no preset has the key %s", m[1])
			}
			if i == 0 && strings.HasPrefix(cells[4], "**R** ") {
				named = append(named, m[1])
			}
		}
	}
	slices.Sort(named)
	if d := cmp.Diff(slices.Sorted(maps.Keys(switches)), slices.DeleteFunc(named, func(key string) bool { return key == "eval.tiers" })); d != "" {
		t.Error(d)
	}
	p, err := LoadPreset("nano")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.change("train.adamm=true"); err == nil || !strings.Contains(err.Error(), `did you mean "train.adam"?`) {
		t.Error(err)
	}
}

// The paper's text describes LeWM's training: that of DINO-WM keeps its schedule and loss.
func TestReadingLeavesDinoWM(t *testing.T) {
	p, err := LoadPreset("printed")
	if err != nil {
		t.Fatal(err)
	}
	for method, adam := range map[string]bool{"lewm": true, "dinowm-random": false} {
		r, err := p.recipe(model.MethodOf(method), 2, nil)
		if err != nil || r.Train.Adam != adam || r.Train.PredictionSum != adam {
			t.Errorf("%s: %+v, %v", method, r.Train, err)
		}
	}
}
