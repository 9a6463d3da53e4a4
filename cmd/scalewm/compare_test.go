package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// csvArms writes two arms of 100 episodes at a tier: 7 only A, 1 only B.
func csvArms(t *testing.T) (a, b string) {
	dir := t.TempDir()
	texts := [2]string{"set,episode,tier,success\n", "set,episode,tier,success\n"}
	for e := range 100 {
		texts[0] += fmt.Sprintf("s101,%d,T1,%t\n", e, e < 97)
		texts[1] += fmt.Sprintf("s101,%d,T1,%t\n", e, e < 90 || e == 97)
	}
	paths := [2]string{filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")}
	for i, p := range paths {
		if err := os.WriteFile(p, []byte(texts[i]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return paths[0], paths[1]
}

func TestCompareVerb(t *testing.T) {
	a, b := csvArms(t)
	out, errs, code := session("compare", a, "--json", b)
	var r struct {
		Rows []struct {
			Tier string
			N    int
			B, C int
			P    float64
			MidP float64 `json:"mid_p"`
		}
		Pooled struct{ Diff float64 }
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitDone || errs != "" {
		t.Fatalf("exit %d, %q, %v", code, errs, err)
	}
	// (7, 1): docs/sources.md#mcnemar
	if len(r.Rows) != 1 || r.Rows[0].N != 100 || r.Rows[0].B != 7 || r.Rows[0].C != 1 || r.Rows[0].P-.0703125 > 1e-9 || r.Rows[0].MidP-.0390625 > 1e-9 || r.Pooled.Diff-6 > 1e-9 {
		t.Errorf("result %s", out)
	}
	text, _, code := session("compare", a, b)
	if code != exitDone || !strings.Contains(text, "+6.0") || !strings.Contains(text, "0.0703") {
		t.Errorf("exit %d, text %s", code, text)
	}
}

// A result of CLEAR-LeWM is an arm. Of five episodes a search solves four, and random
// actions one of these.
func TestCompareResults(t *testing.T) {
	const dir = "../../eval/clear/testdata/results/"
	out, errs, code := session("compare", dir+"search.json", dir+"random.json")
	if code != exitDone || errs != "" || !strings.Contains(out, "+60.0") || !strings.Contains(out, `search.json: a result of CLEAR-LeWM v0.8: policy "mine"`) {
		t.Errorf("exit %d, %q, %s", code, errs, out)
	}
	if _, errs, code := session("compare", dir+"search.json", dir+"direct.json"); code != exitFailed || !strings.Contains(errs, "manifest is ") {
		t.Errorf("another manifest: exit %d, %q", code, errs)
	}
}

func TestCompareVerbErrors(t *testing.T) {
	a, _ := csvArms(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"compare", a}, exitUsage, "needs A B"},
		{[]string{"compare", a, "nowhere.csv"}, exitFailed, "there is no nowhere.csv"},
		{[]string{"compare", a, a, a}, exitUsage, "unexpected argument"},
	} {
		if _, errs, code := session(c.args...); code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit %d, %q; want exit %d and one line with %q", c.args, code, errs, c.code, c.want)
		}
	}
}
