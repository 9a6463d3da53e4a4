package clear

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"scalewm/dataset"
	"scalewm/eval/starts"
)

// idColumns are the columns that may have the id of each row's episode, in CLEAR-LeWM's
// order of preference.
var idColumns = []string{"episode_idx", "ep_idx"}

// stepColumn has the step of each row within its episode.
const stepColumn = "step_idx"

// has reports whether src has a column.
func has(src dataset.Source, name string) bool {
	_, err := dataset.FindColumn(src, name)
	return err == nil
}

// hasIndex reports whether src has a column of one number a row.
func hasIndex(src dataset.Source, name string) bool {
	c, err := dataset.FindColumn(src, name)
	return err == nil && c.Width == 1
}

// integer returns a number of a column of integers.
func integer(v float64, column string, row int) (int64, error) {
	if v != float64(int64(v)) {
		return 0, fmt.Errorf("row %d of the column %s is %g (hint: integers are expected)", row, column, v)
	}
	return int64(v), nil
}

// integerAt reads a number of a column of integers.
func integerAt(src dataset.Source, column string, row int) (int64, error) {
	v, err := src.Read(column, row, row+1)
	if err != nil {
		return 0, err
	}
	return integer(v[0], column, row)
}

// idColumn returns the column with the ids of episodes: the preferred one, another one,
// or "" if the data set has none.
func idColumn(src dataset.Source, preferred string) string {
	for _, name := range append([]string{preferred}, idColumns...) {
		if hasIndex(src, name) {
			return name
		}
	}
	return ""
}

// maxRows bounds the rows of a data set whose starts are listed: 1 GiB of row indices. A
// small file can declare any number of rows.
const maxRows = 1 << 27

// Table returns the episodes of a data set for the draw of starts, in the order of their
// rows. Their ids are those of column or, if the data set does not have it, of
// episode_idx or ep_idx. Without any of them, the ids are 0, 1, ... Episodes that overlap
// and more than 2^27 rows are errors.
func Table(src dataset.Source, column string) (starts.Table, error) {
	eps := slices.Clone(src.Episodes())
	slices.SortFunc(eps, func(a, b dataset.Episode) int { return cmp.Compare(a.Offset, b.Offset) })
	column = idColumn(src, column)
	var t starts.Table
	if src.Rows() > maxRows {
		return t, fmt.Errorf("starts of a data set of %d rows (hint: at most %d rows are supported)", src.Rows(), maxRows)
	}
	var ids []float64 // of rows from first
	first, end := 0, 0
	for _, e := range eps {
		if e.Offset < end {
			return t, fmt.Errorf("the episode at row %d begins before the one before it ends, at row %d (hint: the data set is damaged; fetch or make it again)", e.Offset, end)
		}
		end = e.Offset + e.Len
		t.Lengths, t.Offsets = append(t.Lengths, e.Len), append(t.Offsets, e.Offset)
		if column == "" {
			continue
		}
		if e.Offset >= first+len(ids) {
			first = e.Offset
			var err error
			if ids, err = src.Read(column, first, min(first+chunkRows, src.Rows())); err != nil {
				return t, fmt.Errorf("ids of the episodes: %w", err)
			}
		}
		id, err := integer(ids[e.Offset-first], column, e.Offset)
		if err != nil {
			return t, fmt.Errorf("ids of the episodes: %w", err)
		}
		t.IDs = append(t.IDs, id)
	}
	return t, nil
}

// Start is a start of a manifest in a data set: a row of the episode with that index.
type Start struct{ Episode, Row int }

// Check checks a manifest against a data set, whose file is at path, and returns its
// starts in the order of the pairs. With otherData, the file may be another one than
// the manifest was made for: its fingerprint is not compared, but every pair must be
// there.
func (m *Manifest) Check(src dataset.Source, path string, otherData bool) ([]Start, error) {
	if !otherData {
		if err := m.checkFile(src, path); err != nil {
			return nil, err
		}
	}
	if _, err := columnsOf(src, m.Task, m.Rule(), m.Protocol.startRule(m.Task)); err != nil {
		return nil, err
	}
	// order has the indices of the episodes in the order of their rows.
	eps := src.Episodes()
	order := make([]int, len(eps))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(eps[a].Offset, eps[b].Offset) })
	ids := idColumn(src, m.IDColumn)
	out := make([]Start, len(m.Pairs))
	for i, p := range m.Pairs {
		k := sort.Search(len(order), func(k int) bool { return eps[order[k]].Offset > p.StartRow }) - 1
		if k < 0 || p.StartRow >= eps[order[k]].Offset+eps[order[k]].Len {
			return nil, fmt.Errorf("pair %d starts at row %d, which is in no episode of %d rows (hint: is this the manifest's data set, %.80q?)", i, p.StartRow, src.Rows(), m.File)
		}
		out[i] = Start{order[k], p.StartStep}
		if err := checkPair(src, p, order[k], ids); err != nil {
			return nil, fmt.Errorf("pair %d: %w (hint: is this the manifest's data set, %.80q?)", i, err, m.File)
		}
	}
	return out, nil
}

// checkFile compares the fingerprint and the name of the column with the ids.
func (m *Manifest) checkFile(src dataset.Source, path string) error {
	of := map[string]func(string) (string, error){MetadataSHA256: Fingerprint, FileSHA256Kind: FileSHA256}[m.Kind]
	if of == nil {
		return fmt.Errorf("the manifest identifies its data set by an unknown fingerprint %.40q (hint: %s and %s are known; --other-data does not compare it)", m.Kind, MetadataSHA256, FileSHA256Kind)
	}
	print, err := of(path)
	if err != nil {
		return err
	}
	if print != m.Fingerprint {
		return fmt.Errorf("the manifest is for %.80q with the %s %.12q, and %s has %.12q (hint: evaluate on that file; --other-data takes the same rows of this one)", m.File, m.Kind, m.Fingerprint, path, print)
	}
	if !hasIndex(src, m.IDColumn) {
		return fmt.Errorf("the manifest takes ids from the column %s, which %s does not have (hint: fetch the manifest again)", m.IDColumn, path)
	}
	return nil
}

// checkPair checks a pair against the episode of its start row. The ids are in the
// column ids; if that is "", they are the indices of the episodes.
func checkPair(src dataset.Source, p Pair, episode int, ids string) error {
	e := src.Episodes()[episode]
	if p.StartRow-e.Offset != p.StartStep {
		return fmt.Errorf("row %d is step %d of its episode, not %d", p.StartRow, p.StartRow-e.Offset, p.StartStep)
	}
	if p.GoalRow >= e.Offset+e.Len {
		return fmt.Errorf("its goal, row %d, is beyond the end of the episode of row %d", p.GoalRow, p.StartRow)
	}
	if ids == "" {
		if p.Episode != int64(episode) {
			return fmt.Errorf("row %d is in episode %d, not %d", p.StartRow, episode, p.Episode)
		}
		return nil
	}
	for _, row := range []int{p.StartRow, p.GoalRow} {
		if id, err := integerAt(src, ids, row); err != nil || id != p.Episode {
			return cmp.Or(err, fmt.Errorf("row %d is in the episode %d, not %d", row, id, p.Episode))
		}
		if !hasIndex(src, stepColumn) {
			continue
		}
		if step, err := integerAt(src, stepColumn, row); err != nil || step != int64(row-e.Offset) {
			return cmp.Or(err, fmt.Errorf("row %d has the step %d, not %d", row, step, row-e.Offset))
		}
	}
	return nil
}
