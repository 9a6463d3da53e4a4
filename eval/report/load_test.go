package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset/safefile"

	"github.com/google/go-cmp/cmp"

	"scalewm/eval/results"
	"scalewm/model/train/metrics"
)

// What lies on a disk is what was meant to, whatever the folder's place.
func TestLoadWhole(t *testing.T) {
	dir := t.TempDir()
	folder(t, dir)
	d, err := Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wholeData(t), d); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLoadWithProblems(t *testing.T) {
	dir := t.TempDir()
	for _, m := range []string{lewm, scale} {
		put(t, filepath.Join(dir, "train", "tworoom-"+m+"-s0", metrics.FileName), logged(t, fakeMetrics(m)))
		put(t, filepath.Join(dir, watchDir, m+"-T1.gif"), tinyGIF)
	}
	put(t, filepath.Join(dir, results.CellsDir, "torn.json"), `{"id":`)
	put(t, filepath.Join(dir, "train", "tworoom-lewm-s1", metrics.FileName), "{\"step\":0,\"loss\":1}\nnot json\n{\"step\":2,\"loss\":1}\n")
	put(t, filepath.Join(dir, "train", "somewhere", metrics.FileName), "{\"step\":0}\n")
	put(t, filepath.Join(dir, watchDir, "scale-T3.gif"), "PNG")
	d, err := Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Training) != 2 || len(d.Training[0].Rows) != 300 {
		t.Errorf("%d trainings, want the 2 whole ones", len(d.Training))
	}
	var clips []string
	for _, c := range d.Clips {
		clips = append(clips, c.Method+" "+c.Tier)
	}
	if got := strings.Join(clips, ", "); got != "lewm T1, scale T1" {
		t.Errorf("clips %s, want them in the order of the methods", got)
	}
	text := strings.Join(d.Unread, "\n")
	for _, want := range []string{"torn.json", "line 2", "it is no GIF (hint:"} {
		if !strings.Contains(text, want) {
			t.Errorf("problems do not say %q:\n%s", want, text)
		}
	}
	if len(d.Unread) != 3 {
		t.Errorf("%d problems, want 3:\n%s", len(d.Unread), text)
	}
}

func TestLoadMissing(t *testing.T) {
	if _, err := Load(t.Context(), filepath.Join(t.TempDir(), "nowhere")); err == nil || !strings.Contains(err.Error(), "(hint:") {
		t.Errorf("error %v, want one with a hint", err)
	}
}

func TestLargeClipIsLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lewm-T1.gif")
	if err := os.WriteFile(path, append([]byte("GIF89a"), make([]byte, safefile.MaxFilm)...), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := loadClip(path); err == nil || !strings.Contains(err.Error(), "left out") {
		t.Errorf("error %v, want the clip left out", err)
	}
}

func TestRunName(t *testing.T) {
	if r, ok := runName("tworoom-scale-s12"); !ok || r.Task != "tworoom" || r.Method != scale || r.Seed != 12 {
		t.Errorf("got %+v, %v", r, ok)
	}
	if r, ok := runName("tworoom-scale@half-q-s12"); !ok || r.Task != "tworoom" || r.Method != "scale@half-q" {
		t.Errorf("got %+v, %v", r, ok)
	}
	for _, s := range []string{"tworoom-scale", "tworoom-scale-s", "scale-s1", "tworoom-scale-s99999999999999999999"} {
		if _, ok := runName(s); ok {
			t.Errorf("%q was taken for a training run", s)
		}
	}
}
