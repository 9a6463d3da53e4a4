package dataset

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"scalewm/envs"
)

// An episode has the starts 0 to len-20, and none if it has 19 rows
// (docs/sources.md#clips).
func TestClips(t *testing.T) {
	src := newFake(t, 21, 19, 20)
	want := []Clip{{0, 0}, {0, 1}, {2, 40}}
	if d := cmp.Diff(want, Clips(src, 4, 5)); d != "" {
		t.Error(d)
	}
	if got := Clips(newFake(t, 19, 3), 4, 5); len(got) != 0 {
		t.Errorf("clips from short episodes: %v", got)
	}
	// Published counts: 10,000 episodes of 201 rows give 1,820,000 clips; here 3 give 546.
	if got := Clips(newFake(t, 201, 201, 201), 4, 5); len(got) != 546 {
		t.Errorf("%d clips from 3 episodes of 201, want 546", len(got))
	}
}

// By hand: rows (1,10), (2,NaN), (3,30), (5,20) without the second have the means 3
// and 20 and the population deviations sqrt(8/3) and sqrt(200/3).
func TestMoments(t *testing.T) {
	rows := []float64{1, 10, 2, math.NaN(), 3, 30, 5, 20}
	for ddof, want := range map[int][]float64{0: {math.Sqrt(8.0 / 3), math.Sqrt(200.0 / 3)}, 1: {2, 10}} {
		m, err := moments(rows, 2, ddof, "x")
		if err != nil {
			t.Fatal(err)
		}
		if m.N != 3 || !slices.Equal(m.Mean, []float64{3, 20}) || math.Abs(m.Std[0]-want[0]) > 1e-15 || math.Abs(m.Std[1]-want[1]) > 1e-14 {
			t.Errorf("ddof %d: %+v, want deviations %v", ddof, m, want)
		}
	}
	if _, err := moments(rows[:2], 2, 1, "x"); err == nil {
		t.Error("one row has no unbiased deviation")
	}
}

// The statistics of some episodes equal those of a file with these episodes alone.
func TestMomentsOfEpisodes(t *testing.T) {
	all := newFake(t, 6, 8, 5)
	file, err := ColumnMoments(all, "action", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := ColumnMoments(all, "action", []int{0, 1, 2}, 0)
	if err != nil || !slices.Equal(whole.Mean, file.Mean) || !slices.Equal(whole.Std, file.Std) || whole.N != 19-3 {
		t.Errorf("all episodes by name: %+v, %v; the file: %v %v", whole, err, file.Mean, file.Std)
	}
	first, err := ColumnMoments(all, "action", []int{0}, 0)
	alone, err2 := ColumnMoments(newFake(t, 6), "action", nil, 0)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if d := cmp.Diff(alone, first); d != "" {
		t.Error(d)
	}
	if _, err := ColumnMoments(all, "velocity", nil, 0); err == nil {
		t.Error("no error for a missing column")
	}
}

func TestScale(t *testing.T) {
	m := Moments{Mean: []float64{2, 5}, Std: []float64{4, 0}}
	if got := m.Scale(0, 10); got != 2 {
		t.Errorf("(10-2)/4 = %v", got)
	}
	if got := m.Scale(1, 5); got != 0 { // a constant column maps to 0
		t.Errorf("constant column: %v", got)
	}
}

var testQ = envs.Q{Columns: []string{"state"}, Parts: []string{"x", "y"}, Of: func(row envs.Row, dst []float64) {
	dst[0], dst[1] = row["state"][0], row["state"][1]*4
}}

// q of rows 0 to 9 is (r, r mod 5): the unbiased deviations are sqrt(82.5/9) and
// sqrt(20/9).
func TestQMoments(t *testing.T) {
	m, err := QMoments(newFake(t, 4, 6), testQ, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := math.Abs(m.Mean[0]-4.5) + math.Abs(m.Mean[1]-2) + math.Abs(m.Std[0]-math.Sqrt(82.5/9)) + math.Abs(m.Std[1]-math.Sqrt(20.0/9)); d > 1e-13 {
		t.Errorf("%+v", m)
	}
	bad := testQ
	bad.Columns = []string{"angle"}
	if _, err := QMoments(newFake(t, 4), bad, nil); err == nil {
		t.Error("no error for a missing column of q")
	}
}

func episodesOf(clips []Clip) map[int]bool {
	out := map[int]bool{}
	for _, c := range clips {
		out[c.Episode] = true
	}
	return out
}

func TestSplitPaper(t *testing.T) {
	src := newFake(t, 60, 60, 60, 60, 60)
	clips := Clips(src, 4, 5)
	train, val, err := Split(Paper, src, clips, 1)
	if err != nil {
		t.Fatal(err)
	}
	// 5 x 41 clips, a tenth rounded: 21.
	if len(val) != 21 || len(train) != 184 {
		t.Errorf("%d and %d clips", len(train), len(val))
	}
	both := append(slices.Clone(train), val...)
	slices.SortFunc(both, func(a, b Clip) int { return a.Row - b.Row })
	if !slices.Equal(both, clips) {
		t.Error("the parts are not the whole")
	}
	if len(episodesOf(train)) != 5 {
		t.Error("the split by clip leaves out whole episodes")
	}
	again, _, _ := Split(Paper, src, clips, 1)
	other, _, _ := Split(Paper, src, clips, 2)
	if !slices.Equal(train, again) || slices.Equal(train, other) {
		t.Error("the split must depend on the seed and on nothing else")
	}
}

func TestSplitStrict(t *testing.T) {
	lens := make([]int, 30)
	for i := range lens {
		lens[i] = 20 + i%3
	}
	src := newFake(t, lens...)
	train, val, err := Split(Strict, src, Clips(src, 4, 5), 7)
	if err != nil {
		t.Fatal(err)
	}
	seen, held := episodesOf(train), episodesOf(val)
	if len(held) != 3 || len(seen) != 27 {
		t.Errorf("%d episodes trained on, %d held out of 30", len(seen), len(held))
	}
	// An evaluation knows only the fingerprint and the number of episodes, not the
	// training seed.
	for _, e := range HeldOut("f00d", 30) {
		if !held[e] || seen[e] {
			t.Errorf("episode %d is said to be held out", e)
		}
	}
	for _, e := range TrainEpisodes("f00d", 30) {
		if !seen[e] || held[e] {
			t.Errorf("episode %d is said to be trained on", e)
		}
	}
	if slices.Equal(HeldOut("f00d", 30), HeldOut("beef", 30)) {
		t.Error("other data, same episodes")
	}
}

// Two episodes are the fewest that can be split; one of them stays in training.
func TestSplitSmall(t *testing.T) {
	if got := HeldOut("f00d", 1); len(got) != 0 {
		t.Errorf("the only episode is held out: %v", got)
	}
	if got := HeldOut("f00d", 2); len(got) != 1 {
		t.Errorf("of two episodes %v are held out", got)
	}
	if _, _, err := Split("loose", newFake(t, 20), nil, 1); err == nil {
		t.Error("no error for an unknown protocol")
	}
	if _, err := ParseProtocol("loose"); err == nil {
		t.Error("an unknown protocol was read")
	}
}
