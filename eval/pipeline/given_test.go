package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/collect"
	"scalewm/envs"
	"scalewm/eval/results"
	"scalewm/model"
)

// counted is a data set of which only the counts and attributes are known.
type counted struct {
	dataset.Source
	episodes, rows int
	attrs          map[string]string
}

func (c counted) Episodes() []dataset.Episode     { return make([]dataset.Episode, c.episodes) }
func (c counted) Rows() int                       { return c.rows }
func (c counted) Attr(name string) (string, bool) { v, ok := c.attrs[name]; return v, ok }

// The published Push-T set has 18,685 episodes and 2,336,736 rows
// (docs/sources.md#published-sets).
func TestOriginOf(t *testing.T) {
	for _, c := range []struct {
		src  counted
		want string
	}{
		{counted{episodes: 18685, rows: 2336736}, results.OriginPublished},
		{counted{episodes: 18685, rows: 2336735}, results.OriginGiven},
		{counted{episodes: 18685, rows: 2336736, attrs: map[string]string{collect.SpecAttr: "{}"}}, results.OriginCollected},
	} {
		if got := originOf(c.src, "pusht"); got != c.want {
			t.Errorf("%+v: %s, want %s", c.src, got, c.want)
		}
	}
}

// TestGivenNames matches entries of --weights with arms. Of several that fit, the one that
// names most of task and seed is used.
func TestGivenNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c", "d", "tworoom-scale@half-s7"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in := func(text string) string { return strings.ReplaceAll(text, "=", "="+dir+"/") }
	of := func(task, method string, seed int64, q string) arm {
		return arm{lookUp(t, envs.Lookup, task)[0], lookUp(t, model.LookUp, method)[0], seed, variant{q: q}}
	}
	list, err := ParseGiven(in("scale=a,tworoom/scale=b,tworoom/scale@s7=c,scale@half@s7=d"), "")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := ParseGiven(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		given *Given
		arm   arm
		want  string
	}{
		{list, of("pusht", "scale", 7, ""), "a"},
		{list, of("tworoom", "scale", 8, ""), "b"},
		{list, of("tworoom", "scale", 7, ""), "c"},
		{list, of("tworoom", "scale", 7, "half"), "d"},
		{list, of("tworoom", "scale", 8, "half"), ""},
		{list, of("tworoom", "aux", 7, ""), ""},
		{folder, of("tworoom", "scale", 7, "half"), "tworoom-scale@half-s7"},
		{folder, of("tworoom", "scale", 7, ""), ""},
	} {
		got := c.given.find(c.arm)
		if got != "" {
			got = filepath.Base(got)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.arm.name(), got, c.want)
		}
	}
	for _, bad := range []string{"scale", "scale=nowhere", "scale@s99999999999999999999=a", "=a", "a/b/c=a", "scale@@s7=a"} {
		if _, err := ParseGiven(in(bad), ""); err == nil {
			t.Errorf("--weights %s is accepted", bad)
		}
	}
}

// A folder of data sets has one file for each task, of that name or beginning with it. Its
// own name may have characters that are special in patterns.
func TestParseData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[a]*")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pusht_expert_train.h5", "cube.h5", "cube_single.h5", "tworoom1.h5", "tworoom2.h5"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ParseData(dir, lookUp(t, envs.Lookup, "pusht", "cube"))
	if err != nil || filepath.Base(got["pusht"]) != "pusht_expert_train.h5" || filepath.Base(got["cube"]) != "cube.h5" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ParseData(dir, lookUp(t, envs.Lookup, "tworoom")); err == nil || !strings.Contains(err.Error(), "2 files tworoom*.h5") {
		t.Errorf("two files: %v", err)
	}
}
