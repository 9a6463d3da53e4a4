package cell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"scalewm/dataset/safefile"
	"scalewm/dataset/safefile/fuzztest"
)

type spec struct {
	Zeta  string  `json:"zeta"`
	Alpha int     `json:"alpha"`
	Rate  float64 `json:"rate"`
}

type result struct {
	Values []float64 `json:"values"`
	Note   string    `json:"note"`
}

var (
	someSpec   = spec{"<&>", 1 << 60, 0.1}
	someResult = result{[]float64{0.1, 1e-300, 3, math.MaxFloat64}, "a \"quoted\" note"}
)

func save(t *testing.T, s Store) string {
	t.Helper()
	id, err := ID("test", someSpec)
	if err == nil {
		err = s.Save(id, "test", someSpec, someResult)
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Equal cells have equal checksums in all folders, and a cell that was indented by
// hand is the same cell.
func TestChecksum(t *testing.T) {
	a, b := Store{Dir: t.TempDir()}, Store{Dir: t.TempDir()}
	id := save(t, a)
	save(t, b)
	want := sums(t, a)[id]
	text, err := os.ReadFile(b.Path(id))
	if err != nil {
		t.Fatal(err)
	}
	var laidOut bytes.Buffer
	if err := json.Indent(&laidOut, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.Path(id), laidOut.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := sums(t, b)[id]; got != want || want == "" {
		t.Errorf("checksum %s, want %s", got, want)
	}
}

// sums returns the checksums of a store's valid cells by id.
func sums(t *testing.T, s Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := s.Each(t.Context(), func(e Entry, err error) error {
		if err == nil {
			out[e.ID] = e.SHA256
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The expected id was computed outside Go: the first 32 digits of sha256sum of
// "eval\n{"alpha":1,"rate":0.1,"zeta":"<é>"}".
func TestIDIsThePublishedHash(t *testing.T) {
	want := "c0bff8e597b08ea8d8a5543583b13fac"
	for _, v := range []any{spec{"<é>", 1, 0.1}, map[string]any{"rate": 0.1, "zeta": "<é>", "alpha": 1},
		json.RawMessage(` { "zeta":"\u003c\u00e9>", "rate":0.1, "alpha":1 } `)} {
		got, err := ID("eval", v)
		if err != nil || got != want {
			t.Errorf("ID(%v) = %s, %v; want %s", v, got, err, want)
		}
	}
	if other, _ := ID("train", spec{"<é>", 1, 0.1}); other == want {
		t.Error("the kind does not enter the id")
	}
	if _, err := ID("eval", math.NaN()); err == nil {
		t.Error("a spec without a JSON form has an id")
	}
}

func TestSaveLoad(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "made", "on", "demand")}
	id := save(t, s)
	first, err := os.ReadFile(s.Path(id))
	if err != nil {
		t.Fatal(err)
	}
	var sp spec
	var re result
	if err := s.Load(id, &sp, &re); err != nil {
		t.Fatal(err)
	}
	if sp != someSpec || !reflect.DeepEqual(re, someResult) {
		t.Errorf("read back %+v %+v", sp, re)
	}
	if err := s.SaveRun(id, map[string]string{"host": "h"}); err != nil {
		t.Fatal(err)
	}
	if save(t, s); true {
		again, _ := os.ReadFile(s.Path(id))
		if !bytes.Equal(first, again) {
			t.Error("saving the same cell again changed its bytes")
		}
	}
	var sp2 spec
	var re2 result
	err = s.Each(t.Context(), func(e Entry, err error) error {
		if err != nil || e.ID != id || e.Kind != "test" || e.Path() != s.Path(id) {
			t.Errorf("visited %+v, %v; want only %s", e, err, id)
		}
		return e.Into(&sp2, &re2)
	})
	if err != nil || sp2 != someSpec || !reflect.DeepEqual(re2, someResult) {
		t.Errorf("visited %+v %+v, %v", sp2, re2, err)
	}
	if err := s.Save("0123", "test", someSpec, someResult); err == nil {
		t.Error("saved a cell under a foreign id")
	}
	if err := s.Save(id, "test", someSpec, result{Values: []float64{math.NaN()}}); err == nil {
		t.Error("saved a NaN")
	}
}

// A cell that is truncated or altered in any way must not count as done.
func TestTornFilesAreNotDone(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	id := save(t, s)
	whole, err := os.ReadFile(s.Path(id))
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(s.Path(id), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := s.Load(id, nil, nil); !errors.Is(err, ErrTorn) || !strings.Contains(err.Error(), "hint") {
			t.Errorf("%s: Load says %v", name, err)
		}
		torn := 0
		err := s.Each(t.Context(), func(e Entry, err error) error {
			if errors.Is(err, ErrTorn) {
				torn++
			}
			return nil
		})
		if err != nil || torn != 1 {
			t.Errorf("%s: %d torn files visited, %v", name, torn, err)
		}
	}
	for n := 0; n < len(whole)-1; n += 7 {
		check(fmt.Sprint("cut to ", n), whole[:n])
	}
	check("another result", bytes.Replace(whole, []byte("0.1,"), []byte("0.2,"), 1))
	check("another spec", bytes.Replace(whole, []byte(`"alpha":1`), []byte(`"alpha":2`), 1))
	check("text behind", append(bytes.Clone(whole), 'x'))
	check("no spec", []byte(`{"id":"`+id+`","kind":"test","result":1}`))
	check("zeros", make([]byte, len(whole)))
	if err := os.Rename(s.Path(id), s.Path("another")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path("another"), whole, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Load("another", nil, nil); !errors.Is(err, ErrTorn) || len(sums(t, s)) != 0 {
		t.Errorf("a cell under a foreign name: %v", err)
	}
	if err := s.Load("absent", nil, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("loading an absent cell says %v", err)
	}
}

func TestEachWithoutFolder(t *testing.T) {
	if all := sums(t, Store{Dir: filepath.Join(t.TempDir(), "none")}); len(all) != 0 {
		t.Errorf("visited %v; want nothing", all)
	}
}

// TestHelperKilledWriter is not a test: TestKill starts it as a separate process,
// which writes until it is killed.
func TestHelperKilledWriter(t *testing.T) {
	dir := os.Getenv("CELL_TEST_DIR")
	if dir == "" {
		t.Skip("helper process of TestKill")
	}
	s := Store{Dir: dir}
	id, _ := ID("test", someSpec)
	fmt.Println("ready")
	for {
		if err := s.Save(id, "test", someSpec, result{Values: make([]float64, 50000)}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKill(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	id, _ := ID("test", someSpec)
	for range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=TestHelperKilledWriter$", "-test.v")
		cmd.Env = append(os.Environ(), "CELL_TEST_DIR="+s.Dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		seen := make([]byte, 4096) // some output: it runs
		if _, err := out.Read(seen); err != nil {
			t.Fatal(err)
		}
		for range 200 { // readers never see a torn file while it writes
			if err := s.Load(id, nil, nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	if save(t, s); true {
		if err := s.Load(id, nil, nil); err != nil {
			t.Errorf("after the kills and a new write: %v", err)
		}
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v; want only the cell", left, err)
	}
}

// Sorting the text of an object must give what decoding and encoding gives.
func FuzzSortFlat(f *testing.F) {
	f.Add("b", "a", "c", 1e-7, int64(3), true)
	// Keys whose order would change if their quotes were compared too.
	f.Add("a b", "a!", "a", 1e300, int64(-1), false)
	f.Add("a,\"b", "<&>", "{", 0.1, int64(0), true)
	f.Add("", "\u2028", "ä", 5.0, int64(1)<<60, true)
	f.Fuzz(func(t *testing.T, x, y, z string, number float64, integer int64, yes bool) {
		seen := map[string]bool{}
		b := []byte("{")
		for _, f := range []struct {
			key   string
			value any
		}{{x, number}, {y, x}, {z, integer}, {x + y, yes}, {y + z, nil}} {
			key, _ := json.Marshal(f.key)
			value, err := json.Marshal(f.value)
			if err != nil || seen[string(key)] {
				continue // a NaN
			}
			seen[string(key)] = true
			b = slices.Concat(b, key, []byte(":"), value, []byte(","))
		}
		b[len(b)-1] = '}'
		want, err := canonicalJSON(b)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := sortFlat(b)
		if plain := !bytes.ContainsAny(b[1:], `{[\`); ok != plain || ok && !bytes.Equal(got, want) {
			t.Fatalf("%s is %s (%v), want %s", b, got, ok, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	sealed, err := seal("test", someSpec, someResult)
	if err != nil {
		f.Fatal(err)
	}
	b, _ := canonical(sealed)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add([]byte(`{"spec":{},"result":[],"kind":"","id":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c file
		var err error
		fuzztest.Read(t, len(b), func() { c, err = parse(b) })
		if err != nil {
			if !errors.Is(err, ErrTorn) {
				t.Fatalf("error %v does not wrap ErrTorn", err)
			}
			return
		}
		again, err := seal(c.Kind, c.Spec, c.Result)
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("a valid cell does not seal to itself: %v", err)
		}
	})
}

func BenchmarkSave(b *testing.B) {
	s := Store{Dir: b.TempDir()}
	id, _ := ID("test", someSpec)
	for b.Loop() {
		if err := s.Save(id, "test", someSpec, someResult); err != nil {
			b.Fatal(err)
		}
	}
}

// A listed store has the cells of its listing and looks up no other name.
func TestListed(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "cells")}
	none, err := s.Listed()
	if err != nil {
		t.Fatal(err)
	}
	put := func(spec string) string {
		id, err := ID("test", spec)
		if err == nil {
			err = s.Save(id, "test", spec, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := put("a")
	listed, err := s.Listed()
	if err != nil {
		t.Fatal(err)
	}
	later := put("b")
	for _, c := range []struct {
		what  string
		store Store
		id    string
		there bool
	}{{"no folder", none, id, false}, {"listed", listed, id, true}, {"written later", listed, later, false}, {"listed by nobody", s, later, true}} {
		if err := c.store.Load(c.id, nil, nil); (err == nil) != c.there || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestRace is one of two machines that compute the same cells in one folder; make
// test-nfs runs it on two mounts. Without SCALEWM_RACE, two goroutines take their
// place. Every cell is valid for each reader, whoever wrote it.
func TestRace(t *testing.T) {
	dir, cells, makers := os.Getenv("SCALEWM_RACE"), 10000, 1
	if dir == "" {
		dir, cells, makers = t.TempDir(), 100, 2
	}
	s := Store{Dir: dir}
	var all sync.WaitGroup
	for range makers {
		all.Go(func() {
			made := 0
			listed, err := s.Listed()
			for i := 0; i < cells && err == nil; i++ {
				id, _ := ID("race", i) // a number always has one
				if i%50 == 0 {
					listed, err = s.Listed()
				}
				result := 0
				if err == nil && !listed.Has(id) {
					made++
					err = s.Save(id, "race", i, i*i)
				}
				if err == nil {
					err = s.Load(id, nil, &result)
				}
				if err == nil && result != i*i {
					err = fmt.Errorf("cell %d holds %d", i, result)
				}
			}
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d cells made", made)
		})
	}
	all.Wait()
}

// A pipe or a file of half a gigabyte in place of a cell is a torn cell.
func TestUnfitCells(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if err := syscall.Mkfifo(s.Path("pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path("big"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(s.Path("big"), 540<<20); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"pipe": "named pipe", "big": "540.0 MB"} {
		if err := s.Load(id, nil, nil); !errors.Is(err, ErrTorn) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v, want a torn cell, %q and a hint", id, err, want)
		}
	}
	if all := sums(t, s); len(all) != 0 {
		t.Errorf("visited %v", all)
	}
}

// A cell that would exceed the limit of readers is not written.
func TestSaveRefusesWhatIsTooLarge(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	id, err := ID("test", someSpec)
	if err == nil {
		err = s.Save(id, "test", someSpec, strings.Repeat("x", int(safefile.MaxCell)))
	}
	if left, _ := os.ReadDir(s.Dir); err == nil || !strings.Contains(err.Error(), "16.0 MB") || len(left) != 0 {
		t.Errorf("%v, left %v", err, left)
	}
}
