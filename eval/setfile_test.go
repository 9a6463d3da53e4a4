package eval

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
)

// TestSetFile: a set goes to a file and comes back, with the same bytes each time.
func TestSetFile(t *testing.T) {
	d := testJob(t, "T5", 1, "s101").Data
	s, err := d.Set("s103", 7)
	must(t, err)
	path := filepath.Join(t.TempDir(), "mine.json")
	must(t, d.WriteSet(path, s))
	back, err := d.Set(path, 3) // a file is taken whole
	must(t, err)
	if back.Name != "s103" || back.Hash != s.Hash || !slices.Equal(back.Starts, s.Starts) {
		t.Errorf("came back as %+v, was %+v", back, s)
	}
	first, err := os.ReadFile(path)
	must(t, err)
	must(t, d.WriteSet(path, back))
	if second, err := os.ReadFile(path); err != nil || !bytes.Equal(first, second) {
		t.Errorf("written again it differs: %v", err)
	}
	if names, err := ParseSets("s101," + path); err != nil || !slices.Equal(names, []string{"s101", path}) {
		t.Errorf("as a name: %v, %v", names, err)
	}
}

// TestSetFileRefuses: what was changed, or belongs elsewhere, is refused in words.
func TestSetFileRefuses(t *testing.T) {
	d := testJob(t, "T5", 1, "s101").Data
	s, err := d.Set("s101", 3)
	must(t, err)
	path := filepath.Join(t.TempDir(), "set.json")
	must(t, d.WriteSet(path, s))
	good, err := os.ReadFile(path)
	must(t, err)
	edit := func(old, new string) string {
		out := strings.Replace(string(good), old, new, 1)
		if out == string(good) {
			t.Fatalf("the file has no %q", old)
		}
		return out
	}
	for name, tc := range map[string]struct{ text, want string }{
		"torn":       {string(good[:40]), "it is no set"},
		"mistyped":   {edit(`"hash"`, `"hush"`), "it is no set"},
		"a start":    {edit(`"episode": 1`, `"episode": 2`), "numbered from 0"},
		"hash":       {edit(s.Hash, "000000000000"), "fingerprint"},
		"other data": {edit(d.Fingerprint, "x"), "other data"},
		"other task": {edit(`"tworoom"`, `"pusht"`), "other data"},
		"protocol":   {edit(`"paper"`, `"strict"`), "--protocol strict"},
		"offset":     {edit(`"goal_offset": 25`, `"goal_offset": 24`), "25 rows on"},
		"name":       {edit(`"s101"`, `"../x"`), "letters"},
		"empty":      {`{"name":"a","goal_offset":25,"episodes":[]}`, "0 episodes"},
	} {
		must(t, os.WriteFile(path, []byte(tc.text), 0o666))
		if _, err := d.Set(path, 3); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "(hint:") {
			t.Errorf("%s: error %v; want one with %q and a hint", name, err, tc.want)
		}
	}
	if _, err := d.Set(filepath.Join(t.TempDir(), "none.json"), 3); err == nil || !strings.Contains(err.Error(), "(hint:") {
		t.Errorf("a missing file: %v", err)
	}
	outside := newSet("far", []Start{{Trajectory: 0, Row: 1 << 20}})
	must(t, d.WriteSet(path, outside))
	if _, err := d.Set(path, 1); err == nil || !strings.Contains(err.Error(), "has no rows") {
		t.Errorf("rows that are not there: %v", err)
	}
}

// TestStrictSetFile: a file cannot bring starts in that were trained on.
func TestStrictSetFile(t *testing.T) {
	d, err := NewData(recordEpisodes(t, 20), tworoom(), dataset.Strict)
	must(t, err)
	trained := 0
	for slices.Contains(d.heldOut, trained) {
		trained++
	}
	path := filepath.Join(t.TempDir(), "set.json")
	must(t, d.WriteSet(path, newSet("s101", []Start{{Trajectory: trained}})))
	if _, err := d.Set(path, 1); err == nil || !strings.Contains(err.Error(), "trained on") {
		t.Errorf("a start that was trained on: %v", err)
	}
}

// The full pool is a switch: with as many starts as the small pool has, only
// the full one can draw one more.
func TestPool(t *testing.T) {
	d := testJob(t, "T5", 1, "s101").Data
	n := newValidStarts(d.lengths()).count
	if _, err := d.Set("s101", n); err == nil {
		t.Error("the published pool holds the last start")
	}
	pool, err := ParsePool("full")
	must(t, err)
	d.Pool = pool
	if s, err := d.Set("s101", n); err != nil || len(s.Starts) != n {
		t.Errorf("the full pool: %d starts, %v", len(s.Starts), err)
	}
	if _, err := ParsePool("half"); err == nil {
		t.Error("pool half: no error")
	}
}

func FuzzSetFile(f *testing.F) {
	f.Add([]byte(`{"name":"s1","goal_offset":25,"hash":"","episodes":[{"episode":0,"trajectory":1,"start":2,"goal":27}]}`))
	f.Add([]byte(`{"name":"a","episodes":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseSet(b); err == nil && s.set().Hash != s.Hash {
			t.Errorf("accepted a set whose fingerprint is not its own: %q", b)
		}
	})
}
