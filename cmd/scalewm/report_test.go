package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/eval/pipeline"
	"scalewm/eval/results"
)

// resultsFolder writes the cells of two methods, one tier, two sets of four episodes:
// LeWM solves 2 and 2 of them, SCALE 4 and 3.
func resultsFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	store := cell.Store{Dir: filepath.Join(dir, results.CellsDir)}
	for method, hits := range map[string][]int{"lewm": {2, 2}, "scale": {4, 3}} {
		for i, set := range []string{"s101", "s102"} {
			s := results.Spec{Schema: results.Schema, Task: "tworoom", Method: method, Weights: method, Solver: "cem", Tier: "T1", Candidates: 300, Iterations: 30, Set: set, SetHash: set, Episodes: 4, Rules: results.Rules{Protocol: "paper", Budget: 50}}
			var r results.Result
			for e := range 4 {
				r.Rows = append(r.Rows, results.Row{Episode: e, Success: e < hits[i], Steps: 10})
			}
			id, err := cell.ID(results.Kind, s)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Save(id, results.Kind, s, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// Results of other programs are arms of the report, and the file behind a number is named.
// Of eight episodes LeWM solves four, and the file six.
func TestReportWith(t *testing.T) {
	dir, file := resultsFolder(t), filepath.Join(t.TempDir(), "theirs.csv")
	text := "set,episode,tier,success\n"
	for _, set := range []string{"s101", "s102"} {
		for e := range 4 {
			text += set + "," + strconv.Itoa(e) + ",T1," + strconv.FormatBool(e < 3) + "\n"
		}
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	out, errs, code := session("report", dir, "--with", "other="+file, "--out", t.TempDir())
	if code != exitDone || errs != "" || !strings.Contains(out, "other     75.0") || !strings.Contains(out, "other was computed by another program") {
		t.Errorf("exit %d, %q, %s", code, errs, out)
	}
	out, errs, code = session("report", dir, "--with", "other="+file, "--why", "difference,a=other,b=lewm,tier=T1")
	if code != exitDone || !strings.Contains(out, "= 25, ") || !strings.Contains(out, "\n"+file) {
		t.Errorf("exit %d, %q, %s", code, errs, out)
	}
	for list, want := range map[string]string{"lewm=" + file: "is a method of this program (hint: ", "none.csv": "none.csv", ",": "(hint: "} {
		if _, errs, code := session("report", dir, "--with", list); code != exitFailed || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q", list, code, errs)
		}
	}
}

// A folder may be given through a symbolic link. Unreadable files are named, and the report
// without them ends with exit code 3, as compare does.
func TestReportOfUnreadFiles(t *testing.T) {
	dir, link := resultsFolder(t), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := session("report", link); code != exitDone || errs != "" || !strings.Contains(out, "+37.5 points") {
		t.Errorf("by a link: exit %d, %q, %q", code, out, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, results.CellsDir, "torn \x1b[2J.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"report", link}, {"compare", link + ":scale", link + ":lewm"}} {
		out, errs, code := session(args...)
		if code != exitIncomplete || !strings.Contains(out, "+37.5") || !strings.Contains(errs, "warning: reading cell ") || !strings.Contains(errs, `/torn \u001b[2J.json`) || strings.Contains(errs, "\x1b") || !strings.Contains(errs, "scalewm: some files could not be read and are left out: 1 in all\n") || strings.Count(errs, "\n") != 2 {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errs)
		}
	}
	to := t.TempDir()
	session("report", link, "--out", to)
	page, err := os.ReadFile(filepath.Join(to, "report.html"))
	if err != nil || bytes.Contains(page, []byte("\x1b")) || !bytes.Contains(page, []byte(`torn \u001b[2J.json`)) {
		t.Errorf("the page has the cell's name as it is, or not at all: %v", err)
	}
	film := filepath.Join(dir, "watch", "scale-T1.gif")
	if err := os.MkdirAll(filepath.Dir(film), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(film, []byte("PNG"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := session("report", link); code != exitIncomplete || !strings.Contains(errs, "scale-T1.gif: ") || !strings.Contains(errs, "are left out: 2 in all\n") {
		t.Errorf("with a film that is none: exit %d, %q", code, errs)
	}
	if err := os.Symlink("self", filepath.Join(dir, "self")); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := session("report", link); code != exitFailed || !strings.Contains(errs, "leads back to itself (hint: ") {
		t.Errorf("with a link to itself: exit %d, %q", code, errs)
	}
}

func TestReport(t *testing.T) {
	dir := resultsFolder(t)
	out, errs, code := session("report", dir, "--json")
	if code != exitDone || errs != "" {
		t.Fatalf("exit %d, stderr %q", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var got struct {
		Cells []struct {
			Method string
			Mean   float64
		}
		Paired []struct{ Diff, P float64 }
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatalf("last line %q: %v", lines[len(lines)-1], err)
	}
	// 4 of 8 and 7 of 8; three episodes only SCALE solves: p = 2/2^3.
	if len(got.Cells) != 2 || got.Cells[0].Mean != 50 || got.Cells[1].Mean != 87.5 ||
		len(got.Paired) != 1 || got.Paired[0].Diff != 37.5 || math.Abs(got.Paired[0].P-0.25) > 1e-12 {
		t.Errorf("got %+v", got)
	}
	page := filepath.Join(dir, "report", "report.html")
	if !strings.Contains(out, "report: "+page+"\n") || !strings.Contains(out, "SCALE − LeWM: +37.5 points at T1") {
		t.Errorf("stdout:\n%s", out)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "px") || !strings.Contains(string(text), "Success on Two-Room") {
		t.Errorf("the page lacks the task's success rule: %v", err)
	}
}

// The same cells have the same numbers everywhere: compare's rows and pooled row
// are report.json's paired rows, and the table of scores has its cells, to the
// last bit. Two solvers, MPPI tuned on s101 among them, three tiers and six sets
// of 20 episodes, in which the methods succeed on made-up shares.
func TestSameCellsSameNumbers(t *testing.T) {
	dir := t.TempDir()
	store := cell.Store{Dir: filepath.Join(dir, results.CellsDir)}
	var all []results.Cell
	for m, method := range []string{"lewm", "scale", "aux", "untrained"} {
		for v, solver := range []string{"cem", "mppi"} {
			for k, tier := range []string{"T1", "T3", "T5"} {
				for set := range 6 {
					s := results.Spec{Schema: results.Schema, Task: "tworoom", Method: method, Weights: method, Data: "d", Solver: solver, Tier: tier, Candidates: 300 >> k, Iterations: 30 >> k, Set: "s" + strconv.Itoa(101+set), SetHash: strconv.Itoa(set), Episodes: 20, Rules: results.Rules{Protocol: "paper", Temperature: 64 * float64(v), Budget: 50}}
					var r results.Result
					for e := range 20 {
						r.Rows = append(r.Rows, results.Row{Episode: e, Success: (7*e+13*set+5*k+3*v)%20 < 14-4*k+(m*(e+set))%5, Steps: 10})
					}
					id, err := cell.ID(results.Kind, s)
					if err == nil {
						err = store.Save(id, results.Kind, s, r)
					}
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, results.Cell{ID: id, Spec: s, Result: r})
				}
			}
		}
	}
	type numbers struct {
		Tier            string
		N               int
		Diff, Lo, Hi, P float64
	}
	var rep struct {
		Cells []struct {
			Method, Solver, Tier string
			Sets, N              int
			Mean, SD             float64
		}
		Paired []struct {
			A, B, Solver string
			numbers
		}
	}
	out, errs, code := session("report", dir, "--json")
	printed := strings.Split(strings.TrimSpace(out), "\n")
	if err := json.Unmarshal([]byte(printed[len(printed)-1]), &rep); err != nil || code != exitDone {
		t.Fatalf("exit %d, %q, %v", code, errs, err)
	}
	if len(rep.Paired) != 4*2*4 || len(rep.Cells) != 4*2*3 {
		t.Fatalf("%d paired rows, %d cells; want 4 comparisons x 2 solvers x (3 tiers + mean), 4 methods x 2 x 3", len(rep.Paired), len(rep.Cells))
	}
	for i := 0; i < len(rep.Paired); i += 4 {
		p := rep.Paired[i]
		var c struct {
			Rows   []numbers
			Pooled numbers
		}
		out, errs, code := session("compare", dir+":"+p.A, dir+":"+p.B, "--solver", p.Solver, "--json")
		if err := json.Unmarshal([]byte(out), &c); err != nil || code != exitDone || len(c.Rows) != 3 {
			t.Fatalf("%s %s: exit %d, %q, %v", p.A, p.B, code, errs, err)
		}
		for k, got := range append(c.Rows, c.Pooled) {
			if want := rep.Paired[i+k].numbers; got != want {
				t.Errorf("%s - %s, %s: compare says %+v, report %+v", p.A, p.B, p.Solver, got, want)
			}
		}
	}
	lines := pipeline.Scores(all)
	for _, c := range rep.Cells {
		i := slices.IndexFunc(lines, func(s pipeline.Score) bool { return s.Method == c.Method && s.Solver == c.Solver && s.Tier == c.Tier })
		if s := lines[i]; s.Mean != c.Mean || *s.SD != c.SD || s.N != c.N || s.Sets != c.Sets {
			t.Errorf("the table of scores says %+v (SD %v), report %+v", s, *s.SD, c)
		}
	}
}

func TestReportFormats(t *testing.T) {
	dir, out := resultsFolder(t), filepath.Join(t.TempDir(), "here")
	if _, errs, code := session("report", "--format", "md,csv", dir, "--out", out); code != exitDone {
		t.Fatalf("exit %d, stderr %q", code, errs)
	}
	files, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil || len(files) != 4 {
		t.Errorf("%v, %v; want report.md, report.csv, report-paired.csv, report-sections.csv", files, err)
	}
}

// A report replaces the files of an earlier report, and others only with --force.
func TestReportReplacesItsOwn(t *testing.T) {
	dir, out := resultsFolder(t), t.TempDir()
	page := filepath.Join(out, "report.html")
	if err := os.WriteFile(page, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := session("report", dir, "--out", out); code != exitFailed || !strings.Contains(errs, "report.html exists and is not part of a report (hint: ") {
		t.Errorf("over another's page: exit %d, %q", code, errs)
	}
	if b, err := os.ReadFile(page); err != nil || string(b) != "mine" {
		t.Errorf("the page holds %q, %v", b, err)
	}
	for _, more := range [][]string{{"--force"}, nil} {
		if _, errs, code := session(append([]string{"report", dir, "--out", out}, more...)...); code != exitDone {
			t.Errorf("%v: exit %d, %q", more, code, errs)
		}
	}
}

func TestReportMistakes(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"report"}, exitUsage, "report needs DIR"},
		{[]string{"report", "x", "--format", "htlm"}, exitUsage, `unknown format "htlm" (did you mean "html"?)`},
		{[]string{"report", filepath.Join(t.TempDir(), "nowhere")}, exitFailed, "it does not exist (hint:"},
		{[]string{"report", t.TempDir()}, exitFailed, "holds no evaluation cells (hint:"},
	} {
		_, errs, code := session(c.args...)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit %d, stderr %q; want %d and one line with %q", c.args, code, errs, c.code, c.want)
		}
	}
}
