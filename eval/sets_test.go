package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/dataset/safefile/fuzztest"
	"scalewm/eval/results"
)

// drawn is a set in evalsets/reference.json.
type drawn struct{ Episode, Start []int }

// TestReference draws the sets of every evalsets folder: ours (made by
// testdata/evalsets.py with NumPy) and those of SCALEWM_REFERENCE_DIR.
func TestReference(t *testing.T) {
	dirs := []string{"testdata/reference"}
	if d := os.Getenv("SCALEWM_REFERENCE_DIR"); d != "" {
		dirs = append(dirs, d)
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "evalsets") {
				t.Run(e.Name(), func(t *testing.T) { referenceSets(t, filepath.Join(dir, e.Name(), "reference.json")) })
			}
		}
	}
}

func referenceSets(t *testing.T, path string) {
	var ref struct {
		GoalOffset int `json:"goal_offset"`
		DataSets   map[string]struct {
			EpLen       []int `json:"ep_len"`
			ValidStarts int   `json:"valid_starts"`
			Seeds       map[string]struct {
				MinusOne drawn `json:"fork_pool_minus_one"`
				Full     drawn `json:"head_full_pool"`
			}
		} `json:"data_sets"`
		PlannerSeeds []struct {
			Index int
			Tier  string
			Seed  uint32
		} `json:"planner_seeds"`
		Elites map[string]int
	}
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, json.Unmarshal(b, &ref))
	referenceDraws(t, b)
	if ref.GoalOffset != results.Published().GoalOffset {
		t.Errorf("goal offset %d, ours is %d", ref.GoalOffset, results.Published().GoalOffset)
	}
	for name, ds := range ref.DataSets {
		if n := len(newTable(ds.EpLen).Valid(results.Published().GoalOffset)); n != ds.ValidStarts {
			t.Errorf("%s: %d valid starts, want %d", name, n, ds.ValidStarts)
		}
		for text, want := range ds.Seeds {
			seed, err := strconv.ParseUint(text, 10, 64)
			must(t, err)
			sameDraw(t, fmt.Sprintf("%s seed %s, last start left out", name, text), ds.EpLen, seed, "", want.MinusOne)
			sameDraw(t, fmt.Sprintf("%s seed %s, full pool", name, text), ds.EpLen, seed, results.FullPool, want.Full)
		}
	}
	for _, s := range ref.PlannerSeeds {
		if got := rng.PlannerSeed(s.Index, s.Tier); got != s.Seed {
			t.Errorf("planner seed of %d|%s is %d, want %d", s.Index, s.Tier, got, s.Seed)
		}
	}
	for text, want := range ref.Elites {
		n, err := strconv.Atoi(text)
		must(t, err)
		if got := newTier("", n, 1).Elites; got != want {
			t.Errorf("%d elites of %d candidates, want %d", got, n, want)
		}
	}
}

// pooled returns the published rules with another pool.
func pooled(pool string) results.Rules {
	r := results.Published()
	r.Pool = pool
	return r
}

func sameDraw(t *testing.T, what string, lengths []int, seed uint64, pool string, want drawn) {
	t.Helper()
	starts, err := Draw(lengths, len(want.Start), seed, pooled(pool))
	must(t, err)
	var got drawn
	for _, s := range starts {
		got.Episode, got.Start = append(got.Episode, s.Trajectory), append(got.Start, s.Row)
	}
	if !slices.Equal(got.Episode, want.Episode) || !slices.Equal(got.Start, want.Start) {
		t.Errorf("%s: drew %v, want %v", what, got, want)
	}
}

// TestPublishedStarts checks published starts: Cube's s101 begins with (30,42) (268,141)
// and ends with (9791,1) for 10,000 episodes of 201 rows (docs/sources.md#evaluation-sets).
func TestPublishedStarts(t *testing.T) {
	starts, err := Draw(slices.Repeat([]int{201}, 10000), 100, 101, results.Published())
	must(t, err)
	for i, want := range map[int]Start{0: {30, 42}, 1: {268, 141}, 2: {308, 7}, 3: {335, 131}, 97: {9698, 36}, 98: {9731, 54}, 99: {9791, 1}} {
		if starts[i] != want {
			t.Errorf("start %d is %v, want %v", i, starts[i], want)
		}
	}
}

func TestDrawRefuses(t *testing.T) {
	for _, tc := range []struct {
		lengths []int
		n       int
		pool    string
	}{{[]int{25, 10}, 1, results.FullPool}, {nil, 1, ""}, {[]int{27}, 2, ""}, {[]int{100}, 0, results.FullPool}} {
		if s, err := Draw(tc.lengths, tc.n, 1, pooled(tc.pool)); err == nil {
			t.Errorf("%v: drew %v", tc, s)
		}
	}
	if s, err := Draw([]int{27}, 2, 1, pooled(results.FullPool)); err != nil || len(s) != 2 {
		t.Errorf("the full pool of two starts: %v, %v", s, err)
	}
}

// TestStrictSets checks that strict draws from held-out episodes only, skips starts that
// are already solved, and gives every set its own noise.
func TestStrictSets(t *testing.T) {
	src := recordEpisodes(t, 30)
	d, err := NewData(src, tworoom(), rules(results.Strict))
	must(t, err)
	for _, i := range d.heldOut { // let the first rows of the held-out episodes stand on their goals
		at := 2 * src.episodes[i].Offset
		copy(src.state[at:at+2*10], src.state[at+2*results.Published().GoalOffset:])
	}
	s, err := d.Set("s101", 20)
	must(t, err)
	e, err := tworoom().New(nil)
	must(t, err)
	for _, start := range s.Starts {
		if !slices.Contains(d.heldOut, start.Trajectory) {
			t.Errorf("episode %d was trained on", start.Trajectory)
		}
		if must(t, d.setTo(e, start)); e.Solved() {
			t.Errorf("%v is solved before it begins", start)
		}
	}
	if other, err := d.Set("s102", 20); err != nil || other.Hash == s.Hash {
		t.Errorf("s102 is s101 again: %v", err)
	}
	if _, err := d.Set("s101", 100000); err == nil {
		t.Error("more starts than there are: no error")
	}
	noise := func(protocol string, n int, set string) uint64 {
		return noiseKey(results.Rules{Protocol: protocol, PlannerNoise: n}, set, 1)
	}
	if noise("strict", 0, "s101") == noise("strict", 0, "s102") || noise("paper", 0, "s101") != noise("paper", 0, "s102") ||
		noise("paper", 1, "s101") == noise("paper", 0, "s101") || noise("paper", 1, "s101") == noise("paper", 2, "s101") {
		t.Error("noise is keyed by set under paper, or not under strict")
	}
}

// TestStrictScaling checks that strict scales actions by the training episodes alone.
func TestStrictScaling(t *testing.T) {
	src := recordEpisodes(t, 20)
	strict, err := NewData(src, tworoom(), rules(results.Strict))
	must(t, err)
	paper, err := NewData(src, tworoom(), rules(results.Paper))
	must(t, err)
	sum, n := 0.0, 0
	for i, e := range src.episodes {
		for r := e.Offset; r < e.Offset+e.Len-1 && !slices.Contains(strict.heldOut, i); r++ {
			sum, n = sum+src.action[2*r], n+1
		}
	}
	if got := strict.Actions.Mean[0]; got-sum/float64(n) > 1e-12 || sum/float64(n)-got > 1e-12 || got == paper.Actions.Mean[0] {
		t.Errorf("mean action %g under strict, want %g; %g under paper", got, sum/float64(n), paper.Actions.Mean[0])
	}
}

func TestParseNames(t *testing.T) {
	if s, err := ParseSets("s101, s7,s101"); err != nil || !slices.Equal(s, []string{"s101", "s7"}) {
		t.Errorf("sets %v, %v", s, err)
	}
	for _, bad := range []string{"", "101", "s", "sx", "s-1", "s101,,s102", "s0101", "s007", "s00", "s+7"} {
		if s, err := ParseSets(bad); err == nil {
			t.Errorf("sets %q gave %v", bad, s)
		}
	}
	for _, bad := range []string{"", "T6", "t1", "T1,,T2"} {
		if s, err := ParseTiers(bad); err == nil {
			t.Errorf("tiers %q gave %v", bad, s)
		}
	}
	if s, err := ParseTiers("T2p,T1,T2p"); err != nil || len(s) != 2 || s[0].Candidates != 100 || s[0].Iterations != 20 || s[0].Elites != 10 {
		t.Errorf("T2p is %v, %v", s, err)
	}
}

// TestSetFile checks that a set survives the round trip through its file, and that the
// file has the same bytes each time.
func TestSetFile(t *testing.T) {
	d := testJob(t, "T5", 1, "s101").Data
	s, err := d.Set("s103", 7)
	must(t, err)
	path := filepath.Join(t.TempDir(), "mine.json")
	must(t, os.WriteFile(path, d.EncodeSet(s), 0o666))
	back, err := d.Set(path, 3) // a file is used as it is
	must(t, err)
	if back.Name != "s103" || back.Hash != s.Hash || !slices.Equal(back.Starts, s.Starts) {
		t.Errorf("came back as %+v, was %+v", back, s)
	}
	first, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, d.EncodeSet(back), 0o666))
	if second, err := os.ReadFile(path); err != nil || !bytes.Equal(first, second) {
		t.Errorf("written again it differs: %v", err)
	}
	if names, err := ParseSets("s101," + path); err != nil || !slices.Equal(names, []string{"s101", path}) {
		t.Errorf("as a name: %v, %v", names, err)
	}
}

// TestSetFileRefuses checks the errors for set files that were edited or that belong to
// other data.
func TestSetFileRefuses(t *testing.T) {
	d := testJob(t, "T5", 1, "s101").Data
	s, err := d.Set("s101", 3)
	must(t, err)
	path := filepath.Join(t.TempDir(), "set.json")
	must(t, os.WriteFile(path, d.EncodeSet(s), 0o666))
	good, err := os.ReadFile(path)
	must(t, err)
	edit := func(old, new string) string {
		out := strings.Replace(string(good), old, new, 1)
		if out == string(good) {
			t.Fatalf("the file has no %q", old)
		}
		return out
	}
	for name, tc := range map[string]struct{ text, want string }{
		"torn":       {string(good[:40]), "it is not a set file"},
		"mistyped":   {edit(`"hash"`, `"hush"`), "it is not a set file"},
		"a start":    {edit(`"episode": 1`, `"episode": 2`), "numbered from 0"},
		"hash":       {edit(s.Hash, "000000000000"), "fingerprint"},
		"other data": {edit(d.Fingerprint, "x"), "other data"},
		"other task": {edit(`"tworoom"`, `"pusht"`), "other data"},
		"protocol":   {edit(`"paper"`, `"strict"`), "--protocol strict"},
		"offset":     {edit(`"goal_offset": 25`, `"goal_offset": 24`), "24 rows later"},
		"name":       {edit(`"s101"`, `"../x"`), "letters"},
		"other name": {edit(`"s101"`, `"s0101"`), "is the set s101"},
		"large row":  {edit(`"start": `, `"start": 99999999999999999999`), "it is not a set file"},
		"empty":      {`{"name":"a","goal_offset":25,"episodes":[]}`, "0 episodes"},
	} {
		must(t, os.WriteFile(path, []byte(tc.text), 0o666))
		if _, err := d.Set(path, 3); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "(hint:") {
			t.Errorf("%s: error %v; want one with %q and a hint", name, err, tc.want)
		}
	}
	if _, err := d.Set(filepath.Join(t.TempDir(), "none.json"), 3); err == nil || !strings.Contains(err.Error(), "(hint:") {
		t.Errorf("a missing file: %v", err)
	}
	for name, tc := range map[string]struct {
		start Start
		want  string
	}{
		"rows that are not there":       {Start{Trajectory: 0, Row: 1 << 20}, "has no rows"},
		"a trajectory that is not":      {Start{Trajectory: math.MaxInt}, "has no rows"},
		"a negative row":                {Start{Row: -1}, "numbered from 0"},
		"a negative trajectory":         {Start{Trajectory: -1}, "numbered from 0"},
		"a goal beyond the largest int": {Start{Row: math.MaxInt - results.Published().GoalOffset + 1}, "numbered from 0"},
	} {
		must(t, os.WriteFile(path, d.EncodeSet(newSet("far", []Start{tc.start})), 0o666))
		if _, err := d.Set(path, 1); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "(hint:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStrictSetFile checks that a set file cannot add starts from training episodes.
func TestStrictSetFile(t *testing.T) {
	d, err := NewData(recordEpisodes(t, 20), tworoom(), rules(results.Strict))
	must(t, err)
	trained := 0
	for slices.Contains(d.heldOut, trained) {
		trained++
	}
	path := filepath.Join(t.TempDir(), "set.json")
	must(t, os.WriteFile(path, d.EncodeSet(newSet("s101", []Start{{Trajectory: trained}})), 0o666))
	if _, err := d.Set(path, 1); err == nil || !strings.Contains(err.Error(), "trained on") {
		t.Errorf("a start that was trained on: %v", err)
	}
}

// With n starts in the published pool, only the full pool can draw n+1.
func TestPool(t *testing.T) {
	d := testJob(t, "T5", 1, "s101").Data
	n := len(newTable(d.lengths()).Valid(d.rules.GoalOffset))
	if _, err := d.Set("s101", n); err == nil {
		t.Error("the published pool holds the last start")
	}
	d.rules.Pool = results.FullPool
	if s, err := d.Set("s101", n); err != nil || len(s.Starts) != n {
		t.Errorf("the full pool: %d starts, %v", len(s.Starts), err)
	}
}

func FuzzSetFile(f *testing.F) {
	f.Add([]byte(`{"name":"s1","goal_offset":25,"hash":"","episodes":[{"episode":0,"trajectory":1,"start":2,"goal":27}]}`))
	f.Add([]byte(`{"name":"a","episodes":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s setFile
		var err error
		fuzztest.Read(t, len(b), func() { s, err = parseSet(b) })
		if err == nil && s.set().Hash != s.Hash {
			t.Errorf("accepted a set whose fingerprint is not its own: %q", b)
		}
	})
}
