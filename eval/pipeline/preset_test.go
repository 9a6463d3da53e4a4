package pipeline

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"scalewm/dataset/safefile/fuzztest"
	"scalewm/eval/presets"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/lewm"
)

func TestPresetNames(t *testing.T) {
	if d := cmp.Diff([]string{"cube", "laptop", "manipulation", "nano", "paper", "paper-main", "printed", "small"}, PresetNames()); d != "" {
		t.Error(d)
	}
	for _, n := range PresetNames() {
		p, err := LoadPreset(n)
		if err != nil || p.Name != n {
			t.Errorf("%s: %v, %v", n, p, err)
		}
	}
}

// Sizes of the models: docs/sources.md#parameter-counts (paper; printed's without
// the hidden layers: docs/sources.md#projector; small 10.77 M, manipulation about 2.4 M,
// nano about 0.7 M), all with Two-Room's two actions.
func TestPresetSizes(t *testing.T) {
	for name, want := range map[string][2]float64{"nano": {0.7e6, 0.1e6}, "laptop": {0.7e6, 0.1e6}, "manipulation": {2.4e6, 0.1e6}, "cube": {2.4e6, 0.1e6}, "small": {10.77e6, 0.005e6}, "paper": {18034478, 0}, "printed": {16523822, 0}} {
		p, err := LoadPreset(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.recipe(model.MethodOf(model.Baseline), 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.Model.Declare()
		if err != nil {
			t.Fatal(err)
		}
		if n := float64(m.Params().Len()); math.Abs(n-want[0]) > want[1] {
			t.Errorf("%s has %.0f parameters, want %.0f", name, n, want[0])
		}
	}
}

// Episodes of the published data sets (docs/sources.md#data-sets).
func TestPaperEpisodes(t *testing.T) {
	p, err := LoadPreset("paper")
	if err != nil {
		t.Fatal(err)
	}
	for task, want := range map[string]int{"pusht": 18685, "pointmaze": 2000, "tworoom": 10000, "reacher": 10000, "cube": 10000} {
		if got := p.Collect.EpisodesOf(task); got != want {
			t.Errorf("%s: %d episodes, want %d", task, got, want)
		}
	}
	c := CollectPreset{Episodes: 10, EpisodesByTask: map[string]int{"cube": 20}, AtMost: map[string]int{"cube": 15, "pusht": 5}}
	for task, want := range map[string]int{"cube": 15, "pusht": 5, "reacher": 10} {
		if got := c.EpisodesOf(task); got != want {
			t.Errorf("%s: %d episodes, want %d", task, got, want)
		}
	}
}

// The published recipe: docs/sources.md#optimiser, docs/sources.md#scale, docs/sources.md#loss-weights.
func TestPaperRecipe(t *testing.T) {
	p, err := LoadPreset("paper")
	if err != nil {
		t.Fatal(err)
	}
	c := p.Train
	if c.Batch != 128 || c.Epochs != 10 || c.Steps != 0 || c.LR != 5e-5 || c.WeightDecay != 1e-3 || c.WarmUp != 0.01 || c.Clip != 1 ||
		c.Directions != 1024 || c.Pairs != 4096 || c.Correlation != "authors" {
		t.Errorf("%+v", c)
	}
	want := model.Weights{"prediction": {"others": 1}, "sigreg": {"others": 0.09},
		"correlation": {"pusht": 0.1, "reacher": 0.15, "cube": 0.1, "tworoom": 0.1, "pointmaze": 0.1, "others": 0.1},
		"regression":  {"pusht": 0.3, "reacher": 0.4, "cube": 0.1, "tworoom": 0.1, "pointmaze": 0.1, "others": 0.1}}
	if d := cmp.Diff(want, c.Weights); d != "" {
		t.Error(d)
	}
}

// builtIn reads the preset that another one starts from, if it is a built-in one.
func builtIn(of string) (*Preset, error) {
	if strings.HasSuffix(of, ".toml") {
		return nil, errors.New("only built-in presets here")
	}
	return readPreset(of, nil)
}

func nanoText(t *testing.T) string {
	t.Helper()
	b, err := presets.Files.ReadFile("nano.toml")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPresetRefuses(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"mistyped key":       {"weight_decay", "weight_decoy", `did you mean "train.weight_decay"?`},
		"unknown section":    {"[eval]", "[evel]", "unknown key"},
		"not TOML":           {"batch = 64", "batch = ", "line "},
		"wrong type":         {"batch = 64", `batch = "many"`, "batch"},
		"both lengths":       {"epochs = 0", "epochs = 3", "steps"},
		"patch":              {"patch = 16", "patch = 160", "is larger than image_size"},
		"left-over pixels":   {"patch = 16", "patch = 15", "patch 15 does not divide the frame's 64"},
		"form":               {`correlation = "authors"`, `correlation = "x"`, "authors or paper"},
		"no tiers":           {`tiers = ["T1", "T3", "T5"]`, "tiers = []", "must not be empty"},
		"no episodes":        {"[collect]\nepisodes = ", "[collect]\nepisodes = -", "at least 1"},
		"no room for logs":   {"log_every = 10", "log_every = 0", "log_every"},
		"NaN":                {"lr = 5e-4", "lr = nan", "lr is NaN"},
		"infinite":           {"weight_decay = 1e-3", "weight_decay = inf", "weight_decay is +Inf"},
		"NaN of a fraction":  {"warm_up = 0.1", "warm_up = nan", "warm_up is NaN"},
		"NaN of dropout":     {"dropout = 0.0", "dropout = nan", "dropout is NaN"},
		"NaN of a task":      {"correlation = { pusht = 0.1", "correlation = { pusht = nan", "weights.correlation of pusht is NaN"},
		"negative of a task": {"regression = { pusht = 0.3", "regression = { pusht = -0.3", "weights.regression of pusht is -0.3"},
		"weight as text":     {"sigreg = 0.03", `sigreg = "much"`, "the weight of sigreg on others is much"},
		"unknown term":       {"sigreg = 0.03", "sigreg = 0.03\nshrink = 1", `a term "shrink" that nothing computes`},
		"no other tasks":     {", others = 0.1 }", " }", "weights has no correlation, or none for other tasks"},
		"no term":            {"prediction = 1.0", "", "weights has no prediction"},
		"precision":          {`precision = "bf16"`, `precision = "fp64"`, `precision is "fp64"`},
		"old sigreg":         {"clip = 1.0", "clip = 1.0\nsigreg = 0.03", "the key train.sigreg is train.weights.sigreg"},
		"old scale_weight":   {"clip = 1.0", "clip = 1.0\nscale_weight = { cube = 0.1 }", "the key train.scale_weight is train.weights.correlation"},
		"old aux_weight":     {"clip = 1.0", "clip = 1.0\naux_weight = {}", "the key train.aux_weight is train.weights.regression"},
		"negative seed":      {"seed = 3072", "seed = -1", "seed is -1"},
		"negative bound":     {"at_most = { cube = 30", "at_most = { cube = -30", "cube is -30"},
		"huge batch":         {"batch = 64", "batch = 1000000000", "batch is 1000000000"},
		"huge pairs":         {"pairs = 4096", "pairs = 4000000000", "pairs 4000000000"},
		"negative steps":     {"steps = 2000\nepochs = 0", "steps = -5\nepochs = 3", "steps -5"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(nanoText(t), c.old, c.new, 1)
			if text == nanoText(t) {
				t.Fatalf("nano has no %q any more", c.old)
			}
			_, err := parsePreset(text, builtIn)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("got %v, want %q and a hint", err, c.want)
			}
		})
	}
	for change, says := range map[string]string{`eval.tiers_of={gd=["T1"]}`: "not one of the preset's solvers", `eval.tiers_of={cem=["T4"]}`: "not one of the preset's tiers",
		"dinowm.backbone.patch=15": "patch 15 does not divide the frame's 64"} {
		if _, err := LoadPreset("nano", change); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("--set %s: %v, want an error that says %s", change, err, says)
		}
	}
	if _, err := LoadPreset("nanno"); err == nil || !strings.Contains(err.Error(), `did you mean "nano"?`) || !strings.Contains(err.Error(), "paper, paper-main, printed, small") {
		t.Errorf("unknown name: %v", err)
	}
	if _, err := LoadPreset(filepath.Join(t.TempDir(), "mine.toml")); err == nil || !strings.Contains(err.Error(), "mine.toml") {
		t.Errorf("missing file: %v", err)
	}
}

// A user's preset file, and the preset written to a results folder, are read back
// unchanged.
func TestPresetFile(t *testing.T) {
	nano, err := LoadPreset("nano")
	if err != nil {
		t.Fatal(err)
	}
	text, err := nano.encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mine.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	mine, err := LoadPreset(path)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := nano.recipe(model.MethodOf("scale"), 2, nil)
	theirs, other := mine.recipe(model.MethodOf("scale"), 2, nil)
	if key, _, _ := ours.differs(theirs); err != nil || other != nil || key != "" {
		t.Errorf("the copy's recipe has another %s (%v, %v)", key, err, other)
	}
	mine.Name = nano.Name
	if d := cmp.Diff(nano, mine); d != "" {
		t.Error(d)
	}
}

// The preset of an earlier version in a results folder may be replaced; a file that
// is not a preset may not.
func TestOlderPresetIsOurs(t *testing.T) {
	older := strings.Replace(nanoText(t), "clip = 1.0", "clip = 1.0\nscale_weight = { cube = 0.1 }", 1)
	for text, ours := range map[string]bool{nanoText(t): true, older: true, "precious = true\n": false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, results.ConfigName), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := checkOurs(dir, results.ConfigName); (err == nil) != ours {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// A change has the same effect as editing the file, and changes nothing else.
func TestPresetChanges(t *testing.T) {
	p, err := LoadPreset("nano", "train.lr=1e-3", "collect.policy = noisy", `eval.tiers=["T1"]`, "collect.at_most.cube=7", "train.weights.sigreg=0.2",
		"train.weights.correlation.cube=3")
	if err != nil {
		t.Fatal(err)
	}
	want, err := LoadPreset("nano")
	if err != nil {
		t.Fatal(err)
	}
	want.Train.LR, want.Collect.Policy, want.Eval.Tiers = 1e-3, "noisy", []string{"T1"}
	want.Collect.AtMost["cube"] = 7
	want.Train.Weights = want.Train.Weights.With(model.SIGReg, model.Others, .2).With(model.Correlation, "cube", 3)
	if d := cmp.Diff(want, p); d != "" {
		t.Error(d)
	}
	for change, says := range map[string]string{
		"lr":                "a key and its value are expected",
		"train.lrr=1":       `did you mean "train.lr"?`,
		"train.lr=fast":     "incompatible types",
		"train.lr=nan":      "lr is NaN",
		"train=3":           "type mismatch",
		"train.weights=3":   "weights are 3",
		"of=paper":          "only a file can start from another preset",
		"reading=both":      `reading is "both" (hint: authors or paper)`,
		"a = 1\ntrain.lr=1": "unknown key",
		"a\nb=1":            "expected",
	} {
		if _, err := LoadPreset("nano", change); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("--set %s: %v, want an error that says %s", change, err, says)
		}
	}
}

// The study trains the models of the demo, except for a shorter warm-up and the
// published weight of SIGReg (docs/study.md#limits).
func TestLaptopIsNano(t *testing.T) {
	laptop, err := LoadPreset("laptop")
	if err != nil {
		t.Fatal(err)
	}
	nano, err := LoadPreset("nano")
	if err != nil {
		t.Fatal(err)
	}
	if laptop.Train.WarmUp != 0.01 || nano.Train.WarmUp != 0.1 {
		t.Errorf("warm-ups %g and %g, want the study's 0.01 and 0.1", laptop.Train.WarmUp, nano.Train.WarmUp)
	}
	for p, want := range map[*Preset]float64{laptop: 0.09, nano: 0.03} {
		if got, _ := p.Train.Weights.On(model.SIGReg, "cube"); got != want {
			t.Errorf("%s has the weight %g of SIGReg, want %g", p.Name, got, want)
		}
	}
	laptop.Train.WarmUp, laptop.Train.Weights = nano.Train.WarmUp, laptop.Train.Weights.With(model.SIGReg, model.Others, 0.03)
	if d := cmp.Diff(recipe{*nano.Models["model"].(*lewm.Config), nano.Train}, recipe{*laptop.Models["model"].(*lewm.Config), laptop.Train}); d != "" {
		t.Error(d)
	}
}

// The TOML parser would take 20 seconds for this key and hours for a longer one.
func TestLongLinesAreRefused(t *testing.T) {
	_, err := parsePreset("[model]\n"+strings.Repeat("a.", 10_000)+"a = 1\n", builtIn)
	if err == nil || !strings.Contains(err.Error(), "line 2: 20006 characters") {
		t.Error(err)
	}
}

func FuzzPreset(f *testing.F) {
	f.Add("[model]\npatch = 16\n")
	f.Add("[train.weights]\ncorrelation = { tworoom = 0.1 }\n")
	f.Add("of = \"nano\"\nreading = \"paper\"\n[eval]\ntiers = [\"T2\"]\n")
	for _, name := range PresetNames() {
		text, err := presets.Files.ReadFile(name + ".toml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		fuzztest.Read(t, len(text), func() { _, _ = parsePreset(text, builtIn) })
	})
}
