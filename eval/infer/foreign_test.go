package infer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// Results of CLEAR-LeWM, whose outcomes testdata/results.py of package clear lists: a
// search succeeds on 0, 1, 3, 4 and random actions on 3 of five episodes.
const (
	search = "../clear/testdata/results/search.json"
	chance = "../clear/testdata/results/random.json"
)

// manifestOf is the SHA-256 of the manifest of both.
func manifestOf(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(search)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), `"manifest_sha256": "`)
	return after[:64]
}

// rewritten writes a fixture with a text replaced, and returns its path.
func rewritten(t *testing.T, path, old, new string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), old, new, 1)
	if text == string(b) {
		t.Fatalf("%s has no %q", path, old)
	}
	return written(t, filepath.Base(path), text)
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	resultstest.Put(t, path, text)
	return path
}

func loaded(t *testing.T, name string) *Side {
	t.Helper()
	a, err := Load(t.Context(), name, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// onManifest returns the test folder's cells of LeWM and SCALE at T1 and T3 as they
// would be on the manifest of the fixtures, which has five episodes. LeWM solves 2 of
// them, SCALE 4 and 5.
func onManifest(t *testing.T, set string) []results.Cell {
	t.Helper()
	sha := manifestOf(t)
	return resultstest.Cells(t, []plan{p(lewm, "T1", 2), p(lewm, "T3", 2), p(scale, "T1", 4), p(scale, "T3", 5)}, func(c *results.Cell) {
		c.Spec.Protocol, c.Spec.Set, c.Spec.Manifest, c.Spec.Collision = "clear-moderate-0.8", set, sha, results.Swept
		c.Spec.Episodes, c.Result.Rows = 5, c.Result.Rows[:5]
	})
}

func TestCompareResults(t *testing.T) {
	r, err := compare(loaded(t, search), loaded(t, chance))
	if err != nil || len(r.ByTier) != 1 || r.ByTier[0].Tier != "T1" || r.ByTier[0].OnlyA != 3 || r.ByTier[0].OnlyB != 0 || r.ByTier[0].Both != 1 || r.ByTier[0].Neither != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if note := loaded(t, search).Notes; len(note) != 1 || !strings.Contains(note[0], `CLEAR-LeWM v0.8: policy "mine", inference cem, checkpoint "mine/tworoom/weights.pt"`) {
		t.Errorf("notes %q", note)
	}
	// The set is that of the manifest, whatever its file was called here. LeWM solves 0 and 1.
	us := &Side{Name: "lewm"}
	for _, c := range onManifest(t, "m-renamed") {
		if c.Spec.Method == lewm {
			if err := us.Add(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err = compare(loaded(t, search), us)
	if err != nil || len(r.ByTier) != 1 || r.ByTier[0].N != 5 || r.ByTier[0].OnlyA != 2 || r.ByTier[0].Both != 2 || !slices.Contains(r.Notes, "tier T3 is only in lewm") {
		t.Errorf("with cells: %+v, %v", r, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{manifestOf(t), strings.Repeat("0", 64), "manifest is " + manifestOf(t)[:12] + " in one arm and 000000000000 in the other"},
		{`"task": "tworoom"`, `"task": "cube"`, "task is tworoom in one arm and cube in the other"},
		{`"goal_offset": 25`, `"goal_offset": 50`, "goal offset is 25 in one arm and 50 in the other"},
		{`"eval_budget": 50`, `"eval_budget": 40`, "budget is 50 in one arm and 40 in the other"},
		{`"tworoom_distance_threshold": 16.0,
    "tworoom_goal`, `"tworoom_distance_threshold": 8.0,
    "tworoom_goal`, "judge is upstream in one arm and "},
	} {
		if _, err := compare(loaded(t, search), loaded(t, rewritten(t, search, c.old, c.new))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
	if _, err := compare(loaded(t, search), loaded(t, rewritten(t, search, "/moderate.json", "/renamed.json"))); err != nil {
		t.Errorf("the same manifest under another path: %v", err)
	}
	// Sets of different names and different manifests: the error names both manifests.
	other := rewritten(t, rewritten(t, search, manifestOf(t), strings.Repeat("0", 64)), "/moderate.json", "/strict.json")
	if _, err := compare(loaded(t, search), loaded(t, other)); err == nil || !strings.Contains(err.Error(), "none of their 5 and 5 episodes is in both: manifest is ") {
		t.Errorf("another manifest: %v", err)
	}
	// A search that spends less is at another tier.
	cheap := rewritten(t, search, `"num_samples": 300`, `"num_samples": 128`)
	if _, err := compare(loaded(t, search), loaded(t, cheap)); err == nil || !strings.Contains(err.Error(), "no tier in common") || loaded(t, cheap).tiers()[0] != "c128-i30-e30" {
		t.Errorf("another tier: %v", err)
	}
	if _, err := Load(t.Context(), rewritten(t, search, "}\n", ""), Filter{}); err == nil || !strings.Contains(err.Error(), "not valid JSON (hint: ") {
		t.Errorf("torn: %v", err)
	}
}

// with infers the table of cells with the outcomes of other programs.
func with(t *testing.T, cells []results.Cell, list string) (*Table, error) {
	t.Helper()
	arms, err := ReadForeign(list)
	if err != nil {
		return nil, err
	}
	return Infer(&results.Contents{Cells: cells, Gates: []results.Gate{resultstest.Gate}}, Options{With: arms})
}

// csvOf writes the outcomes of a method of cells as another program would.
func csvOf(cells []results.Cell, method string, tiers bool) string {
	var w strings.Builder
	w.WriteString("set,episode,success,tier\n")
	for _, c := range cells {
		for _, r := range c.Result.Rows {
			if c.Spec.Method == method {
				fmt.Fprintf(&w, "%s,%d,%v,%s\n", c.Spec.Set, r.Episode, r.Success, map[bool]string{true: c.Spec.Tier}[tiers])
			}
		}
	}
	return w.String()
}

// A method's outcomes in a file have the numbers of its cells: success, its SD and
// interval, and the differences to LeWM with their tests.
func TestForeignArmHasTheNumbersOfItsCells(t *testing.T) {
	cells := resultstest.Contents(t).Cells
	table, err := with(t, cells, "theirs="+written(t, "a.csv", csvOf(cells, scale, true)))
	if err != nil {
		t.Fatal(err)
	}
	b := table.Blocks[0]
	for _, tier := range append(b.TierNames(), Mean) {
		theirs, ours := table.Success(b, arm("theirs"), tier), table.Success(b, arm(scale), tier)
		if theirs == nil || *theirs.Value != *ours.Value || *theirs.SD != *ours.SD || theirs.N != ours.N {
			t.Errorf("success at %s: %+v, want %+v", tier, theirs, ours)
		}
		n := Number{What: Diff, Place: b.Place.At(tier), Minus: arm(lewm)}
		n.Of = arm(scale)
		want := find(t, table, n)
		n.Of = arm("theirs")
		if got := find(t, table, n); *got.Value != *want.Value || *got.P != *want.P || *got.Lo != *want.Lo || got.N != want.N {
			t.Errorf("difference at %s: %+v, want %+v", tier, got, want)
		}
	}
	// What the file does not state is not in the table, and the checks do not count it.
	if n := table.Find(Number{What: MeanSteps, Place: b.Place.At("T1"), Of: arm("theirs")}); n != nil {
		t.Errorf("steps of another program: %+v", n)
	}
	if s := table.Success(b, arm("theirs"), "T1").How.(*Score); len(s.Solved) != 0 {
		t.Errorf("a curve of steps of another program: %v", s.Solved)
	}
	plain := ofCells(t, cells)
	for i, c := range plain.Checks {
		if c.Name != "No start is solved already" && c.Verdict != table.Checks[i].Verdict {
			t.Errorf("the check %s is %+v, without the file %+v", c.Name, table.Checks[i], c)
		}
	}
	if got, want := table.Origin.Cells, plain.Origin.Cells; got != want {
		t.Errorf("%d evaluated cells, want %d", got, want)
	}
}

// A file without tiers is a policy, which is compared with every tier.
func TestForeignPolicy(t *testing.T) {
	cells := resultstest.Contents(t).Cells
	table, err := with(t, cells, "theirs="+written(t, "a.csv", csvOf(cells, random, false)))
	if err != nil {
		t.Fatal(err)
	}
	b := table.Blocks[0]
	for _, tier := range b.TierNames() {
		// LeWM is above random actions by the difference of their successes.
		d := find(t, table, Number{What: Diff, Place: b.Place.At(tier), Of: arm("theirs@policy"), Minus: arm(lewm)})
		want := *table.Success(b, arm(random), tier).Value - *table.Success(b, arm(lewm), tier).Value
		near(t, "difference at "+tier, *d.Value, want, 1e-9)
	}
}

// Results of CLEAR-LeWM join the cells of their manifest, and --why names the file.
func TestForeignResults(t *testing.T) {
	table, err := with(t, onManifest(t, "m-renamed"), "theirs="+search+",floor="+chance)
	if err != nil {
		t.Fatal(err)
	}
	b := table.Blocks[0]
	if n := table.Success(b, arm("theirs"), "T1"); n == nil || *n.Value != 80 || n.N != 5 {
		t.Errorf("success %+v", n)
	}
	if n := table.Success(b, arm("theirs"), "T3"); n != nil {
		t.Errorf("success at a tier that the file does not have: %+v", n)
	}
	if n := table.Success(b, arm("floor@policy"), "T3"); n == nil || *n.Value != 20 {
		t.Errorf("success of random actions %+v", n)
	}
	d := find(t, table, Number{What: Diff, Place: b.Place.At("T1"), Of: arm("theirs"), Minus: arm(lewm)})
	if *d.Value != 40 || d.N != 5 { // 4 against 2 of 5
		t.Errorf("difference %+v", d)
	}
	table.Paths = map[string]string{}
	for _, c := range table.Cells {
		table.Paths[c.ID] = search // any file
	}
	w, err := table.Why(d)
	if err != nil || len(w.Rows) != 1 || w.Rows[0].(OfPair).OnlyA != 2 || !slices.ContainsFunc(w.Cells, func(c WhyCell) bool {
		return c.Path == search && c.SHA256 == table.Foreign[0].Files[0].SHA256 && c.ID != ""
	}) {
		t.Errorf("%+v, %v", w, err)
	}
	if note := table.Foreign[0].Note(); !strings.Contains(note, search) || !strings.Contains(note, table.Foreign[0].Files[0].SHA256[:12]) || !strings.Contains(note, "CLEAR-LeWM v0.8") {
		t.Errorf("note %q", note)
	}
}

// A folder with two settings has the file's outcomes in each that agrees with it. Files
// of one name are one arm.
func TestForeignInSeveralSettings(t *testing.T) {
	plans := []plan{p(lewm, "T1", 8, 7), p(scale, "T1", 9, 9)}
	cells := append(resultstest.Cells(t, plans, nil), resultstest.Cells(t, plans, func(c *results.Cell) { c.Spec.Budget = 75 })...)
	all := func(set, budget string) (text string) {
		text = "set,episode,tier,success,budget\n"
		for e := range resultstest.Episodes {
			text += fmt.Sprintf("%s,%d,T1,%v,%s\n", set, e, e < 3, budget)
		}
		return text
	}
	for budget, want := range map[string]int{"": 2, "75": 1} {
		list := "theirs=" + written(t, "a.csv", all("s101", budget)) + ",theirs=" + written(t, "b.csv", all("s102", budget))
		table, err := with(t, cells, list)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, b := range table.Blocks {
			if n := table.Success(b, arm("theirs"), "T1"); n != nil && n.N == 20 && *n.Value == 30 {
				found++
			}
		}
		if found != want || len(table.Foreign) != 1 || len(table.Foreign[0].Files) != 2 {
			t.Errorf("budget %q: both sets in %d blocks, want %d", budget, found, want)
		}
	}
}

func TestForeignRefuses(t *testing.T) {
	cells := resultstest.Contents(t).Cells
	cells = append(cells, resultstest.Cells(t, []plan{p(lewm, "T1", 5)}, func(c *results.Cell) { c.Spec.Solver = results.ICEM })...)
	head := "set,episode,tier,success\n"
	whole := func(name, columns, more string) string {
		text := "set,episode,tier,success" + columns + "\n"
		for e := range resultstest.Episodes {
			text += fmt.Sprintf("s101,%d,T1,0%s\n", e, more)
		}
		return written(t, name, text)
	}
	for list, want := range map[string]string{
		"nowhere.csv": "nowhere.csv",
		written(t, "lewm.csv", head+"s101,0,T3,1\n"):                                                            "lewm is a method of this program (hint: name the arm",
		written(t, "a@b.csv", head+"s101,0,T3,1\n"):                                                             "has a variant (hint: name the arm",
		"-=" + written(t, "x.csv", head+"s101,0,T3,1\n"):                                                        "is not a valid name",
		written(t, "x.txt", "x"):                                                                                "it is no result (hint: ",
		written(t, "cell.json", `{"kind": "eval"}`):                                                             "it is no result (hint: ",
		written(t, "x.csv", head+"s101,10,T3,1\n"):                                                              "episode 10 of set s101 (T3) has no counterpart in the folder (hint: ",
		written(t, "x.csv", head+"s109,3,T3,1\n"):                                                               "episode 3 of set s109 (T3) has no counterpart",
		written(t, "x.csv", head+"s101,0,T2,1\n"):                                                               "episode 0 of set s101 (T2) has no counterpart",
		whole("x.csv", "", ""):                                                                                  "it does not state its solver, and the folder has 2 (hint: a column solver)",
		written(t, "x.csv", "task,"+head+"pusht,s101,0,T3,1\n"):                                                 "episode 0 of set s101 (pusht T3) has no counterpart",
		written(t, "x.csv", "set,episode,tier,success,goal_offset\ns101,0,T3,1,50\n"):                           "goal offset is 50 in one arm and 25 in the other (hint: ",
		written(t, "x.csv", "set,episode,tier,success,trajectory\ns101,1,T3,1,4\n"):                             "set s101, episode 1: trajectory is 4 in one arm and 3 in the other",
		written(t, "x.csv", head+"s101,0,T3,1\ns101,0,T3,0\n"):                                                  "line 3: episode 0 of set ",
		"a=" + whole("a.csv", ",solver,data", ",cem,") + ",a=" + whole("b.csv", ",solver,task", ",cem,tworoom"): "have the same place, arm and settings (hint: ",
		written(t, "x.csv", head+"s101,0,T3,1\n"):                                                               "it has 1 of the 10 episodes of set s101 (hint: ",
		search: "has no counterpart in the folder",
	} {
		if _, err := with(t, cells, list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
	}
	if _, err := with(t, resultstest.Cells(t, []plan{p("mine", "T1", 5), p(lewm, "T1", 5)}, nil), "mine="+written(t, "x.csv", head+"s101,0,T1,1\n")); err == nil || !strings.Contains(err.Error(), "the folder has an arm mine already (hint: ") {
		t.Errorf("an arm's name twice: %v", err)
	}
	if _, err := with(t, append(cells, resultstest.Cells(t, []plan{p(lewm, "T3", 5)}, func(c *results.Cell) { c.Spec.Task = "pusht" })...), written(t, "x.csv", head+"s101,0,T3,1\n")); err == nil || !strings.Contains(err.Error(), "it does not state its task, and the folder has 2 (hint: a column task)") {
		t.Errorf("several tasks: %v", err)
	}
}

// FuzzForeign places outcomes with arbitrary conditions next to the cells of the test
// folder: each gets the episodes of a cell there, or is an error.
func FuzzForeign(f *testing.F) {
	f.Add("set,episode,tier,success\ns101,0,T1,1\n")
	f.Add("set,episode,success,task,solver,goal_offset\ns101,9,0,tworoom,cem,25\n")
	f.Add("set,episode,tier,success,manifest,start\ns102,3,T5,1,none,-1\n")
	placed, _ := PlaceCells(resultstest.Cells(f, resultstest.HandPlan, func(c *results.Cell) { c.Spec.Episodes, c.Result.Rows = 1, c.Result.Rows[:1] }))
	f.Fuzz(func(t *testing.T, text string) {
		file, seen := ForeignFile{}, &Side{}
		var out []Placed
		var err error
		fuzztest.Read(t, len(text), func() {
			if err = readCSV(strings.NewReader(text), func(o stated) error { return file.add(o, seen) }); err == nil {
				out, err = placeForeign([]*Foreign{{Name: "theirs", Files: []ForeignFile{file}}}, placed)
			}
		})
		if err == nil && len(out) == 0 {
			t.Error("outcomes were left out silently")
		}
		for _, p := range out {
			if p.ID == "" || p.Settings == nil || len(p.Result.Rows) != 1 || p.Result.Rows[0].Episode != 0 {
				t.Errorf("placed %+v", p)
			}
		}
	})
}
