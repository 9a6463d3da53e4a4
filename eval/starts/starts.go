// Package starts determines which rows of a data set may start an episode of an
// evaluation, and draws among them as the published evaluations do. It reproduces
// their draws from NumPy's generator, so that a seed and a data set give the published
// rows.
//
// Filters on the content of rows are not here: package clear has CLEAR-LeWM's, and
// eval asks the simulator. They take a list of candidates and return a shorter one.
package starts

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Table describes the episodes of a data set.
type Table struct {
	Lengths []int // rows of each episode, in the order of the file
	// Offsets has the first row of each episode, ascending; nil if the episodes follow
	// one another without gaps.
	Offsets []int
	// IDs has the id of each episode; nil if the ids are 0, 1, ... The sampling by
	// episodes and the split of CLEAR-LeWM depend on them.
	IDs []int64
}

// offset returns the first row of each episode.
func (t Table) offset() []int {
	if t.Offsets != nil {
		return t.Offsets
	}
	out, next := make([]int, len(t.Lengths)), 0
	for i, n := range t.Lengths {
		out[i] = next
		next += n
	}
	return out
}

// id returns the id of episode i.
func (t Table) id(i int) int64 {
	if t.IDs == nil {
		return int64(i)
	}
	return t.IDs[i]
}

// Valid returns the rows that have a goal offset rows later in the same episode, as
// ascending row indices of the file. It panics if offset is below 1.
func (t Table) Valid(offset int) []int {
	if offset < 1 {
		panic(fmt.Sprintf("starts: a goal %d rows later", offset))
	}
	count := 0
	for _, n := range t.Lengths {
		count += max(n-offset, 0)
	}
	rows := make([]int, 0, count)
	for i, first := range t.offset() {
		for r := range max(t.Lengths[i]-offset, 0) {
			rows = append(rows, first+r)
		}
	}
	return rows
}

// Of returns the candidates that are rows of episodes whose ids are in ids, or that are
// not if in is false. ids is sorted, candidates ascending.
func (t Table) Of(candidates []int, ids []int64, in bool) ([]int, error) {
	var out []int
	err := t.each(candidates, func(row int, id int64) {
		if _, found := slices.BinarySearch(ids, id); found == in {
			out = append(out, row)
		}
	})
	return out, err
}

// Episodes returns the number of different episode ids among rows, which are ascending.
func (t Table) Episodes(rows []int) (int, error) {
	groups, err := t.groups(rows)
	return len(groups), err
}

// each calls f with each row and the id of its episode. Rows are ascending.
func (t Table) each(rows []int, f func(row int, id int64)) error {
	offsets, e := t.offset(), -1
	for _, row := range rows {
		if e < 0 || row < offsets[e] || row >= offsets[e]+t.Lengths[e] {
			e = sort.SearchInts(offsets, row+1) - 1
		}
		// Episodes without rows share their offset with the next one.
		for e >= 0 && t.Lengths[e] == 0 {
			e--
		}
		if e < 0 || row >= offsets[e]+t.Lengths[e] {
			return fmt.Errorf("row %d is in no episode (hint: rows are numbered in the file, from 0)", row)
		}
		f(row, t.id(e))
	}
	return nil
}

// HeldOut returns the episodes that the split of CLEAR-LeWM holds out, sorted: those
// with the smallest first 8 bytes of the SHA-256 of "clear-lewm:SEED:ID", a fraction of
// the different ids, rounded to the nearest integer (halves to even), and at least one.
// A fraction of 0 holds out none; one outside [0, 1) is an error.
// Source: clear_lewm/datasets.py, split_episode_ids, at ab8849c.
func HeldOut(ids []int64, fraction float64, seed uint64) ([]int64, error) {
	if !(fraction >= 0 && fraction < 1) {
		return nil, fmt.Errorf("a held-out fraction of %g (hint: at least 0 and below 1)", fraction)
	}
	if fraction == 0 || len(ids) == 0 {
		return nil, nil
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	score := make(map[int64]uint64, len(ids))
	for _, id := range ids {
		sum := sha256.Sum256(fmt.Appendf(nil, "clear-lewm:%d:%d", seed, id))
		score[id] = binary.BigEndian.Uint64(sum[:])
	}
	n := max(1, int(math.RoundToEven(float64(len(ids))*fraction)))
	sort.SliceStable(ids, func(i, j int) bool { return score[ids[i]] < score[ids[j]] })
	ids = ids[:n]
	slices.Sort(ids)
	return ids, nil
}
