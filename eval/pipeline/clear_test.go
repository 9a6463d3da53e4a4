package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile/fuzztest"
	"scalewm/eval/clear"
	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/model"
)

// statedText is a submission file, that of docs/report.md.
const statedText = `
[method]
name = "Mine"
repository = "https://github.com/somebody/mine"
revision = "0123abcd"
license = "MIT"

[contact]
github = "somebody"

[benchmark]
version = "v0.5"
training_data_track = "standard-data"

[benchmark.training_data]
description = "the published data sets"
source = "https://example.org/data"
revision = "1"
license = "as published"

[verification]
requested = "self-reported"
`

// clearFolder is a results folder with cells on manifests.
type clearFolder struct {
	testing.TB
	dir string
}

// manifest stores a manifest of the cases of package clear with the seed 42, and returns its
// SHA-256 and its number of pairs.
func (f clearFolder) manifest(name string) (sum string, pairs int) {
	f.Helper()
	b, err := os.ReadFile(filepath.Join("../clear/testdata/reference/protocols", "manifest_"+name+".json"))
	if err != nil {
		f.Fatal(err)
	}
	text := regexp.MustCompile(`"seed": \d+`).ReplaceAllString(string(b), `"seed": 42`)
	return f.store([]byte(text))
}

// store stores the bytes of a manifest.
func (f clearFolder) store(b []byte) (sum string, pairs int) {
	f.Helper()
	m, err := clear.Parse(b)
	if err != nil {
		f.Fatal(err)
	}
	f.write(results.Folder(f.dir).Manifest(m.SHA256), string(b))
	return m.SHA256, len(m.Pairs)
}

func (f clearFolder) write(path, text string) string {
	f.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o666)
	}
	if err != nil {
		f.Fatal(err)
	}
	return path
}

// add adds a cell of a search with n episodes on a manifest, of which the first hits succeed,
// after edit.
func (f clearFolder) add(task, set, manifest string, n, hits int, edit func(*results.Spec, *results.Result)) {
	f.Helper()
	s := results.Spec{Schema: results.Schema, Task: task, Method: "lewm", TrainSeed: 3072, Weights: strings.Repeat("ab", 32), Data: "d", Set: set, SetHash: "h", Episodes: n,
		Solver: results.CEM, Tier: "T1", Candidates: 300, Iterations: 30, Elites: 30, Rules: results.Rules{Protocol: "clear-moderate-0.8", Manifest: manifest, Budget: 50, GoalOffset: 25, Horizon: 5, Precision: "fp32"}}
	var r results.Result
	if task == "tworoom" {
		s.Collision = results.Swept
	}
	for i := range n {
		row := results.Row{Episode: n - 1 - i, Success: n-1-i < hits, Steps: 50}
		if task == "tworoom" {
			row.Route = results.RouteValid
		}
		r.Rows = append(r.Rows, row)
	}
	if edit != nil {
		edit(&s, &r)
	}
	id, err := cell.ID(results.Kind, s)
	if err == nil {
		err = results.Folder(f.dir).Cells().Save(id, results.Kind, s, r)
	}
	if err == nil {
		err = results.Folder(f.dir).Cells().SaveRun(id, results.Run{Seconds: 1.5, Version: "1.2"})
	}
	if err != nil {
		f.Fatal(err)
	}
}

// acting returns an edit to another arm: random actions, or a policy.
func acting(method string) func(*results.Spec, *results.Result) {
	return func(s *results.Spec, _ *results.Result) {
		s.Method, s.Solver, s.Tier, s.Candidates, s.Iterations, s.Elites = method, "", "", 0, 0, 0
		if method == model.Random {
			s.Weights, s.TrainSeed, s.Horizon, s.Precision = "", 0, 0, ""
		}
	}
}

// readResult reads a written result.
func readResult(path string) (*clear.Result, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return clear.ParseResult(b)
}

// Each arm has a folder with a result for each manifest. A submission lists those that
// CLEAR-LeWM takes; others, and what it rejects, are in the notes.
func TestWriteClear(t *testing.T) {
	f := clearFolder{t, t.TempDir()}
	moderate, n := f.manifest("moderate")
	official, k := f.manifest("official")
	f.add("tworoom", "m-moderate-seed42-n5", moderate, n, 3, nil)
	f.add("tworoom", "m-moderate-seed42-n5", moderate, n, 4, func(s *results.Spec, r *results.Result) {
		acting("gcidm")(s, r)
		s.Weights = "v1"
	})
	f.add("tworoom", "m-moderate-seed42-n5", moderate, n, 1, acting(model.Random))
	f.add("tworoom", "m-official", official, k, 2, nil)
	f.add("tworoom", "m-official", official, k, 2, acting(model.Random))
	f.add("tworoom", "m-moderate-seed42-n5", moderate, n, 2, func(s *results.Spec, _ *results.Result) { s.OtherData, s.Data = true, "other" })
	f.add("tworoom", "s42", "", n, 2, nil)
	r := ClearRequest{Dir: f.dir, Out: filepath.Join(f.dir, "clear"), Submission: f.write(filepath.Join(t.TempDir(), "s.toml"), statedText)}
	w, err := WriteClear(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, path := range w.Files {
		rel, _ := filepath.Rel(r.Out, path)
		files = append(files, filepath.ToSlash(rel))
	}
	if want := []string{
		"gcidm-s3072/results/tworoom-moderate-seed42-n5.json", "gcidm-s3072/submission.json",
		"lewm-s3072-cem-T1/results/tworoom-moderate-seed42-n5.json", "lewm-s3072-cem-T1/results/tworoom-official.json", "lewm-s3072-cem-T1/submission.json",
		"random/results/tworoom-moderate-seed42-n5.json", "random/results/tworoom-official.json",
	}; !slices.Equal(files, want) {
		t.Errorf("files %q", files)
	}
	for arm, want := range map[string]struct {
		mode, solver string
		hits         int
	}{"lewm-s3072-cem-T1": {clear.ModeCEM, "cem", 3}, "gcidm-s3072": {clear.ModeDirect, "", 4}, "random": {clear.ModeRandom, "", 1}} {
		got, err := readResult(filepath.Join(r.Out, arm, "results/tworoom-moderate-seed42-n5.json"))
		if err != nil {
			t.Fatal(err)
		}
		if got.Mode != want.mode || got.Solver() != want.solver || got.ManifestSHA256 != moderate || got.Benchmark != "v0.5" || !got.Successes[want.hits-1] || slices.Contains(got.Successes[want.hits:], true) {
			t.Errorf("%s: %+v", arm, got)
		}
	}
	text, err := os.ReadFile(filepath.Join(r.Out, "lewm-s3072-cem-T1/results/tworoom-moderate-seed42-n5.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s clear.Submission
	if b, err := os.ReadFile(filepath.Join(r.Out, "lewm-s3072-cem-T1/submission.json")); err != nil || json.Unmarshal(b, &s) != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if want := (clear.Entry{Task: "tworoom", Protocol: "moderate", Path: "results/tworoom-moderate-seed42-n5.json", SHA256: hex.EncodeToString(sum[:])}); len(s.Results) != 1 || s.Results[0] != want || s.Method.Name != "Mine" {
		t.Errorf("submission %+v", s)
	}
	notes := strings.Join(w.Notes, "\n")
	for _, want := range []string{"on other data than its manifest's", "official on tworoom (seed 42); of the protocols, it takes moderate and strict", "METHOD_CARD.md", `with a SHA-256 only; that of cell`, `is "v1"`, "2 submissions have the name Mine", "accepts the rate of its own random actions only"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note %q in\n%s", want, notes)
		}
	}
	// Excess over the folder's random actions: 3 and 1 of 5.
	if !strings.Contains(string(text), `"excess_over_random_pp": 40`) || !strings.Contains(string(text), `"invalid_routes": 0`) {
		t.Errorf("%s", text)
	}
	// Equal files may be written again, others only with Force. Without a submission there are
	// results alone.
	if _, err := WriteClear(context.Background(), r); err != nil {
		t.Error(err)
	}
	r.Submission = ""
	if _, err := WriteClear(context.Background(), r); err == nil || !strings.Contains(err.Error(), "exists and differs (hint: ") {
		t.Errorf("replaced files: %v", err)
	}
	r.Force = true
	if w, err = WriteClear(context.Background(), r); err != nil || len(w.Files) != 5 || !strings.Contains(strings.Join(w.Notes, "\n"), "no submission.json") {
		t.Errorf("%+v, %v", w, err)
	}
	// CLEAR-LeWM's own random actions precede the folder's.
	r.Out, r.Random = t.TempDir(), []string{filepath.Join(r.Out, "gcidm-s3072/results/tworoom-moderate-seed42-n5.json")}
	if _, err := WriteClear(context.Background(), r); err == nil || !strings.Contains(err.Error(), `is a result of "gcidm", not of random actions (hint: `) {
		t.Errorf("compared with another arm: %v", err)
	}
}

// What cannot be written is an error before any file.
func TestWriteClearErrors(t *testing.T) {
	for _, c := range []struct {
		name, want string
		folder     func(f clearFolder, r *ClearRequest)
	}{
		{"no manifest", "has no cells on a manifest of CLEAR-LeWM", func(f clearFolder, r *ClearRequest) {
			f.add("tworoom", "s42", "", 5, 1, nil)
		}},
		{"missing manifest", "of the set m-moderate is missing (hint: copy the file", func(f clearFolder, r *ClearRequest) {
			f.add("tworoom", "m-moderate", strings.Repeat("0", 64), 5, 1, nil)
		}},
		{"edited manifest", "it was edited; fetch it again", func(f clearFolder, r *ClearRequest) {
			sum, n := f.manifest("moderate")
			path := results.Folder(f.dir).Manifest(sum)
			b, _ := os.ReadFile(path)
			f.write(path, string(b)+"\n")
			f.add("tworoom", "m-moderate", sum, n, 1, nil)
		}},
		{"other number of episodes", "it has 4 episodes, and its manifest 5", func(f clearFolder, r *ClearRequest) {
			sum, _ := f.manifest("moderate")
			f.add("tworoom", "m-moderate", sum, 4, 1, nil)
		}},
		{"two settings", "would both be lewm-s3072-cem-T1", func(f clearFolder, r *ClearRequest) {
			sum, n := f.manifest("moderate")
			f.add("tworoom", "m-moderate", sum, n, 1, nil)
			f.add("tworoom", "m-moderate", sum, n, 1, func(s *results.Spec, _ *results.Result) { s.Replan = 1 })
		}},
		{"two manifests of a protocol", "its arm has results on two manifests of moderate with the seed 42", func(f clearFolder, r *ClearRequest) {
			for _, name := range []string{"moderate", "offset_10"} {
				sum, n := f.manifest(name)
				f.add("tworoom", "m-"+name, sum, n, 1, nil)
				f.add("tworoom", "m-"+name, sum, n, 1, acting(model.Random))
			}
			r.Submission = f.write(filepath.Join(f.dir, "s.toml"), statedText)
		}},
		{"no random actions", "no result of random actions on its manifest, which a submission needs (hint: --random", func(f clearFolder, r *ClearRequest) {
			sum, n := f.manifest("moderate")
			f.add("tworoom", "m-moderate", sum, n, 1, nil)
			r.Submission = f.write(filepath.Join(f.dir, "s.toml"), statedText)
		}},
		{"missing keys", "it lacks method.name, contact.github (hint: ", func(f clearFolder, r *ClearRequest) {
			r.Submission = f.write(filepath.Join(f.dir, "s.toml"), regexp.MustCompile(`(?m)^(name|github) = .*$`).ReplaceAllString(statedText, ""))
		}},
		{"no TOML", "(hint: ", func(f clearFolder, r *ClearRequest) {
			r.Submission = f.write(filepath.Join(f.dir, "s.toml"), "[method")
		}},
		{"no file", "reading the submission: ", func(f clearFolder, r *ClearRequest) { r.Submission = filepath.Join(f.dir, "none.toml") }},
		{"random of another manifest", "is on a manifest that no cell of", func(f clearFolder, r *ClearRequest) {
			other := clearFolder{f.TB, f.TempDir()}
			sum, n := other.manifest("strict")
			other.add("tworoom", "m-strict", sum, n, 1, acting(model.Random))
			out := f.TempDir()
			if _, err := WriteClear(context.Background(), ClearRequest{Dir: other.dir, Out: out}); err != nil {
				f.Fatal(err)
			}
			sum, n = f.manifest("moderate")
			f.add("tworoom", "m-moderate", sum, n, 1, nil)
			r.Random = []string{filepath.Join(out, "random/results/tworoom-strict.json")}
		}},
	} {
		f := clearFolder{t, t.TempDir()}
		r := ClearRequest{Dir: f.dir, Out: filepath.Join(f.dir, "clear")}
		c.folder(f, &r)
		if w, err := WriteClear(context.Background(), r); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %+v, %v", c.name, w, err)
		}
		if exists(r.Out) {
			t.Errorf("%s: files were written", c.name)
		}
	}
}

// A cell of an earlier version does not say which routes were valid, and an invalid one is
// rejected by CLEAR-LeWM: both are noted.
func TestWriteClearRoutes(t *testing.T) {
	for route, want := range map[string]string{"": "does not say which routes were valid", results.RouteInvalid: "rejects a result with invalid routes"} {
		f := clearFolder{t, t.TempDir()}
		sum, n := f.manifest("moderate")
		f.add("tworoom", "m-moderate", sum, n, 1, func(_ *results.Spec, r *results.Result) { r.Rows[2].Route = route })
		w, err := WriteClear(context.Background(), ClearRequest{Dir: f.dir, Out: filepath.Join(f.dir, "clear")})
		if err != nil || !strings.Contains(strings.Join(w.Notes, "\n"), want) {
			t.Errorf("%q: %q, %v", route, w.Notes, err)
		}
	}
}

// A report that joins the written files has the same success for them as for their cells.
func TestClearRoundTrip(t *testing.T) {
	f := clearFolder{t, t.TempDir()}
	sum, n := f.manifest("moderate")
	f.add("tworoom", "m-moderate", sum, n, 3, nil)
	f.add("tworoom", "m-moderate", sum, n, 4, acting("gcidm"))
	f.add("tworoom", "m-moderate", sum, n, 1, acting(model.Random))
	out := filepath.Join(f.dir, "clear")
	if _, err := WriteClear(context.Background(), ClearRequest{Dir: f.dir, Out: out}); err != nil {
		t.Fatal(err)
	}
	c, err := results.Load(context.Background(), f.dir)
	if err != nil {
		t.Fatal(err)
	}
	file := func(arm string) string { return filepath.Join(out, arm, "results/tworoom-moderate.json") }
	with, err := infer.ReadForeign("search=" + file("lewm-s3072-cem-T1") + ",policy=" + file("gcidm-s3072") + ",floor=" + file("random"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := infer.Infer(&c, infer.Options{With: with})
	if err != nil {
		t.Fatal(err)
	}
	for arm, want := range map[string]float64{"lewm": 60, "search": 60, "gcidm": 80, "policy@policy": 80, "random": 20, "floor@policy": 20} { // of 5 episodes
		n, err := table.Select("success,tier=T1,a=" + arm)
		if err != nil || n.Value == nil || *n.Value != want {
			t.Errorf("%s: %+v, %v, want %g", arm, n, err, want)
		}
	}
}

// CLEAR-LeWM's own validator accepts a submission of all its tasks and protocols. Its random
// results give the random rates.
func TestClearAccepts(t *testing.T) {
	published := os.Getenv("SCALEWM_CLEAR_RESULTS")
	if published == "" {
		t.Skip("SCALEWM_CLEAR_RESULTS names no folder results of a checkout of CLEAR-LeWM")
	}
	root := filepath.Dir(published)
	f := clearFolder{t, t.TempDir()}
	r := ClearRequest{Dir: f.dir, Out: filepath.Join(f.dir, "clear"), Submission: f.write(filepath.Join(f.dir, "s.toml"), statedText)}
	for _, task := range []string{"tworoom", "pusht", "cube"} {
		for i, protocol := range []string{"moderate", "strict"} {
			name := protocol + "-seed42-n100"
			b, err := os.ReadFile(filepath.Join(root, "manifests/v0.5", task, name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			sum, n := f.store(b)
			f.add(task, "m-"+name, sum, n, 60+i, nil)
			f.add(task, "m-"+name, sum, n, 70+i, acting("gcidm"))
			r.Random = append(r.Random, filepath.Join(published, "v0.5", fmt.Sprintf("%s-%s-random-seed42-n100.json", task, protocol)))
		}
	}
	w, err := WriteClear(context.Background(), r)
	if notes := strings.Join(w.Notes, "\n"); err != nil || strings.Contains(notes, "validator") {
		t.Fatal(err, notes)
	}
	for arm, rate := range map[string]float64{"lewm-s3072-cem-T1": 60, "gcidm-s3072": 70} {
		cmd := exec.Command("python3", "-c", "import json, sys; from clear_lewm.submissions import validate_submission as v; print(json.dumps(v(sys.argv[1], repo_root='.')))", filepath.Join(r.Out, arm, "submission.json"))
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		var verdict struct {
			Status  string
			Results []struct {
				Rate float64 `json:"success_rate_percent"`
			}
		}
		if err != nil || json.Unmarshal(out, &verdict) != nil || verdict.Status != "valid" || len(verdict.Results) != 6 || verdict.Results[0].Rate != rate {
			t.Errorf("%s: %v\n%s", arm, err, out)
		}
	}
}

func FuzzSubmission(f *testing.F) {
	f.Add(statedText)
	f.Add("[benchmark.training_data]\nfraction = inf\ndescription = 2026-01-01\n")
	f.Fuzz(func(t *testing.T, text string) {
		var s *clear.Submission
		var err error
		fuzztest.Read(t, len(text), func() { s, err = parseSubmission(text) })
		if err == nil && (s.Method.Name == "" || !strings.HasPrefix(s.Method.Repository, "https:") || len(s.Encode()) == 0) {
			t.Errorf("accepted %+v", s)
		}
	})
}
