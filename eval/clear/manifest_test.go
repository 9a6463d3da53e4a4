package clear

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
)

const cases = "testdata/reference/protocols"

func TestIsManifest(t *testing.T) {
	for text, want := range map[string]bool{
		`{"schema_version": "clear-lewm-manifest-v9"}`: true,
		`{"schema_version": "clear-lewm-result-v1"}`:   false,
		`{"name": "s101"}`:                             false,
		`[]`:                                           false,
	} {
		if IsManifest([]byte(text)) != want {
			t.Errorf("%s is a manifest: %v", text, !want)
		}
	}
}

// Keys that this reader does not know are listed, and keys differ by case.
func TestUnknownKeys(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(cases, "manifest_moderate.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse(bytes.Replace(b, []byte(`"protocol": {`), []byte(`"protocol": {"Goal_Offset": 3, "wind": 1,`), 1))
	if err != nil || len(m.Protocol.Ignored) != 2 || m.Protocol.Ignored[1] != "wind" || m.Protocol.GoalOffset != 25 {
		t.Errorf("%+v, %v", m, err)
	}
}

// Text of a manifest cannot write control sequences to a terminal, or pages of text.
func TestErrorsAreShort(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(cases, "manifest_moderate.json"))
	if err != nil {
		t.Fatal(err)
	}
	long := `"` + strings.Repeat("\u202e\\u001b[1m", 20_000) + `"`
	for _, key := range []string{"task", "seed", "split", "pairs", "schema_version", "statistics", "protocol", "dataset"} {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(b, &all); err != nil {
			t.Fatal(err)
		}
		all[key] = json.RawMessage(long)
		changed, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(changed); err == nil || len(err.Error()) > 1500 || strings.ContainsAny(err.Error(), "\x1b\u202e\n") {
			t.Errorf("%s: the error is %.300q", key, err)
		}
	}
}

func FuzzManifest(f *testing.F) {
	names, err := filepath.Glob(filepath.Join(cases, "manifest_*.json"))
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
		var m *Manifest
		var err error
		fuzztest.Read(t, len(b), func() { m, err = Parse(b) })
		if err != nil {
			return
		}
		if m.Protocol.Budget < 1 || m.Hold() < 1 || len(m.Pairs) == 0 || m.Rule().Check(m.Task) != nil || !bytes.Contains(b, m.Raw) {
			t.Errorf("accepted %+v", m)
		}
		for _, p := range m.Pairs {
			if p.GoalRow-p.StartRow != m.Protocol.GoalOffset || p.StartStep < 0 || p.StartRow < p.StartStep {
				t.Errorf("accepted the pair %+v", p)
			}
		}
	})
}
