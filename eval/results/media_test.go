package results_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"scalewm/dataset/safefile"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
	"scalewm/model/train/metrics"
)

func load(t *testing.T, dir string) *results.Contents {
	t.Helper()
	c, err := results.Load(t.Context(), dir)
	if err == nil {
		err = c.AddMedia(t.Context(), dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

// Everything in a folder is read back as it was written, wherever the folder is.
func TestLoadEverything(t *testing.T) {
	dir := t.TempDir()
	resultstest.Write(t, dir)
	got, want := load(t, dir), resultstest.Contents(t)
	for _, c := range want.Cells {
		if p := got.Paths[c.ID]; p != filepath.Join(dir, results.CellsDir, c.ID+".json") {
			t.Errorf("cell %s has the path %q", c.ID, p)
		}
	}
	got.Paths = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMediaWithProblems(t *testing.T) {
	dir := t.TempDir()
	put := func(text string, path ...string) {
		resultstest.Put(t, filepath.Join(append([]string{dir}, path...)...), text)
	}
	for _, m := range []string{"lewm", "scale"} {
		resultstest.WriteMedia(t, dir, m)
	}
	put(`{"id":`, results.CellsDir, "torn.json")
	put("{\"step\":0,\"loss\":1}\nnot json\n{\"step\":2,\"loss\":1}\n", "train", "tworoom-lewm-s1", metrics.FileName)
	put("{\"step\":0}\n", "train", "somewhere", metrics.FileName)
	put("PNG", results.FilmsDir, "scale-T3.gif")
	put("GIF89a"+strings.Repeat("\x00", int(safefile.MaxFilm)), results.FilmsDir, "lewm-T5.gif")
	c := load(t, dir)
	if len(c.Curves) != 2 || len(c.Curves[0].Rows) != 300 {
		t.Errorf("%d curves, want the two complete ones", len(c.Curves))
	}
	var clips []string
	for _, f := range c.Clips {
		clips = append(clips, f.Arm.String()+" "+f.Tier)
	}
	if want := []string{"lewm T1", "scale T1"}; !slices.Equal(clips, want) {
		t.Errorf("clips %q, want %q in the order of the methods", clips, want)
	}
	unread := strings.Join(c.Unread(), "\n")
	for _, want := range []string{"torn.json", "line 2", "it is not a GIF (hint:", "the page lacks it"} {
		if !strings.Contains(unread, want) {
			t.Errorf("problems do not say %q:\n%s", want, unread)
		}
	}
	if len(c.Unread()) != 4 {
		t.Errorf("%d problems, want 4:\n%s", len(c.Unread()), unread)
	}
}

func TestParseTraining(t *testing.T) {
	for name, want := range map[string]results.Curve{
		"tworoom-scale-s12":        {Task: "tworoom", Arm: results.Arm{Method: "scale"}, Seed: 12},
		"tworoom-scale@half-q-s12": {Task: "tworoom", Arm: results.Arm{Method: "scale", Variants: "half-q"}, Seed: 12},
	} {
		task, arm, seed, ok := results.ParseTraining(name)
		if got := (results.Curve{Task: task, Arm: arm, Seed: seed}); !ok || !cmp.Equal(got, want) || filepath.Base(results.Folder("").Training(task, arm, int64(seed))) != name {
			t.Errorf("%s: %+v, %v, want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{"tworoom-scale", "tworoom-scale-s", "scale-s1", "tworoom-scale-s99999999999999999999", "tworoom-scale@-s1"} {
		if task, arm, seed, ok := results.ParseTraining(name); ok {
			t.Errorf("%q is taken for the training of %s on %s with seed %d", name, arm, task, seed)
		}
	}
}

// Only keeps what belongs to the named cells.
func TestOnly(t *testing.T) {
	c := resultstest.Contents(t)
	c.Analyses = []results.Analysis{{ID: "other"}}
	ids := map[string]bool{}
	for _, x := range c.Cells {
		ids[x.ID] = x.Spec.Method == "scale"
	}
	c.Only(ids)
	scale := results.Arm{Method: "scale"}
	if len(c.Cells) != 9 || len(c.Analyses) != 0 || len(c.Curves) != 1 || c.Curves[0].Arm != scale || len(c.Clips) != 3 || len(c.Gates) != 1 {
		t.Errorf("%d cells, %d analyses, %d curves, %d clips, %d gates; want the 9 of SCALE and its curve, and what names no task or has the cells' one", len(c.Cells), len(c.Analyses), len(c.Curves), len(c.Clips), len(c.Gates))
	}
	c.Only(nil)
	if len(c.Cells)+len(c.Curves)+len(c.Gates) != 0 {
		t.Errorf("without ids %d cells, %d curves and %d gates are left", len(c.Cells), len(c.Curves), len(c.Gates))
	}
}
