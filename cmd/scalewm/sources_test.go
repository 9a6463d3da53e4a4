package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/envs"
)

// The table of published files has no unknown field, names registered tasks, well-formed
// hashes, and commands with verbs and flags that exist. Each task has data and weights.
func TestTableOfSources(t *testing.T) {
	d := json.NewDecoder(bytes.NewReader(sourcesJSON))
	d.DisallowUnknownFields()
	var all []source
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, s := range all {
		if !slices.Contains([]string{"data", "weights", "backbone"}, s.Kind) || s.What == "" || s.Where == "" || s.Licence == "" {
			t.Errorf("%+v lacks a part", s)
		}
		for _, task := range s.Tasks {
			found[s.Kind+" "+task] = true
		}
		for _, f := range s.Files {
			if f.Name == "" || f.SHA256 != "" && !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(f.SHA256) {
				t.Errorf("%s: %+v", s.Where, f)
			}
		}
		m := commandLine.FindStringSubmatch(s.Use)
		if m == nil {
			t.Errorf("%q is not a command line", s.Use)
			continue
		}
		checkShown(t, "sources.json", m[1], strings.Fields(m[2]))
	}
	for _, task := range envs.Names() {
		if !found["data "+task] || !found["weights "+task] {
			t.Errorf("no published data set or checkpoint for %s", task)
		}
		if _, ok := dataset.PublishedSet(task); !ok {
			t.Errorf("no counts of the published set of %s", task)
		}
	}
}

func TestSourcesVerb(t *testing.T) {
	out, _, code := session("sources", "cube")
	if code != exitDone || !strings.Contains(out, "101.9 GB, SHA-256 0664d507c4ff") || !strings.Contains(out, "10000 episodes, 2010000 rows") || strings.Contains(out, "tworoom.h5") {
		t.Errorf("exit %d, %s", code, out)
	}
	if _, errs, code := session("sources", "tworom"); code != exitUsage || !strings.Contains(errs, "tworoom") {
		t.Errorf("exit %d, %s", code, errs)
	}
	out, _, code = session("sources", "--json")
	var r struct{ Sources []source }
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitDone || len(r.Sources) < 2*len(envs.Names()) {
		t.Errorf("exit %d, %v, %d sources", code, err, len(r.Sources))
	}
}
