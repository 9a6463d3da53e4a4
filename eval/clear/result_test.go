package clear

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
)

func readResult(t *testing.T, path string) *Result {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseResult(b)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r
}

// Who acted, and what a search spent, are as testdata/results.py writes them. A result
// repeats what its manifest prescribes.
func TestResult(t *testing.T) {
	for name, want := range map[string]struct {
		mode, solver, manifest string
		candidates, hits       int
	}{
		"search": {ModeCEM, "cem", "moderate", 300, 4},
		"random": {ModeRandom, "", "moderate", 0, 1},
		"early":  {ModeRandom, "", "moderate", 0, 1},
		"direct": {ModeDirect, "", "v2_rest", 0, 4},
	} {
		r := readResult(t, filepath.Join("testdata/results", name+".json"))
		m, err := Read(filepath.Join(cases, "manifest_"+want.manifest+".json"))
		if err != nil {
			t.Fatal(err)
		}
		hits := 0
		for _, s := range r.Successes {
			if s {
				hits++
			}
		}
		if r.Mode != want.mode || r.Solver() != want.solver || r.Candidates != want.candidates || hits != want.hits || len(r.Successes) != len(m.Pairs) {
			t.Errorf("%s: %+v", name, r)
		}
		if r.ManifestSHA256 != m.SHA256 || SetName(r.Manifest) != "m-"+want.manifest || r.Task != m.Task || r.Rule() != m.Rule() || r.Swept() != m.Swept() || r.StartState != m.StartState || r.History != m.History || r.PolicySeed != m.PolicySeed {
			t.Errorf("%s is of another evaluation than its manifest: %+v", name, r.Evaluation)
		}
	}
}

// TestPublishedResults reads CLEAR-LeWM's results (*.json, also in folders) in the
// subfolder clear-results of SCALEWM_PUBLISHED_DIR: 76 at ab8849c, all of 100 episodes of
// LeWM or of random actions.
func TestPublishedResults(t *testing.T) {
	dir := os.Getenv("SCALEWM_PUBLISHED_DIR")
	var paths []string
	for _, pattern := range []string{"*.json", "*/*.json"} {
		found, err := filepath.Glob(filepath.Join(dir, "clear-results", pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	if len(paths) == 0 {
		t.Skip("SCALEWM_PUBLISHED_DIR has no clear-results")
	}
	for _, path := range paths {
		r := readResult(t, path)
		if label := map[bool]string{true: "random", false: "official-lewm"}[r.Mode == ModeRandom]; r.Policy != label || len(r.Successes) != 100 {
			t.Errorf("%s: %s with the mode %s, %d episodes", path, r.Policy, r.Mode, len(r.Successes))
		}
	}
}

// edited returns the fixture search.json with a text replaced, which it must have.
func edited(t testing.TB, old, new string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/results/search.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte(old)) {
		t.Fatalf("the fixture has no %q", old)
	}
	return bytes.Replace(b, []byte(old), []byte(new), 1)
}

func TestBadResults(t *testing.T) {
	outcomes := "\"episode_successes\": [\n    true,"
	for _, c := range []struct{ old, new, want string }{
		{"}\n", "", "not valid JSON"},
		{`80.0`, `NaN`, "not valid JSON"},
		{`"runtime": {`, `"runtime": ` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `, "x": {`, "not valid JSON"},
		{`"mine"`, "\"\xff\"", "not valid JSON"},
		{"result-v1", "result-v3", "clear-lewm-result-v1 and -v2 can be read"},
		{"result-v1", "result-v2", "benchmark_version"},
		{`"task": "tworoom"`, `"task": "maze"`, "unknown task"},
		{`"policy": "mine"`, `"policy": 3`, "want text"},
		{`"policy_seed": 18446744073709551615`, `"policy_seed": 1e999`, "want an integer"},
		{`"protocol": {`, `"protocol": 1, "was": {`, "not an object"},
		{`"eval_budget": 50`, `"eval_budget": -50`, "eval_budget is -50"},
		{`"manifest_sha256": "`, `"manifest_sha256": "../`, "64 hex digits"},
		{`"policy_id": "mine/tworoom/weights.pt",`, ``, "no policy_id"},
		{`"mode": "cem"`, `"mode": "telepathy"`, "one of [cem pure-cem"},
		{`"num_samples": 300`, `"num_samples": null`, "want an integer"},
		{`"num_samples": 300`, `"num_samples": 1e30`, "want an integer"},
		{`"num_samples": 300`, `"num_samples": 29`, "a search with 29 samples"},
		{outcomes, outcomes + "true,", "5 episodes, and there are 6"},
		{outcomes, outcomes[:len(outcomes)-len("true,")] + "false,", "80 %, and the outcomes have 60 %"},
		{outcomes, outcomes[:len(outcomes)-len("true,")] + "1,", "its episode_successes is"},
		{outcomes, outcomes[:len(outcomes)-len("true,")] + "null,", "one true or false for each episode"},
		{`"episodes": 5`, `"episodes": 6`, "6 episodes, and there are 5"},
		{`"success_rate_percent": 80.0`, `"success_rate_percent": 80.00001`, "the outcomes have 80 %"},
		{`"success_rate_percent": 80.0`, `"success_rate_percent": "80"`, "want a number"},
	} {
		_, err := ParseResult(edited(t, c.old, c.new))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ") || len(err.Error()) > 600 {
			t.Errorf("%.40q: %v, want %q", c.new, err, c.want)
		}
	}
	// Of a key that occurs twice the last value counts, as in Python's json.
	if r, err := ParseResult(edited(t, `"policy": "mine"`, `"policy": 3, "policy": "last"`)); err != nil || r.Policy != "last" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestIsResult(t *testing.T) {
	for text, want := range map[string]bool{
		`{"schema_version": "clear-lewm-result-v9"}`:   true,
		`{"schema_version": "clear-lewm-manifest-v1"}`: false,
		`{"kind": "eval"}`:                             false,
		`[]`:                                           false,
	} {
		if IsResult([]byte(text)) != want {
			t.Errorf("%s is a result: %v", text, !want)
		}
	}
}

func FuzzResult(f *testing.F) {
	names, err := filepath.Glob("testdata/results/*.json")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r *Result
		var err error
		fuzztest.Read(t, len(b), func() { r, err = ParseResult(b) })
		if err != nil {
			return
		}
		known := slices.Contains(append([]string{ModeRandom}, modes...), r.Mode)
		if !json.Valid(r.Raw) || len(r.Successes) == 0 || !known || r.Rule().Check(r.Task) != nil || r.Searches() != (cmp.Or(r.Candidates, r.Iterations, r.Elites) > 0) {
			t.Errorf("accepted %+v", r)
		}
	})
}
