package protocol

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
	"scalewm/eval/results"
)

func must(t *testing.T, name string) *Definition {
	t.Helper()
	d, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every embedded file is listed, and what `scalewm protocols` prints of it is a file with
// the same values and sources.
func TestBuiltIn(t *testing.T) {
	entries, err := builtIn.ReadDir(".")
	if err != nil || len(entries) != len(order) {
		t.Fatalf("%d files, %d names (%v)", len(entries), len(order), err)
	}
	for _, name := range Names() {
		d := must(t, name)
		if d.Protocol != name || d.Title == "" {
			t.Errorf("%s has the name %q and title %q", name, d.Protocol, d.Title)
		}
		path := filepath.Join(t.TempDir(), "copy.toml")
		if err := os.WriteFile(path, []byte(d.TOML()), 0o666); err != nil {
			t.Fatal(err)
		}
		again := must(t, path)
		if again.Rules != d.Rules || !slices.Equal(again.Usual.Sets, d.Usual.Sets) || again.Usual.Numbers != d.Usual.Numbers || again.Usual.Episodes != d.Usual.Episodes {
			t.Errorf("%s prints as\n%s", name, d.TOML())
		}
		for key, o := range again.origins {
			if o.source == "" && key != "title" {
				t.Errorf("%s: %s has no source", name, key)
			}
		}
	}
}

// Paper and strict have the values that their names stand for in cells, which state
// nothing else.
func TestPaperAndStrict(t *testing.T) {
	for _, name := range []string{results.Paper, results.Strict} {
		want := results.Published()
		want.Protocol = name
		d := must(t, name)
		if d.Rules != want.Full() || d.Rules.Short() != want {
			t.Errorf("%s: %+v, in cells %+v", name, d.Rules, d.Rules.Short())
		}
	}
}

// A protocol by name and the same values as flags have equal settings, and different names.
func TestChange(t *testing.T) {
	d50, strict := must(t, "d50"), must(t, results.Strict)
	if err := strict.Change(map[string]string{"goal_offset": "50", "budget": "100"}); err != nil {
		t.Fatal(err)
	}
	if strict.Protocol != "strict+changed" || strict.Named("") != d50.Named("") {
		t.Errorf("%+v, and d50 %+v", strict.Rules, d50.Rules)
	}
	// Cells of another name than strict state what strict stands for.
	if s := strict.Short(); s.Split != results.SplitHeldOut || s.NoiseKey != results.NoiseBySet || s.Sampling != results.Permutation {
		t.Errorf("a cell says %+v", s)
	}
	same := must(t, results.Paper)
	if err := same.Change(map[string]string{"budget": "50", "planner_noise": "2", "protocol": "paper"}); err != nil || same.Protocol != results.Paper || same.PlannerNoise != 2 {
		t.Errorf("%+v, %v", same.Rules, err)
	}
	for want, given := range map[string]map[string]string{
		"no setting wind":           {"wind": "3"},
		"unknown budget \"many\"":   {"budget": "many"},
		"6 of 5 blocks":             {"execute": "6"},
		"in a budget of 20":         {"budget": "20"},
		"unknown pool \"everyone\"": {"pool": "everyone"},
	} {
		if err := must(t, results.Paper).Change(given); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%v: %v, want %q", given, err, want)
		}
	}
}

// Settings of one task do not distinguish cells of another.
func TestFor(t *testing.T) {
	d := must(t, "clear-strict-0.8")
	room, push := d.For("tworoom"), d.For("pusht")
	if room.Collision != results.Swept || room.Filters != results.CrossRoom || room.Substeps != "" || push.Collision != "" || push.Filters != "" {
		t.Errorf("Two-Room %+v, Push-T %+v", room, push)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("base.toml", "of = \"strict\"\nbudget = 75 # twice and a half\n")
	d := must(t, write("mine.toml", "of = \"base.toml\"\n[goal]\noffset = 30\n[starts]\nmanifest = \"starts.json\"\n"))
	if d.Protocol != "mine" || d.Budget != 75 || d.GoalOffset != 30 || d.Solved != results.Excluded || !slices.Equal(d.Usual.Sets, []string{filepath.Join(dir, "starts.json")}) {
		t.Errorf("%+v %+v", d.Rules, d.Usual)
	}
	write("loop.toml", `of = "loop.toml"`)
	for want, text := range map[string]string{
		`unknown key "goal.ofset" (did you mean "goal.offset"?)`: "[goal]\nofset = 25",
		"the key goal.offset: unknown goal offset \"far\"":       "[goal]\noffset = \"far\"",
		"unknown protocol \"strikt\" (did you mean \"strict\"?)": `of = "strikt"`,
		"starts from more than 8 others":                         `of = "loop.toml"`,
		"line 2: ":                                               "budget = 50\nbudget = ",
		"a manifest and the key starts.sampling":                 "[starts]\nmanifest = \"a.json\"\nsampling = \"row-uniform\"",
		"give all three, or none":                                "[solver]\ncandidates = 10",
		"plans of 6 blocks":                                      "budget = 25\n[plan]\nhorizon = 6",
		"a history of 3 frames":                                  "[history]\nframes = 3",
		"the protocol's name is \"a+changed\"":                   `name = "a+changed"`,
		"a built-in protocol with other values":                  "name = \"strict\"\nbudget = 60",
		"starts.episodes is -1":                                  "[starts]\nepisodes = -1",
		"the key plan.execute is [1] (hint: one value)":          "[plan]\nexecute = [1]",
	} {
		if _, err := Load(write("bad.toml", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Load(filepath.Join(dir, "none.toml")); err == nil || !strings.Contains(err.Error(), "need no file") {
		t.Errorf("a missing file: %v", err)
	}
}

// Comments behind a value are its source, whatever the value.
func TestComments(t *testing.T) {
	got := comments("a = 1 # one\n[t]\nb = \"x\"   # two # three\n# c = 3\nd = 4\n")
	want := map[string]string{"a": "one", "t.b": "two # three", "t.d": ""}
	if !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func FuzzProtocol(f *testing.F) {
	for _, name := range order {
		text, err := builtIn.ReadFile(name + ".toml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		fuzztest.Read(t, len(text), func() {
			_, _ = parse(text, "fuzzed", func(of string) (*Definition, error) {
				if strings.HasSuffix(of, ".toml") {
					return nil, os.ErrNotExist
				}
				return Load(of)
			})
		})
	})
}
