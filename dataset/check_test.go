package dataset

import (
	"context"
	"math"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*fake)
		want  []string
	}{
		{"sound", func(*fake) {}, nil},
		{"NaN in the middle", func(f *fake) { f.action[2*7+1] = math.NaN() }, []string{"episode 1, step 2 (row 7): action[1] is NaN"}},
		{"infinite in a last row", func(f *fake) { f.action[2*4] = math.Inf(-1) }, []string{"episode 0, step 4 (row 4): action[0] is -Inf"}},
		{"infinite actions", func(f *fake) { f.action[0], f.action[2*7] = math.Inf(1), math.Inf(1) }, []string{"episode 0, step 0 (row 0) and 1 more: action[0] is +Inf"}},
		{"gap", func(f *fake) { f.episodes[1] = Episode{6, 5} }, []string{"rows 5 to 5 belong to no episode", "episode 1, step 0 (row 6) and 4 more: step_idx starts at 1, not at 0"}},
		{"steps that jump", func(f *fake) { f.indices[2], f.indices[3] = 7, 9 }, []string{"episode 0, step 2 (row 2) and 1 more: step_idx does not count the steps"}},
		{"a still state", func(f *fake) { f.still = true }, []string{"episode 0, step 1 (row 1) and 8 more: state equals that of the episode's first row, in every episode"}},
		{"still frames", func(f *fake) { f.stillFrames = true }, []string{"episode 0, step 1 (row 1) and 8 more: pixels equals that of the episode's first row, in every episode"}},
		{"overlap", func(f *fake) { f.episodes[1] = Episode{4, 7} }, []string{"row 4 belongs to two episodes"}},
		{"short", func(f *fake) { f.rows = 12 }, []string{"the episodes end at row 11 of 12"}},
		{"holes", func(f *fake) { f.unwritten = [][2]int{{2, 4}, {7, 8}} }, []string{"action: 3 rows were never written, the first of them rows 2 to 3"}},
		{"frame", func(f *fake) { f.badFrame = 3 }, []string{"frame does not decode"}},
	} {
		src := newFake(t, 5, 6)
		c.spoil(src)
		r, err := Check(context.Background(), src, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.OK() != (c.want == nil) || r.Episodes != 2 {
			t.Errorf("%s: %+v", c.name, r)
		}
		for _, w := range c.want {
			if !strings.Contains(strings.Join(r.Problems, "\n"), w) {
				t.Errorf("%s: %q does not say %q", c.name, r.Problems, w)
			}
		}
	}
}

// A cause that many rows share is one line. Lines after the twentieth are only
// counted.
func TestCheckListsAFew(t *testing.T) {
	src := newFake(t, 60)
	for i := range 50 {
		src.action[2*i] = math.NaN()
	}
	src.episodes = src.episodes[:0]
	// 29 gaps between these episodes and one after the last.
	for i := range 30 {
		src.episodes = append(src.episodes, Episode{2 * i, 1})
	}
	r, err := Check(context.Background(), src, nil)
	if err != nil || r.Problems[0] != "rows 1 to 1 belong to no episode" || len(r.Problems) != maxProblems || r.More != 11 || r.Frames != 60 {
		t.Errorf("%q and %d more, %d frames, %v", r.Problems, r.More, r.Frames, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Check(ctx, src, nil); err == nil {
		t.Error("a cancelled check reports")
	}
}
