package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

var update = flag.Bool("update", false, "write the golden files of testdata")

// The text formats are compared with golden files, which a person reviews. Their
// numbers are those of infer's TestScores and TestDifferences. Of report.json
// everything except the list of numbers is compared, and our numbers are compared as
// one line each.
func TestGolden(t *testing.T) {
	r := complete(t)
	files := rendered(t, r)
	files["summary.txt"] = []byte(r.Summary())
	files["report.json"], _, _ = bytes.Cut(files["report.json"], []byte(`"numbers": [`))
	var numbers strings.Builder
	for _, n := range r.Numbers {
		if n.Source == infer.Ours {
			short := *n
			short.From = nil
			b, err := json.Marshal(&short)
			if err != nil {
				t.Fatal(err)
			}
			numbers.Write(append(b, '\n'))
		}
	}
	files["numbers.txt"] = []byte(numbers.String())
	for _, name := range []string{"report.md", "report.csv", "report-paired.csv", "report.json", "numbers.txt", "report.tex", "summary.txt"} {
		path := filepath.Join("testdata", name)
		if *update {
			resultstest.Put(t, path, string(files[name]))
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(files[name])); d != "" {
			t.Errorf("%s differs (-want +got; `go test -update` accepts):\n%s", name, d)
		}
	}
}

func TestSameBytes(t *testing.T) {
	a, b := rendered(t, complete(t)), rendered(t, complete(t))
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs between two runs", name)
		}
	}
}

func TestRenderChosenFormats(t *testing.T) {
	r := complete(t)
	files, err := r.Render([]string{"json", "md"})
	if err != nil || len(files) != 2 || files[0].Name != "report.md" || files[1].Name != "report.json" {
		t.Errorf("got %v files, %v; want report.md and report.json", len(files), err)
	}
	if _, err := r.Render([]string{"pdf"}); err == nil || !strings.Contains(err.Error(), "(hint: one of html") {
		t.Errorf("error %v, want the formats", err)
	}
}

// Other programs rely on this layout.
func TestJSONLayout(t *testing.T) {
	var got struct {
		Cells  []map[string]any `json:"cells"`
		Paired []map[string]any `json:"paired"`
	}
	if err := json.Unmarshal(rendered(t, complete(t))["report.json"], &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Cells) != 15 || len(got.Paired) != 16 {
		t.Fatalf("%d cells, %d paired; want 5 arms x 3 tiers, 4 pairs x (3 tiers + mean)", len(got.Cells), len(got.Paired))
	}
	want := map[string]any{"task": "tworoom", "method": "lewm", "seed": 0.0, "solver": "cem", "tier": "T1", "sets": 3.0, "n": 30.0, "mean": 80.0, "sd": 10.0}
	if d := cmp.Diff(want, got.Cells[0]); d != "" {
		t.Errorf("first cell (-want +got):\n%s", d)
	}
	randoms := 0
	for _, c := range got.Cells {
		if c["method"] == "random" {
			randoms++
			if c["solver"] != "cem" || c["mean"] != 20.0 {
				t.Errorf("random row %v, want solver cem and mean 20", c)
			}
		}
	}
	if randoms != 3 {
		t.Errorf("%d random rows, want one a tier", randoms)
	}
	p := got.Paired[0]
	if len(p) != 10 || p["a"] != "scale" || p["b"] != "lewm" || p["tier"] != "T1" || p["n"] != 30.0 || p["p"] != 0.0625 {
		t.Errorf("first pair %v", p)
	}
	if got.Paired[3]["tier"] != infer.Mean {
		t.Errorf("fourth row %v, want the mean over tiers", got.Paired[3])
	}
}

// The claims in report.json are those of the page, with the same numbers.
func TestJSONClaims(t *testing.T) {
	r := complete(t)
	got := r.JSON().Claims
	if len(got) != len(infer.PaperClaims) {
		t.Fatalf("%d claims, want %d", len(got), len(infer.PaperClaims))
	}
	numbers := 0
	for i, c := range got {
		f := r.Claims[i]
		item := r.item(f)
		if c.ID != f.ID || string(c.Verdict) != item.Value || c.Section != item.Link || (c.N == "") != (item.Text == "") {
			t.Errorf("%+v, on the page %+v", c, item)
		}
		if c.N != "" {
			numbers++
			if want := c.Number + " " + unitOf(f.Claim)(*c.Value); !strings.HasPrefix(item.Text, want) || !strings.Contains(item.Text, ", "+c.N+".") {
				t.Errorf("%+v, on the page %q", c, item.Text)
			}
			if !slices.ContainsFunc(f.Evidence, func(e infer.Evidence) bool {
				n := r.Find(*e.Number)
				return n == e.Number && nameOf(f, e) == c.Number && n.Value == c.Value && n.Lo == c.Lo && n.Hi == c.Hi
			}) {
				t.Errorf("%+v is none of the numbers of its claim", c)
			}
		}
	}
	if numbers == 0 {
		t.Error("no claim has a number")
	}
}

// The lists of report.json are parts of its numbers.
func TestJSONIsOfNumbers(t *testing.T) {
	r := ofCells(t, twoSeeds(t))
	all := r.JSON()
	if len(all.Cells) != 4 || len(all.Paired) != 1 || len(all.Numbers) != len(r.Numbers) {
		t.Errorf("%d cells, %d pairs, %d numbers; want 2 arms x 2 seeds, a pair and the %d of the table", len(all.Cells), len(all.Paired), len(all.Numbers), len(r.Numbers))
	}
	for _, c := range all.Cells {
		n := r.Find(infer.Number{What: infer.Success, Place: infer.Place{Task: c.Task, Solver: c.Solver, Tier: c.Tier, Settings: c.Settings}, Of: results.Arm{Method: c.Method, Variants: c.Variant}, Seed: &c.Seed})
		if n == nil || n.Value != c.Mean || n.SD != c.SD || n.N != c.N {
			t.Errorf("the cell %+v is not the number %+v", c, n)
		}
	}
	for _, p := range all.Paired {
		n := r.Find(infer.Number{What: infer.Diff, Place: infer.Place{Task: p.Task, Solver: p.Solver, Tier: p.Tier, Settings: p.Settings}, Of: p.A, Minus: p.B})
		if n == nil || n.Value != p.Diff || n.Lo != p.Lo || n.Hi != p.Hi || n.P != p.P || n.N != p.N {
			t.Errorf("the pair %+v is not the number %+v", p, n)
		}
	}
}

// A value that does not exist is null, since NaN is not valid in JSON.
func TestJSONOfOneSet(t *testing.T) {
	var plans []plan
	for _, x := range resultstest.HandPlan {
		plans = append(plans, p(x.Method, x.Tier, x.Hits[0]))
	}
	b := rendered(t, ofCells(t, resultstest.Cells(t, plans, nil)))["report.json"]
	if !json.Valid(b) || !strings.Contains(string(b), `"sd": null`) {
		t.Errorf("not valid or without a null SD:\n%s", b)
	}
}

func TestCSVReadsBack(t *testing.T) {
	files := rendered(t, complete(t))
	episodes := 1
	for _, c := range complete(t).Cells {
		episodes += len(c.Result.Rows)
	}
	for name, lines := range map[string]int{"report.csv": 16, "report-paired.csv": 17, "report-sections.csv": len(doc.Rows(complete(t).Sections())), Episodes: episodes} {
		rows, err := csv.NewReader(bytes.NewReader(files[name])).ReadAll()
		if err != nil || len(rows) != lines {
			t.Errorf("%s: %d lines, %v; want %d", name, len(rows), err, lines)
		}
	}
}

// Each line of report.csv is the lines of episodes.csv that have the same values in the
// columns that both files have, except for pre_solved, which is a share in one and 0 or 1 in
// the other. Random actions, which have no solver, are in every table of report.csv.
func TestEpisodesBelongToLines(t *testing.T) {
	half := resultstest.Cells(t, []plan{p(scale, "T1", 6, 6)}, func(c *results.Cell) { c.Spec.Q, c.Spec.Weights = "half", "half" })
	noise := resultstest.Cells(t, []plan{p(scale, "T1", 7, 2)}, func(c *results.Cell) { c.Spec.PlannerNoise = 1 })
	files := rendered(t, ofCells(t, resultstest.Cells(t, resultstest.HandPlan, nil), half, noise))
	read := func(name string) (head []string, rows []map[string]string) {
		all, err := csv.NewReader(bytes.NewReader(files[name])).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range all[1:] {
			row := map[string]string{}
			for i, v := range line {
				row[all[0][i]] = v
			}
			rows = append(rows, row)
		}
		return all[0], rows
	}
	head, lines := read("report.csv")
	columns, episodes := read(Episodes)
	shared := slices.DeleteFunc(head, func(c string) bool { return c == "pre_solved" || !slices.Contains(columns, c) })
	if want := []string{"task", "solver", "method", "seed", "tier", "settings", "variant"}; !slices.Equal(shared, want) {
		t.Errorf("both files have %v, want %v", shared, want)
	}
	for _, line := range lines {
		n, hits := 0, 0
		for _, e := range episodes {
			if !slices.ContainsFunc(shared, func(c string) bool { return e[c] != line[c] }) {
				n++
				if e["success"] == "1" {
					hits++
				}
			}
		}
		if got := fmt.Sprint(n, " ", hits); line["method"] != resultstest.Random && got != line["n"]+" "+line["successes"] {
			t.Errorf("%v has %s episodes and successes", line, got)
		}
	}
}

func TestHTMLIsSelfContained(t *testing.T) {
	page := string(rendered(t, complete(t))["report.html"])
	for _, bad := range []string{`(?i)(src|href)\s*=\s*["']?\s*(https?:)?//`, `(?i)url\(`, `(?i)@import`, `(?i)<link`, `ZgotmplZ`, `NaN`, `%!`} {
		if m := regexp.MustCompile(bad).FindString(page); m != "" {
			t.Errorf("the page has %q", m)
		}
	}
	for _, want := range []string{"data:image/gif;base64,R0lGOD", "83.3", "96.7", "distance of agent and target &lt; 16 px", "+15.6", "tab:full-tworoom", "99.8"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, "<svg") - strings.Count(page, `class="swatch `); n != 1+1+3+3+5 {
		t.Errorf("%d figures, want compute, forest, 3 of sets, 3 of steps, 5 of training", n)
	}
}

// wellFormed parses a page strictly as XML, after closing its void tags and removing
// its style and script.
func wellFormed(page string) error {
	page = regexp.MustCompile(`(?s)<style>.*?</style>|<script>.*?</script>|<!DOCTYPE html>`).ReplaceAllString(page, "")
	page = regexp.MustCompile(`<(meta|img)([^>]*)>`).ReplaceAllString(page, "<$1$2/>")
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	for {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestHTMLIsWellFormed(t *testing.T) {
	if err := wellFormed(string(rendered(t, complete(t))["report.html"])); err != nil {
		t.Error(err)
	}
	if wellFormed("<p><b></p>") == nil {
		t.Error("the test finds nothing")
	}
}

// Names from other people's files never become markup.
func TestHTMLEscapes(t *testing.T) {
	r := complete(t)
	r.Warnings = append(r.Warnings, "<script>alert(1)</script>")
	r.Blocks[0].Arms[0].Method = `q"><b>`
	page := string(rendered(t, r)["report.html"])
	if strings.Contains(page, "alert(1)</script>") || strings.Contains(page, `q"><b>`) {
		t.Error("a name was taken for markup")
	}
	if err := wellFormed(page); err != nil {
		t.Error(err)
	}
}

// Several tasks and solvers get an overview and one summary line each.
func TestSeveralBlocks(t *testing.T) {
	cells := resultstest.Cells(t, resultstest.HandPlan, nil)
	for _, solver := range []string{"icem", "mppi"} {
		for _, c := range resultstest.Cells(t, resultstest.HandPlan[:9], nil) {
			c.ID, c.Spec.Solver = c.ID+solver, solver
			cells = append(cells, c)
		}
	}
	r := ofCells(t, cells)
	if s := r.Summary(); strings.Count(s, "\n") != 7 || !strings.Contains(s, "Two-Room, iCEM") {
		t.Errorf("summary:\n%s", s)
	}
	if !strings.Contains(r.lead(), "SCALE is above LeWM on 3 of 3") {
		t.Errorf("lead %q", r.lead())
	}
	if err := wellFormed(string(rendered(t, r)["report.html"])); err != nil {
		t.Error(err)
	}
}

func TestSummaryIsShort(t *testing.T) {
	s := complete(t).Summary()
	if n := strings.Count(s, "\n"); n != 11 {
		t.Errorf("%d lines, want 11 and the report's address:\n%s", n, s)
	}
	for _, want := range []string{"SCALE − LeWM: +15.6 points", "30 paired episodes", "Trained on Two-Room: ", "The paper: ViT-Tiny"} {
		if !strings.Contains(s, want) {
			t.Errorf("summary lacks %q:\n%s", want, s)
		}
	}
}
