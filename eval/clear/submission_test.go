package clear

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Metrics and intervals are equal to the last bit to those of published results
// (testdata/metrics.py).
func TestMetrics(t *testing.T) {
	var cases []struct {
		Name, Outcomes string
		Random         *string
		Seed           uint64
		Metrics        map[string]any
	}
	load(t, "testdata/metrics.json", &cases)
	for _, c := range cases {
		var random []bool
		if c.Random != nil {
			random = bits(*c.Random)
		}
		b, err := json.Marshal(metrics(bits(c.Outcomes), random, c.Seed))
		var got map[string]any
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		if err != nil || !reflect.DeepEqual(got, c.Metrics) {
			t.Errorf("%s: %v, %v\nwant %v", c.Name, got, err, c.Metrics)
		}
	}
	// Random actions that solve everything leave no scale.
	if m := metrics([]bool{true}, []bool{true}, 1); m["normalized_success_percent"] != nil || m["excess_over_random_pp"] != 0.0 {
		t.Errorf("%v", m)
	}
}

// bits returns outcomes that are written as 0 and 1.
func bits(s string) (out []bool) {
	for _, c := range s {
		out = append(out, c == '1')
	}
	return out
}

// A written result is read back with the same contents, for both versions of a manifest.
// Protocol and fingerprint are those of the manifest's file.
func TestEncode(t *testing.T) {
	for _, name := range []string{"moderate", "v2_recorded"} {
		m, err := Read(filepath.Join(cases, "manifest_"+name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		want := &Result{Evaluation: m.Evaluation, Policy: "mine", Checkpoint: "mine", Manifest: name + ".json", ManifestSHA256: m.SHA256, Mode: ModeCEM, Target: "scalewm.icem",
			Candidates: 20, Iterations: 3, Elites: 2, Successes: make([]bool, len(m.Pairs))}
		want.Successes[0] = true
		routes := make([]bool, len(m.Pairs))
		b := want.Encode(m, want.Successes, Provenance{Weights: strings.Repeat("ab", 32), Source: map[string]any{"repository": "é<\U0001F600"}, Routes: routes, Physics: map[string]any{"simulator": "a&b"}})
		got, err := ParseResult(b)
		if err != nil {
			t.Fatal(err)
		}
		if m.Version == 2 {
			want.Benchmark = "v0.9"
		}
		want.SHA256, want.Raw, got.Raw = got.SHA256, nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read back %+v\nwant %+v", name, got, want)
		}
		var file struct {
			Protocol    any
			Fingerprint any `json:"dataset_fingerprint"`
			Topology    struct {
				Invalid int `json:"invalid_routes"`
			}
			Criterion   map[string]any
			Environment struct {
				Physics string `json:"physics_fingerprint"`
			}
		}
		var manifest struct {
			Protocol map[string]any
			Dataset  struct{ Fingerprint any }
		}
		text, err := os.ReadFile(filepath.Join(cases, "manifest_"+name+".json"))
		if err == nil {
			err = json.Unmarshal(text, &manifest)
		}
		if err == nil {
			err = json.Unmarshal(b, &file)
		}
		if err != nil || !reflect.DeepEqual(file.Protocol, any(manifest.Protocol)) || !reflect.DeepEqual(file.Fingerprint, manifest.Dataset.Fingerprint) {
			t.Errorf("%s: %v, not as in the manifest:\n%s", name, err, b)
		}
		if file.Topology.Invalid != len(m.Pairs) || file.Criterion["sustained_steps"] != float64(m.Hold()) || file.Criterion["tworoom_distance_threshold"] != manifest.Protocol["tworoom_distance_threshold"] {
			t.Errorf("%s: %+v", name, file)
		}
		// echo -n '{"simulator":"a&b"}' | sha256sum
		if file.Environment.Physics != "b21b313f46e4fbdde957f3c0b25d6d7be82692aae7cc990ae64fb4d5978351a9" {
			t.Errorf("fingerprint %s", file.Environment.Physics)
		}
		if !strings.Contains(string(b), `"repository": "\u00e9<\ud83d\ude00"`) { // python3 -c 'import json; print(json.dumps("é<😀"))'
			t.Errorf("not as Python writes it:\n%s", b)
		}
	}
}

// stated is a submission with every key.
func stated(t testing.TB) map[string]any {
	t.Helper()
	var tree map[string]any
	err := json.Unmarshal([]byte(`{
		"method": {"name": "M", "repository": "https://example.org/m", "revision": "1", "license": "MIT"},
		"contact": {"github": "somebody"},
		"benchmark": {"version": "v0.8", "training_data_track": "reduced-data", "training_data": {"description": "d", "source": "s", "revision": "1", "license": "l", "fraction": 0.5}},
		"verification": {"requested": "reproducible", "checkpoint": "https://example.org/c", "command": "scalewm eval"}}`), &tree)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// Every key of a submission that is missing or not accepted is named.
func TestParseSubmission(t *testing.T) {
	if s, err := ParseSubmission(stated(t)); err != nil || s.Benchmark.TrainingData.Fraction != 0.5 || s.Contact.GitHub != "somebody" {
		t.Fatalf("%+v, %v", s, err)
	}
	_, err := ParseSubmission(nil)
	for _, key := range []string{"method.name", "method.repository", "method.revision", "method.license", "contact.github", "benchmark.version", "benchmark.training_data_track",
		"benchmark.training_data.description", "benchmark.training_data.source", "benchmark.training_data.revision", "benchmark.training_data.license", "verification.requested"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("missing %s: %v", key, err)
		}
	}
	for _, c := range []struct {
		table, key string
		value      any
		want       string
	}{
		{"method", "repository", "http://example.org", "method.repository is \"http://example.org\", want an https URL"},
		{"method", "name", " ", "it lacks method.name (hint: "},
		{"benchmark", "version", "v9", "benchmark.version is \"v9\", want one of v0.5, v0.8"},
		{"benchmark", "training_data", map[string]any{"fraction": 2}, "fraction is 2"},
		{"verification", "command", "", "it lacks verification.command"},
		{"verification", "asked", "x", `unknown field "asked"`},
		{"contact", "github", 3, "contact.github is number, want text"},
		{"method", "revision", math.Inf(1), "unsupported value"},
		{"", "results", []any{}, "these are written for you"},
	} {
		tree := stated(t)
		table := tree
		if c.table != "" {
			table = tree[c.table].(map[string]any)
		}
		table[c.key] = c.value
		if _, err := ParseSubmission(tree); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s.%s = %v: %v", c.table, c.key, c.value, err)
		}
	}
}
