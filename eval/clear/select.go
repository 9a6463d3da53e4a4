package clear

import (
	"fmt"
	"slices"

	"scalewm/dataset"
	"scalewm/eval/starts"
)

// Selection describes the starts of a protocol of CLEAR-LeWM.
type Selection struct {
	Split    string  // SplitAll, SplitTrain or SplitHeldOut
	HeldOut  float64 // fraction of the episodes in SplitHeldOut; its seed is that of the draw
	Filters  Filters
	Draw     starts.Draw
	IDColumn string // as in Table
}

// Statistics are the counts of a manifest. Rates are in percent of the pairs in the
// selected split.
type Statistics struct {
	Valid           int     `json:"valid_pairs_all_splits"`
	InSplit         int     `json:"pairs_in_selected_split"`
	InitialSuccess  float64 `json:"initial_success_rate_percent"` // by the protocol's rule
	UpstreamSuccess float64 `json:"upstream_initial_success_rate_percent"`
	AfterFilters    int     `json:"pairs_after_filters"`
	Eligible        int     `json:"eligible_episodes_after_filters"`
	Available       int     `json:"pairs_available_to_sampler"`
	N               int     `json:"num_eval"`
	Unique          int     `json:"unique_episodes"`
}

// Select draws starts of a task and returns their rows in the file, sorted. The steps
// and their order are those of CLEAR-LeWM: valid rows, split, filters, pool, draw.
// Source: clear_lewm/manifests.py, generate_manifest, at ab8849c.
func Select(src dataset.Source, task string, s Selection) (rows []int, st Statistics, err error) {
	switch {
	case s.Filters.Offset < 1:
		return nil, st, fmt.Errorf("a goal %d rows after the start (hint: at least 1)", s.Filters.Offset)
	case !slices.Contains(splits, s.Split):
		return nil, st, fmt.Errorf("unknown split %q (hint: one of %v)", s.Split, splits)
	}
	t, err := Table(src, s.IDColumn)
	if err != nil {
		return nil, st, err
	}
	candidates := t.Valid(s.Filters.Offset)
	st.Valid, st.N = len(candidates), s.Draw.N
	if candidates, err = inSplit(t, candidates, s); err != nil {
		return nil, st, err
	}
	st.InSplit = len(candidates)
	found, err := s.Filters.scan(src, task, candidates)
	if err != nil {
		return nil, st, err
	}
	if st.InSplit > 0 {
		st.InitialSuccess = float64(found.solved) / float64(st.InSplit) * 100
		st.UpstreamSuccess = float64(found.upstream) / float64(st.InSplit) * 100
	}
	st.AfterFilters, st.Available = len(found.kept), len(found.kept)
	if s.Draw.Pool == starts.MinusOne {
		st.Available = max(0, st.Available-1)
	}
	if st.Eligible, err = t.Episodes(found.kept); err != nil {
		return nil, st, err
	}
	if rows, err = t.Draw(found.kept, s.Draw); err != nil {
		return nil, st, fmt.Errorf("starts of %s: %w", task, err)
	}
	if len(slices.Compact(slices.Clone(rows))) < len(rows) {
		return nil, st, fmt.Errorf("starts of %s: an episode has too few candidates for a draw of %d (hint: fewer episodes)", task, s.Draw.N)
	}
	st.Unique, err = t.Episodes(rows)
	return rows, st, err
}

// inSplit returns the candidates in the selected split.
func inSplit(t starts.Table, candidates []int, s Selection) ([]int, error) {
	if s.Split == SplitAll {
		return candidates, nil
	}
	ids := t.IDs
	if ids == nil {
		for i := range t.Lengths {
			ids = append(ids, int64(i))
		}
	}
	held, err := starts.HeldOut(ids, s.HeldOut, s.Draw.Seed)
	if err != nil {
		return nil, err
	}
	return t.Of(candidates, held, s.Split == SplitHeldOut)
}

// Selection returns how the manifest's starts were drawn.
func (m *Manifest) Selection() Selection {
	p := m.Protocol
	pool := starts.Full
	if p.MinusOne {
		pool = starts.MinusOne
	}
	return Selection{
		Split: m.Split, HeldOut: p.HeldOutFraction, Filters: p.filters(m.Task), IDColumn: m.IDColumn,
		Draw: starts.Draw{Sampling: p.Sampling, Pool: pool, Seed: m.Seed, N: len(m.Pairs)},
	}
}

// filters returns the filters for starts of a task.
func (p *Protocol) filters(task string) Filters {
	return Filters{
		Offset: p.GoalOffset, ExcludeSolved: p.ExcludeInitialSuccess, Rule: p.startRule(task), MinDifficulty: p.MinDifficulty[task],
		CrossRoom: task == tworoom && p.TwoRoomCrossRoom, CleanWindow: task == tworoom && p.TwoRoomCleanWindow,
	}
}
