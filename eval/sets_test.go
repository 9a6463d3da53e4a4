package eval

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/rng"
)

// drawn is a set as evalsets/reference.json holds it.
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
	if ref.GoalOffset != GoalOffset {
		t.Errorf("goal offset %d, ours is %d", ref.GoalOffset, GoalOffset)
	}
	for name, ds := range ref.DataSets {
		if v := newValidStarts(ds.EpLen); v.count != ds.ValidStarts {
			t.Errorf("%s: %d valid starts, want %d", name, v.count, ds.ValidStarts)
		}
		for text, want := range ds.Seeds {
			seed, err := strconv.ParseUint(text, 10, 64)
			must(t, err)
			sameDraw(t, fmt.Sprintf("%s seed %s, last start left out", name, text), ds.EpLen, seed, MinusOne, want.MinusOne)
			sameDraw(t, fmt.Sprintf("%s seed %s, full pool", name, text), ds.EpLen, seed, Full, want.Full)
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

func sameDraw(t *testing.T, what string, lengths []int, seed uint64, pool Pool, want drawn) {
	t.Helper()
	starts, err := Draw(lengths, len(want.Start), seed, pool)
	must(t, err)
	var got drawn
	for _, s := range starts {
		got.Episode, got.Start = append(got.Episode, s.Trajectory), append(got.Start, s.Row)
	}
	if !slices.Equal(got.Episode, want.Episode) || !slices.Equal(got.Start, want.Start) {
		t.Errorf("%s: drew %v, want %v", what, got, want)
	}
}

// TestPublishedStarts: Cube s101 begins (30,42) (268,141) and ends (9791,1) in
// 10,000 episodes of 201 rows (docs/sources.md#evaluation-sets).
func TestPublishedStarts(t *testing.T) {
	starts, err := Draw(slices.Repeat([]int{201}, 10000), 100, 101, MinusOne)
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
		pool    Pool
	}{{[]int{25, 10}, 1, Full}, {nil, 1, MinusOne}, {[]int{27}, 2, MinusOne}, {[]int{100}, 0, Full}} {
		if s, err := Draw(tc.lengths, tc.n, 1, tc.pool); err == nil {
			t.Errorf("%v: drew %v", tc, s)
		}
	}
	if s, err := Draw([]int{27}, 2, 1, Full); err != nil || len(s) != 2 {
		t.Errorf("the full pool of two starts: %v, %v", s, err)
	}
}

// TestStrictSets: held-out episodes only, no start that is solved already, and
// another noise for every set.
func TestStrictSets(t *testing.T) {
	src := recordEpisodes(t, 30)
	d, err := NewData(src, tworoom(), dataset.Strict)
	must(t, err)
	for _, i := range d.heldOut { // let the first rows of the held-out episodes stand on their goals
		at := 2 * src.episodes[i].Offset
		copy(src.state[at:at+2*10], src.state[at+2*GoalOffset:])
	}
	s, err := d.Set("s101", 20)
	must(t, err)
	e, err := tworoom().New(nil)
	must(t, err)
	for _, start := range s.Starts {
		if !slices.Contains(d.heldOut, start.Trajectory) {
			t.Errorf("episode %d was trained on", start.Trajectory)
		}
		if must(t, d.place(e, start)); e.Solved() {
			t.Errorf("%v is solved before it begins", start)
		}
	}
	if other, err := d.Set("s102", 20); err != nil || other.Hash == s.Hash {
		t.Errorf("s102 is s101 again: %v", err)
	}
	if _, err := d.Set("s101", 100000); err == nil {
		t.Error("more starts than there are: no error")
	}
	if noiseKey(dataset.Strict, "s101", 1) == noiseKey(dataset.Strict, "s102", 1) || noiseKey(dataset.Paper, "s101", 1) != noiseKey(dataset.Paper, "s102", 1) {
		t.Error("noise is keyed by set under paper, or not under strict")
	}
}

// TestStrictScaling: actions are scaled by the training episodes alone.
func TestStrictScaling(t *testing.T) {
	src := recordEpisodes(t, 20)
	strict, err := NewData(src, tworoom(), dataset.Strict)
	must(t, err)
	paper, err := NewData(src, tworoom(), dataset.Paper)
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
	for _, bad := range []string{"", "101", "s", "sx", "s-1", "s101,,s102"} {
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
