package report

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/eval/infer"
	"scalewm/eval/results/resultstest"
)

// Every format says which row another program computed, from which file.
func TestForeign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "theirs.csv")
	text := "set,episode,tier,success\n"
	for _, tier := range []string{"T1", "T3", "T5"} {
		for e := range resultstest.Episodes {
			text += fmt.Sprintf("s101,%d,%s,%v\n", e, tier, e < 9)
		}
	}
	resultstest.Put(t, path, text)
	arms, err := infer.ReadForeign(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Of(resultstest.Contents(t), infer.Options{With: arms})
	if err != nil {
		t.Fatal(err)
	}
	note := "theirs was computed by another program, with its own planner noise and device (" + path + ", SHA-256 " + arms[0].Files[0].SHA256[:12] + ")"
	files, err := r.Render(Formats())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		switch f.Name {
		case "report.html", "report.md":
			if !strings.Contains(string(f.Bytes), note) {
				t.Errorf("%s does not say %q", f.Name, note)
			}
			if strings.Contains(string(f.Bytes), "theirs: the training is not recorded") {
				t.Errorf("%s has a training of another program", f.Name)
			}
		case "report.csv":
			if !strings.Contains(string(f.Bytes), "\ntworoom,cem,theirs,0,T1,9000,1,10,9,90,") {
				t.Errorf("%s lacks the arm:\n%s", f.Name, f.Bytes)
			}
		case "report.json":
			var got struct {
				Foreign map[string][]infer.ForeignFile
			}
			if err := json.Unmarshal(f.Bytes, &got); err != nil || len(got.Foreign["theirs"]) != 1 || got.Foreign["theirs"][0].Path != path || got.Foreign["theirs"][0].SHA256 != arms[0].Files[0].SHA256 {
				t.Errorf("%s: %+v, %v", f.Name, got.Foreign, err)
			}
		}
	}
	if s := r.Summary(); !strings.Contains(s, note) {
		t.Errorf("the summary does not say who computed a row:\n%s", s)
	}
}
