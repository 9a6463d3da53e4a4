package infer

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/dataset/safefile/fuzztest"
	"scalewm/eval/results"
)

func parse(t *testing.T, name, text string) *Side {
	t.Helper()
	a := &Side{Name: name}
	if err := readCSV(strings.NewReader(text), a.addStated); err != nil {
		t.Fatal(err)
	}
	return a
}

// arms returns two arms at one tier with the four counts of a 2 x 2 table, distributed
// over two sets.
func arms(t *testing.T, tier string, both, onlyA, onlyB, neither int) (*Side, *Side) {
	var a, b strings.Builder
	a.WriteString("set,episode,tier,success\n")
	b.WriteString("success,tier,episode,set,ignored\n")
	e := 0
	for kind, n := range []int{both, onlyA, onlyB, neither} {
		for range n {
			fmt.Fprintf(&a, "s10%d,%d,%s,%v\n", 1+e%2, e/2, tier, kind < 2)
			fmt.Fprintf(&b, "%d,%s,%d,s10%d,x\n", map[bool]int{true: 1}[kind%2 == 0 && kind < 3], tier, e/2, 1+e%2)
			e++
		}
	}
	return parse(t, "a", a.String()), parse(t, "b", b.String())
}

// compare pairs two arms like `scalewm compare`: it returns everything, or an error.
func compare(a, b *Side) (*Comparison, error) {
	c := Compare(a, b, Options{SameDevice: true})
	return c, c.Err()
}

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// The expected counts, interval and p-values of (90, 7, 1, 2) are those of
// docs/sources.md#newcombe and docs/sources.md#mcnemar.
func TestOneTier(t *testing.T) {
	a, b := arms(t, "T1", 90, 7, 1, 2)
	r, err := compare(a, b)
	if err != nil {
		t.Fatal(err)
	}
	row := r.ByTier[0]
	if len(r.ByTier) != 1 || row.Both != 90 || row.OnlyA != 7 || row.OnlyB != 1 || row.Neither != 2 || row.N != 100 || row.Sets != 2 || row.EpisodesA != 100 {
		t.Errorf("counts %+v", row)
	}
	near(t, "difference", row.Diff, 6, 1e-12)
	near(t, "rate of A", row.RateA, 97, 1e-12)
	near(t, "rate of B", row.RateB, 91, 1e-12)
	near(t, "lower", row.Lo, 0.02, 0.005)
	near(t, "upper", row.Hi, 12.99, 0.005)
	near(t, "McNemar", row.P, .0703125, 1e-12)
	near(t, "mid-p", *row.MidP, .0390625, 1e-12)
	near(t, "Holm", *row.HolmP, .0703125, 1e-12)
	near(t, "sign flip over two sets", row.SetP, 0.5, 1e-12) // both sets positive: 2 of 4 sign vectors
	if r.Mean.Test != McNemar || r.Mean.P != row.P || r.Mean.Tier != Mean || r.Mean.HolmP != nil {
		t.Errorf("the mean of one tier is %+v", r.Mean)
	}
	if len(r.Notes) != 0 {
		t.Errorf("notes %v", r.Notes)
	}
}

// There are two tiers of 100 episodes, of which B lacks 10, and a tier that only A has.
func TestTiersAndMissingEpisodes(t *testing.T) {
	var a, b strings.Builder
	a.WriteString("set,episode,tier,success\n")
	b.WriteString("set,episode,tier,success\n")
	for e := range 100 {
		fmt.Fprintf(&a, "s1,%d,T1,1\ns1,%d,T2,%d\ns1,%d,T9,1\n", e, e, e%2, e)
		fmt.Fprintf(&b, "s1,%d,T1,%d\n", e, map[bool]int{true: 1}[e >= 20])
		if e >= 10 {
			fmt.Fprintf(&b, "s1,%d,T2,%d\n", e, e%2)
		}
	}
	r, err := compare(parse(t, "a", a.String()), parse(t, "b", b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.ByTier) != 2 || r.ByTier[0].N != 100 || r.ByTier[1].N != 90 || r.ByTier[1].EpisodesA != 100 || r.ByTier[1].EpisodesB != 90 {
		t.Fatalf("rows %+v", r.ByTier)
	}
	want := []string{"tier T9 is only in a", "tier T2: 90 episodes in both arms, of 100 and 90"}
	if strings.Join(r.Notes, "\n") != strings.Join(want, "\n") {
		t.Errorf("notes %q, want %q", r.Notes, want)
	}
	// Holm over two tiers doubles the p of T1, which is 2/2^20. That of T2 is 1.
	near(t, "Holm of T1", *r.ByTier[0].HolmP, 4*math.Pow(2, -20), 1e-15)
	near(t, "Holm of T2", *r.ByTier[1].HolmP, 1, 0)
	// Of the 90 complete episodes 10 differ, at one of two tiers: 100*10/180 points.
	near(t, "mean difference", r.Mean.Diff, 100.0*10/180, 1e-12)
	if r.Mean.N != 90 || r.Mean.Test != EpisodeFlip || r.Mean.Interval != Bootstrap || r.Mean.MidP != nil || !(r.Mean.Lo > 0 && r.Mean.Lo < r.Mean.Diff && r.Mean.Diff < r.Mean.Hi) {
		t.Errorf("mean %+v", r.Mean)
	}
	near(t, "sign flip over episodes", r.Mean.P, 2*math.Pow(2, -10), 7e-4) // exact law of 10 equal differences, 5 standard errors
}

// Every condition that differs is refused by name. A condition that an arm does not
// state is not.
func TestRefusals(t *testing.T) {
	const head, row = "set,episode,tier,success", "s101,0,T1,1"
	for _, name := range Conditions() {
		a := parse(t, "a", head+","+name+"\n"+row+",x\n")
		b := parse(t, "b", head+","+name+"\n"+row+",y\n")
		_, err := compare(a, b)
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(name, "_", " ")) || !strings.Contains(err.Error(), "hint") {
			t.Errorf("another %s: %v", name, err)
		}
		if _, err := compare(a, parse(t, "b", head+"\n"+row+"\n")); err != nil {
			t.Errorf("no %s in B: %v", name, err)
		}
	}
	for what, b := range map[string]string{
		"no tier in common":         "s101,0,T2,1",
		"none of their 1 and 1":     "s101,1,T1,1",
		"none of their 1 and 1 epi": "s102,0,T1,1",
	} {
		if _, err := compare(parse(t, "a", head+"\n"+row+"\n"), parse(t, "b", head+"\n"+b+"\n")); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	a := parse(t, "a", head+"\ns1,0,T1,1\ns1,1,T2,1\n")
	if _, err := compare(a, a); err == nil || !strings.Contains(err.Error(), "all of the 2 tiers") {
		t.Errorf("tiers without a common episode: %v", err)
	}
}

func TestBadCSV(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "empty",
		"set,episode,tier\n": "no column success",
		"set,episode,tier,success,success\ns,0,T,1,0\n":         "it has several columns success (hint: ",
		"Set,episode,tier,success, set\ns,0,T,1,s\n":            "it has several columns set (hint: ",
		"set,episode,tier,success,device,device\ns,0,T,1,a,b\n": "it has several columns device (hint: ",
		"set,episode,tier,success\n":                            "no episodes",
		"set,episode,tier,success\ns,0,T\n":                     "wrong number of fields",
		"set,episode,tier,success\ns,0,T,maybe\n":               `line 2: the success "maybe"`,
		"set,episode,tier,success\ns,-1,T,1\n":                  `line 2: the episode "-1"`,
		"set,episode,tier,success\n,1,T,1\n":                    "line 2: the set has no name",
		"set,episode,tier,success\ns,0,T,1\ns,0,T,0\n":          "line 3: episode 0 of set s",
	} {
		a := &Side{}
		if err := readCSV(strings.NewReader(text), a.addStated); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func spec(method, tier, set string, seed int) results.Spec {
	s := results.Spec{Schema: results.Schema, Task: "tworoom", Method: method, TrainSeed: seed, Data: "d", Solver: "cem", Tier: tier, Candidates: 300, Set: set, SetHash: "h" + set, Episodes: 4}
	if method == "random" {
		s.Solver, s.Tier, s.Candidates = "", "", 0
	}
	return s
}

func store(t *testing.T, dir, device string, s results.Spec, wins int) string {
	t.Helper()
	re := results.Result{Device: device}
	for e := range 4 {
		r := results.Row{Episode: e, Trajectory: 10 * e, Success: e < wins, PlannerSeed: uint32(e)}
		if s.Tier == "" {
			r.PlannerSeed = 0
		}
		re.Rows = append(re.Rows, r)
	}
	id, err := cell.ID(results.Kind, s)
	if err == nil {
		err = (cell.Store{Dir: dir}).Save(id, results.Kind, s, re)
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestCells(t *testing.T) {
	dir := t.TempDir()
	cells := filepath.Join(dir, results.CellsDir)
	for _, set := range []string{"s101", "s102"} {
		for _, tier := range []string{"T1", "T3"} {
			store(t, cells, "cpu", spec("scale", tier, set, 0), 3)
			store(t, cells, "cpu", spec("lewm", tier, set, 0), 2)
			store(t, cells, "gpu", spec("aux", tier, set, 0), 2)
		}
		store(t, cells, "cpu", spec("random", "", set, 0), 1)
	}
	one := store(t, cells, "cpu", spec("untrained", "T1", "s101", 0), 0)
	load := func(name string) *Side {
		t.Helper()
		a, err := Load(t.Context(), name, Filter{Solver: "cem"})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	r, err := compare(load(dir+":scale"), load(dir+":lewm"))
	if err != nil || len(r.ByTier) != 2 || r.ByTier[1].N != 8 || r.ByTier[1].OnlyA != 2 || r.Mean.N != 8 || r.Mean.Sets != 2 {
		t.Errorf("scale and lewm: %+v, %v", r, err)
	}
	r, err = compare(load(dir+":scale"), load(dir+":random"))
	if err != nil || len(r.ByTier) != 2 || r.ByTier[0].Tier != "T1" || r.ByTier[0].OnlyA != 4 {
		t.Errorf("scale and random actions: %+v, %v", r, err)
	}
	r, err = compare(load(filepath.Join(cells, one+".json")), load(dir+":lewm"))
	if err != nil || len(r.ByTier) != 1 || r.ByTier[0].N != 4 || r.ByTier[0].OnlyB != 2 || len(r.Notes) != 2 {
		t.Errorf("a single cell: %+v, %v", r, err)
	}
	if _, err := compare(load(dir+":scale"), load(dir+":aux")); err == nil || !strings.Contains(err.Error(), "device is cpu in one arm and gpu") {
		t.Errorf("other device kinds: %v", err)
	}
	if b, err := json.Marshal(r); err != nil || !strings.Contains(string(b), `"mid_p"`) {
		t.Errorf("JSON %s, %v", b, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	cells := filepath.Join(dir, results.CellsDir)
	store(t, cells, "cpu", spec("scale", "T1", "s101", 0), 3)
	store(t, cells, "cpu", spec("scale", "T1", "s101", 1), 3)
	if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.toml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		t.TempDir():                             "it holds no evaluation cells",
		dir + ":scale":                          "it holds 2 arms (tworoom scale cem seed 0; tworoom scale cem seed 1)",
		dir + ":lewm":                           "none of its 2 cells fits",
		filepath.Join(dir, "none"):              "there is no",
		filepath.Join(dir, "x.toml"):            "it is not an arm (hint: ",
		filepath.Join(dir, "x.json"):            "not a valid cell",
		filepath.Join(dir, "x.json") + ":scale": "not a valid cell",
	} {
		if _, err := Load(t.Context(), name, Filter{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	if a, err := Load(t.Context(), dir+":scale", Filter{Seed: "1", Task: "tworoom"}); err != nil || len(a.at(1, "T1")["s101"]) != 4 {
		t.Errorf("one seed of two: %v", err)
	}
	if _, err := Load(t.Context(), dir, Filter{Task: "pusht"}); err == nil {
		t.Error("no cell of the task: no error")
	}
}

// The share of costs that are not finite is noted for the arm and tier that have it.
func TestNotesCosts(t *testing.T) {
	store := cell.Store{Dir: filepath.Join(t.TempDir(), results.CellsDir)}
	for set := range 2 {
		spec := results.Spec{Schema: results.Schema, Task: "tworoom", Method: "lewm", Weights: "w", Solver: "cem", Tier: "T5", Candidates: 10, Iterations: 3, Episodes: 1, Set: fmt.Sprintf("s10%d", set), Rules: results.Rules{Budget: 50}}
		id, err := cell.ID(results.Kind, spec)
		if err == nil {
			err = store.Save(id, results.Kind, spec, results.Result{Rows: []results.Row{{Steps: 50, Replans: 2, NaNCosts: 15 * set}}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	a, err := Load(t.Context(), filepath.Dir(store.Dir), Filter{})
	if want := "12.5 % of the costs were NaN or infinite, and counted as the worst"; err != nil || len(a.Notes) != 1 || !strings.HasSuffix(a.Notes[0], ", T5: "+want) { // 15 of 120
		t.Errorf("notes %q, %v; want %q", a.Notes, err, want)
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add("set,episode,tier,success\ns101,0,T1,1\ns101,1,T1,false\n")
	f.Add("\ufeffSuccess,tier,episode,set,set_hash\n0,T1,3,s1,\"a\"\n")
	f.Add("set,episode,tier,success\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		a := &Side{}
		var err error
		fuzztest.Read(t, len(text), func() { err = readCSV(strings.NewReader(text), a.addStated) })
		if err != nil {
			return
		}
		r, err := compare(a, a)
		if err != nil { // only where tiers have no episode in common
			return
		}
		if r.Mean.Diff != 0 || r.Mean.P != 1 {
			t.Fatalf("an arm differs from itself: %+v", r.Mean)
		}
	})
}
