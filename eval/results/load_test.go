package results

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset/cell"
)

// save writes an evaluation cell of one episode, with the current schema unless s has
// one, and returns its id.
func save(t *testing.T, dir string, s Spec) string {
	t.Helper()
	s.Schema = cmp.Or(s.Schema, Schema)
	id, err := cell.ID(Kind, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := (cell.Store{Dir: dir}).Save(id, Kind, s, Result{Device: "test", Rows: []Row{{Success: true}}}); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestProtocolTitle(t *testing.T) {
	for name, want := range map[string]string{
		"strict+changed":                      "strict",
		"clear-strict-0.8+own-pairs":          "clear-strict-0.8 (own pairs)",
		"clear-strict-0.8+other-data+changed": "clear-strict-0.8 (other data)",
	} {
		if got := ProtocolTitle(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	one := filepath.Join(dir, CellsDir)
	two := filepath.Join(dir, "shard", "1", CellsDir)
	a := save(t, one, Spec{Task: "tworoom", Set: "s101"})
	save(t, two, Spec{Task: "tworoom", Set: "s101"}) // the same cell, from another shard
	b := save(t, two, Spec{Task: "tworoom", Set: "s102"})
	if err := (cell.Store{Dir: two}).SaveRun(b, Run{Host: "h", Seconds: 2}); err != nil {
		t.Fatal(err)
	}
	// Other kinds of cells and files outside the folders of cells do not count.
	other := map[string]int{"x": 1}
	id, err := cell.ID("other", other)
	if err != nil {
		t.Fatal(err)
	}
	if err := (cell.Store{Dir: one}).Save(id, "other", other, other); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "notes.json"), "{")
	if err := os.Mkdir(filepath.Join(dir, GatesDir), 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, GatesDir, "tworoom.json"), `{"task":"tworoom","error":3.5,"limit":3}`)
	write(t, filepath.Join(one, "torn.json"), `{"id":"torn","kind":"eval"`)
	write(t, filepath.Join(one, a+".run.json"), `{"started":`)

	f, err := Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Cells) != 2 || f.Cells[0].ID > f.Cells[1].ID {
		t.Fatalf("cells %v, want the two of %s and %s in order", f.Cells, a, b)
	}
	for _, c := range f.Cells {
		if want := map[string]string{a: "s101", b: "s102"}[c.ID]; c.Spec.Set != want || c.Result.Rate() != 100 {
			t.Errorf("cell %s: set %s rate %v, want %s and 100", c.ID, c.Spec.Set, c.Result.Rate(), want)
		}
	}
	if len(f.Gates) != 1 || f.Gates[0].Task != "tworoom" || f.Gates[0].Passed() {
		t.Errorf("gates %+v, want that of tworoom, not passed", f.Gates)
	}
	if len(f.Runs) != 1 || f.Runs[b].Seconds != 2 {
		t.Errorf("runs %v, want that of %s alone", f.Runs, b)
	}
	if len(f.Torn) != 1 || !strings.Contains(f.Torn[0], "torn.json") || len(f.Problems) != 1 || !strings.Contains(f.Problems[0], a+".run.json") {
		t.Errorf("torn %q, problems %q, want torn.json and %s%s", f.Torn, f.Problems, a, ".run.json")
	}
}

// Shards of different machines that computed one cell with different results cannot be
// merged.
func TestLoadRefusesDifferingCopies(t *testing.T) {
	dir := t.TempDir()
	id := save(t, filepath.Join(dir, "a", CellsDir), Spec{Set: "s101"})
	other := cell.Store{Dir: filepath.Join(dir, "b", CellsDir)}
	if err := other.Save(id, Kind, Spec{Schema: Schema, Set: "s101"}, Result{Device: "another"}); err != nil {
		t.Fatal(err)
	}
	_, err := Load(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), "twice with different results") || !strings.Contains(err.Error(), "(hint:") {
		t.Errorf("error %v, want the cell named, both places and a hint", err)
	}
}

// The fields of a cell of another schema could have another meaning.
func TestLoadRefusesOtherSchemas(t *testing.T) {
	for _, schema := range []int{Schema - 1, Schema + 1} {
		dir := t.TempDir()
		save(t, filepath.Join(dir, CellsDir), Spec{Schema: schema, Set: "s101"})
		f, err := Load(t.Context(), dir)
		want := fmt.Sprintf("schema %d, and this program reads schema 2 (hint: ", schema)
		if err != nil || len(f.Cells) != 0 || len(f.Torn) != 1 || !strings.Contains(f.Torn[0], want) {
			t.Errorf("%+v, %v; want the cell as a problem, %q", f, err, want)
		}
	}
}

func TestLoadMissingFolder(t *testing.T) {
	_, err := Load(t.Context(), filepath.Join(t.TempDir(), "nowhere"))
	if err == nil || !strings.Contains(err.Error(), "nowhere") || !strings.Contains(err.Error(), "(hint:") {
		t.Errorf("error %v, want the folder and a hint", err)
	}
}

func TestLoadEmptyFolder(t *testing.T) {
	f, err := Load(t.Context(), t.TempDir())
	if err != nil || len(f.Cells) != 0 || len(f.Problems) != 0 {
		t.Errorf("got %v, %v; want an empty folder", f, err)
	}
}

func TestRate(t *testing.T) {
	rows := []Row{{Success: true}, {}, {Success: true}, {}}
	if got := (Result{Rows: rows}).Rate(); got != 50 {
		t.Errorf("rate %v, want 50 (2 of 4)", got)
	}
	if got := (Result{}).Rate(); got != 0 {
		t.Errorf("rate of no rows %v, want 0", got)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// Tuning cells are no results, also if the results have the same cell.
func TestLoadTuning(t *testing.T) {
	dir := t.TempDir()
	spec := Spec{Schema: Schema, Task: "tworoom", Method: "lewm", Solver: MPPI, Tier: "T5", Set: TuningSet, Episodes: 1, Rules: Rules{Temperature: 8}}
	for _, spec.Temperature = range []float64{8, 32} {
		id, err := cell.ID(Kind, spec)
		if err == nil {
			err = Folder(dir).Tuning().Save(id, Kind, spec, Result{Rows: []Row{{}}})
		}
		if err == nil && spec.Temperature == 32 {
			err = Folder(dir).Cells().Save(id, Kind, spec, Result{Rows: []Row{{}}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := Load(t.Context(), dir)
	if err != nil || len(f.Cells) != 1 || len(f.Tuning) != 2 || len(f.Torn) != 0 || f.Paths[f.Cells[0].ID] != filepath.Join(dir, CellsDir, f.Cells[0].ID+".json") {
		t.Errorf("%d cells, %d of tuning, torn %q, %v; want 1 and 2", len(f.Cells), len(f.Tuning), f.Torn, err)
	}
}

// An analysis is read together with evaluations, into the field of its name.
func TestLoadAnalyses(t *testing.T) {
	dir := t.TempDir()
	store := cell.Store{Dir: filepath.Join(dir, CellsDir)}
	spec := AnalysisSpec{Schema: 1, Analysis: RankAnalysis, Task: "tworoom", Method: "lewm", Device: "cpu/avx512/fp32"}
	// saved saves the alignment with an interval, and returns what Load reads.
	saved := func() Contents {
		id, err := cell.ID(AnalysisKind, spec)
		if err == nil {
			err = store.Save(id, AnalysisKind, spec, []Rank{{N: 3, Spearman: 0.5, Pearson: Number(math.NaN()), Lo: 0.25}})
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := Load(t.Context(), dir)
		if err != nil || len(f.Analyses) != 1 || len(f.Torn) != 0 || f.Analyses[0].ID != id || f.Analyses[0].Spec != spec || len(f.Analyses[0].Rank) != 1 {
			t.Fatalf("%+v, %v", f, err)
		}
		return f
	}
	// An alignment of an earlier version is read without its interval, with a note.
	f := saved()
	if r := f.Analyses[0].Rank[0]; r.Spearman != 0.5 || !math.IsNaN(float64(r.Lo)) || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "interval: 1,") {
		t.Errorf("%+v, notes %q", r, f.Notes)
	}
	// Computed again, it replaces the earlier one.
	spec.Schema = AnalysisSchema
	f = saved()
	if r := f.Analyses[0].Rank[0]; r.Spearman != 0.5 || !math.IsNaN(float64(r.Pearson)) || r.Lo != 0.25 || len(f.Notes) != 0 {
		t.Errorf("%+v, notes %q", r, f.Notes)
	}
}
