package clear

import (
	"slices"
	"testing"

	"scalewm/eval/starts"
)

func init() { families["sampler"] = referenceSampler }

// samplerDraw is one draw of a file of the family sampler.
type samplerDraw struct {
	Mode, Pool string
	Seed       uint64
	N          int
	Excluded   string
	Split      *struct {
		Fraction float64
		Side     string
	}
	Candidates *int
	Rows       []int
	Error      bool
	Repeats    bool
}

type samplerSet struct {
	EpLen       []int   `json:"ep_len"`
	EpID        []int64 `json:"ep_id"`
	GoalOffset  int     `json:"goal_offset"`
	Valid       int
	ValidRowSum int `json:"valid_row_sum"`
	Excluded    map[string][]int
	Draws       []samplerDraw
}

// referenceSampler checks valid starts, draws and splits.
func referenceSampler(t *testing.T, path string) {
	var file struct {
		DataSets map[string]samplerSet `json:"data_sets"`
		Splits   []struct {
			IDs      []int64
			Fraction float64
			Seed     uint64
			HeldOut  []int64 `json:"held_out"`
			Error    bool
		}
	}
	load(t, path, &file)
	if len(file.DataSets) == 0 && len(file.Splits) == 0 {
		t.Fatal("it has neither data_sets nor splits")
	}
	for name, set := range file.DataSets {
		set.test(t, name)
	}
	for i, s := range file.Splits {
		held, err := starts.HeldOut(s.IDs, s.Fraction, s.Seed)
		if s.Error != (err != nil) || !s.Error && !slices.Equal(held, s.HeldOut) {
			t.Errorf("split %d: %v, %v, want %v", i, held, err, s.HeldOut)
		}
	}
}

func (s samplerSet) test(t *testing.T, name string) {
	table := starts.Table{Lengths: s.EpLen, IDs: s.EpID}
	valid := table.Valid(s.GoalOffset)
	sum := 0
	for _, row := range valid {
		sum += row
	}
	if len(valid) != s.Valid || sum != s.ValidRowSum {
		t.Errorf("%s: %d valid starts with the sum %d, want %d with %d", name, len(valid), sum, s.Valid, s.ValidRowSum)
	}
	for i, d := range s.Draws {
		rows, candidates, err := d.draw(table, slices.Clone(valid), s.Excluded[d.Excluded])
		switch {
		case d.Excluded != "" && s.Excluded[d.Excluded] == nil:
			t.Errorf("%s, draw %d excludes unknown rows %q", name, i, d.Excluded)
		case d.Error:
			if err == nil {
				t.Errorf("%s, draw %d: %v, want an error", name, i, rows)
			}
		case err != nil || !slices.Equal(rows, d.Rows):
			t.Errorf("%s, draw %d: %v, %v, want %v", name, i, rows, err, d.Rows)
		case d.Repeats != (len(slices.Compact(slices.Clone(rows))) < len(rows)):
			t.Errorf("%s, draw %d: %v, repeats %v", name, i, rows, d.Repeats)
		}
		if d.Candidates != nil && candidates != *d.Candidates {
			t.Errorf("%s, draw %d: %d candidates, want %d", name, i, candidates, *d.Candidates)
		}
	}
}

// draw returns the drawn rows and the number of candidates in the pool.
func (d samplerDraw) draw(table starts.Table, candidates, excluded []int) (rows []int, left int, err error) {
	if d.Split != nil {
		ids := table.IDs
		for i := range table.Lengths {
			if table.IDs == nil {
				ids = append(ids, int64(i))
			}
		}
		held, err := starts.HeldOut(ids, d.Split.Fraction, d.Seed)
		if err != nil {
			return nil, 0, err
		}
		if candidates, err = table.Of(candidates, held, d.Split.Side == "held-out"); err != nil {
			return nil, 0, err
		}
	}
	out := map[int]bool{}
	for _, row := range excluded {
		out[row] = true
	}
	candidates = slices.DeleteFunc(candidates, func(row int) bool { return out[row] })
	left = len(candidates)
	if d.Pool == starts.MinusOne {
		left = max(0, left-1)
	}
	rows, err = table.Draw(candidates, starts.Draw{Sampling: d.Mode, Pool: d.Pool, Seed: d.Seed, N: d.N})
	return rows, left, err
}
