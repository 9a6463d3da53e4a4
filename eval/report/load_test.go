package report

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"scalewm/eval/record"
)

// What lies on a disk is what was meant to, whatever the folder's place.
func TestLoadWhole(t *testing.T) {
	dir := t.TempDir()
	folder(t, dir)
	d, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole(t), d, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLoadWithProblems(t *testing.T) {
	dir := t.TempDir()
	for m, text := range map[string]string{lewm: fakeMetrics(lewm), scale: fakeMetrics(scale)} {
		put(t, filepath.Join(dir, "train", "tworoom-"+m+"-s0", metricsFile), text)
		put(t, filepath.Join(dir, watchDir, m+"-T1.gif"), tinyGIF)
	}
	put(t, filepath.Join(dir, record.CellsDir, "torn.json"), `{"id":`)
	put(t, filepath.Join(dir, "train", "tworoom-lewm-s1", metricsFile), "{\"step\":0,\"loss\":1}\nnot json\n{\"step\":2,\"loss\":1}\n")
	put(t, filepath.Join(dir, "train", "somewhere", metricsFile), "{\"step\":0}\n")
	put(t, filepath.Join(dir, watchDir, "scale-T3.gif"), "PNG")
	d, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Training) != 3 || len(d.Training[0].Train.Steps) != 300 || len(d.Training[1].Train.Steps) != 1 {
		t.Errorf("%d trainings, want 2 whole ones and what is readable of the third", len(d.Training))
	}
	var clips []string
	for _, c := range d.Clips {
		clips = append(clips, c.Method+" "+c.Tier)
	}
	if got := strings.Join(clips, ", "); got != "lewm T1, scale T1" {
		t.Errorf("clips %s, want them in the order of the methods", got)
	}
	text := strings.Join(d.Problems, "\n")
	for _, want := range []string{"torn.json", "line 2", "it is no GIF (hint:"} {
		if !strings.Contains(text, want) {
			t.Errorf("problems do not say %q:\n%s", want, text)
		}
	}
	if len(d.Problems) != 3 {
		t.Errorf("%d problems, want 3:\n%s", len(d.Problems), text)
	}
}

func TestLoadMissing(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "nowhere")); err == nil || !strings.Contains(err.Error(), "(hint:") {
		t.Errorf("error %v, want one with a hint", err)
	}
}

func TestLargeClipIsLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lewm-T1.gif")
	if err := os.WriteFile(path, append([]byte("GIF89a"), make([]byte, maxClip)...), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := loadClip(path); err == nil || !strings.Contains(err.Error(), "left out") {
		t.Errorf("error %v, want the clip left out", err)
	}
}

func TestReadMetrics(t *testing.T) {
	var tr Training
	err := tr.read(strings.NewReader(`{"step":0,"split":"train","loss":4,"name":"x"}
{"step":1,"split":"train","loss":3,"grad_norm":7}

{"step":1,"split":"val","loss":5}
{"step":2,"split":"train","loss":2}
{"note":"no step"}
{"step":3,"split":"tr`))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Train.Steps) != 3 || tr.Train.Steps[2] != 2 || len(tr.Val.Steps) != 1 || tr.Val.Terms["loss"][0] != 5 {
		t.Errorf("train steps %v, val %v; want 0 1 2 and one of loss 5", tr.Train.Steps, tr.Val)
	}
	g := tr.Train.Terms["grad_norm"]
	if len(g) != 3 || !math.IsNaN(g[0]) || g[1] != 7 || !math.IsNaN(g[2]) {
		t.Errorf("grad_norm %v, want NaN 7 NaN", g)
	}
	if _, ok := tr.Train.Terms["name"]; ok {
		t.Error("a word became a number")
	}
}

func TestRunName(t *testing.T) {
	if r, ok := runName("tworoom-scale-s12"); !ok || r.Task != "tworoom" || r.Method != scale || r.Seed != 12 {
		t.Errorf("got %+v, %v", r, ok)
	}
	for _, s := range []string{"tworoom-scale", "tworoom-scale-s", "a-b-c-s1", "tworoom-scale-s99999999999999999999"} {
		if _, ok := runName(s); ok {
			t.Errorf("%q was taken for a training run", s)
		}
	}
}

func FuzzReadMetrics(f *testing.F) {
	f.Add(`{"step":0,"loss":4}` + "\n" + `{"step":1,"split":"val","loss":3}`)
	f.Add("{\"step\":0,\"loss\":1e400}\n[]\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		var tr Training
		if tr.read(strings.NewReader(text)) != nil {
			return
		}
		for _, s := range []Series{tr.Train, tr.Val} {
			for k, v := range s.Terms {
				if len(v) != len(s.Steps) {
					t.Errorf("%s has %d values for %d steps", k, len(v), len(s.Steps))
				}
			}
		}
		tr.Task, tr.Method = "tworoom", lewm
		(&Report{Training: []Training{tr}}).trainingFigures("tworoom")
	})
}
