package starts_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/rng/numpy"
	"scalewm/eval/starts"
)

// ten has the episodes of CLEAR-LeWM's goldens: 117 rows have a goal 25 rows later.
var ten = starts.Table{Lengths: []int{40, 30, 26, 25, 60, 33, 41, 27, 50, 35}}

func TestValid(t *testing.T) {
	// Episodes at rows 4 and 40 after gaps, of which rows 4, 5 and 40 have a goal 3 rows
	// later; the one of 2 rows has none.
	table := starts.Table{Lengths: []int{5, 2, 4}, Offsets: []int{4, 20, 40}}
	if got := table.Valid(3); !slices.Equal(got, []int{4, 5, 40}) {
		t.Errorf("valid rows %v", got)
	}
	if got := len(ten.Valid(25)); got != 117 {
		t.Errorf("%d valid rows, want 117", got)
	}
}

// TestRowUniform follows the draw of the published sets: numpy's choice of all valid
// rows but the last, sorted. Package eval's tests compare such draws with the sets.
func TestRowUniform(t *testing.T) {
	candidates := ten.Valid(25)
	for pool, size := range map[string]int64{starts.MinusOne: 116, starts.Full: 117} {
		var want []int
		for _, k := range numpy.New(101).Choice(size, 20) {
			want = append(want, candidates[k])
		}
		slices.Sort(want)
		got, err := ten.Draw(candidates, starts.Draw{Sampling: starts.RowUniform, Pool: pool, Seed: 101, N: 20})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("pool %s: %v, %v, want %v", pool, got, err, want)
		}
	}
}

// TestPermutation follows eval's strict draw: numpy's choice of all candidates, of
// which the first ones are taken.
func TestPermutation(t *testing.T) {
	candidates := ten.Valid(25)
	order := starts.Order(candidates, 7)
	for i, k := range numpy.New(7).Choice(117, 117) {
		if order[i] != candidates[k] {
			t.Fatalf("place %d: row %d, want %d", i, order[i], candidates[k])
		}
	}
	got, err := ten.Draw(candidates, starts.Draw{Sampling: starts.Permutation, Pool: starts.Full, Seed: 7, N: 9})
	want := slices.Sorted(slices.Values(order[:9]))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("drew %v, %v, want the sorted first nine %v", got, err, want)
	}
}

// TestBalancedRepeats: one of the two episodes has one candidate, which stands twice.
// The rows are from sample_rows of CLEAR-LeWM with NumPy 2.4 (testdata/repeats.py).
func TestBalancedRepeats(t *testing.T) {
	table := starts.Table{Lengths: []int{6, 9}}
	got, err := table.Draw([]int{0, 6, 7, 8, 9, 10}, starts.Draw{Sampling: starts.EpisodeBalanced, Pool: starts.Full, Seed: 3, N: 6})
	if err != nil || !slices.Equal(got, []int{0, 0, 0, 6, 7, 10}) {
		t.Errorf("drew %v, %v", got, err)
	}
}

func TestBadDraws(t *testing.T) {
	rows := ten.Valid(25)
	for want, d := range map[string]starts.Draw{
		"drawing 0 starts":     {Sampling: starts.RowUniform, Pool: starts.Full},
		"from 117 candidates":  {Sampling: starts.EpisodeBalanced, Pool: starts.Full, N: 118},
		"from 116 candidates":  {Sampling: starts.Permutation, Pool: starts.MinusOne, N: 117},
		"unknown sampling":     {Pool: starts.Full, N: 1},
		`unknown pool "minus"`: {Sampling: starts.RowUniform, Pool: "minus", N: 1},
	} {
		if _, err := ten.Draw(rows, d); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%+v: error %v, want one with %q and a hint", d, err, want)
		}
	}
	for _, row := range []int{-1, 367} {
		if _, err := ten.Draw([]int{row}, starts.Draw{Sampling: starts.EpisodeBalanced, Pool: starts.Full, N: 1}); err == nil {
			t.Errorf("row %d of 367 is in an episode", row)
		}
	}
}

func TestHeldOut(t *testing.T) {
	// 25, 15 and 35 ids at 0.1: Python rounds halves to even.
	for n, want := range map[int]int{25: 2, 15: 2, 35: 4, 1: 1, 3: 1} {
		ids := make([]int64, n)
		for i := range ids {
			ids[i] = int64(n - i)
		}
		held, err := starts.HeldOut(append(ids, ids...), 0.1, 1<<63+5)
		if err != nil || len(held) != want || !slices.IsSorted(held) {
			t.Errorf("%d ids: held out %v, %v, want %d of them", n, held, err, want)
		}
	}
	if held, err := starts.HeldOut([]int64{1, 2}, 0, 1); held != nil || err != nil {
		t.Errorf("a fraction of 0 holds out %v, %v", held, err)
	}
	for _, bad := range []float64{-0.1, 1, 2} {
		if _, err := starts.HeldOut([]int64{1, 2}, bad, 1); err == nil {
			t.Errorf("a fraction of %g is accepted", bad)
		}
	}
}

func TestOf(t *testing.T) {
	table := starts.Table{Lengths: []int{2, 0, 3, 2}, IDs: []int64{7, 6, 5, 7}}
	rows := []int{0, 1, 2, 4, 5, 6}
	for in, want := range map[bool][]int{true: {0, 1, 5, 6}, false: {2, 4}} {
		if got, err := table.Of(rows, []int64{7}, in); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("rows of id 7, %v: %v, %v, want %v", in, got, err, want)
		}
	}
	if n, err := table.Episodes(rows); n != 2 || err != nil {
		t.Errorf("%d ids, %v, want 2", n, err)
	}
}

// Five starts of five different episodes, as CLEAR-LeWM's episode-balanced sampling
// draws them with the seed 42.
func ExampleTable_Draw() {
	rows, _ := ten.Draw(ten.Valid(25), starts.Draw{Sampling: starts.EpisodeBalanced, Pool: starts.Full, Seed: 42, N: 5})
	fmt.Println(rows)
	// Output: [11 139 181 256 339]
}
