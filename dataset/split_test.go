package dataset

import (
	"slices"
	"testing"
)

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
	// An evaluation knows fingerprint and count only; the seed of a training does not matter.
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

// Two episodes are the fewest that can be split; one stays in training.
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
