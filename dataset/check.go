package dataset

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"

	"scalewm/dataset/parallel"
	"scalewm/envs"
)

// maxProblems bounds the problems that a report lists. Further ones are only counted.
const maxProblems = 20

// CheckReport is the result of Check.
type CheckReport struct {
	Rows, Episodes int
	// Frames counts those that decode without an error.
	Frames int
	// Problems has at most maxProblems lines.
	Problems []string
	// More is the number of problems beyond those.
	More int
	// Notes are observations that are not errors.
	Notes []string
	// Alignment says whether actions belong to their rows; nil if there is a problem that
	// comes first.
	Alignment *Alignment
}

// OK reports whether no problem was found.
func (r *CheckReport) OK() bool { return len(r.Problems) == 0 }

func (r *CheckReport) add(format string, args ...any) {
	if len(r.Problems) == maxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Check reads everything in a source and reports what is wrong:
//
//   - rows that belong to no episode or to two;
//   - columns and frames that do not decode, and rows that were never written;
//   - index columns that disagree with the episodes;
//   - actions that are not finite. The last action of an episode may be NaN, since no
//     row shows its result;
//   - frames, or columns that show the world, that never change;
//   - actions that belong to another row, if nothing else is wrong (Alignment).
//
// Rows that share a cause make one problem. The returned error is that of ctx only.
// progress may be nil.
func Check(ctx context.Context, src Source, progress func(done, total int64, note string)) (*CheckReport, error) {
	r := &CheckReport{Rows: src.Rows(), Episodes: len(src.Episodes())}
	r.checkEpisodes(src)
	for _, c := range src.Columns() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.checkColumn(src, c)
		r.addUnwritten(src, c.Name)
	}
	if src.FrameSize() > 0 {
		r.addUnwritten(src, "pixels")
		if err := r.checkFrames(ctx, src, progress); err != nil {
			return nil, err
		}
	}
	if n := choices(src); n > 0 {
		r.note("actions are numbers of choices, 0 to %d: training rejects them, since choice 2 is not twice choice 1 (hint: %s)", n-1, oneHot(n))
	}
	if r.OK() {
		a, err := align(ctx, src)
		if err != nil {
			return nil, err
		}
		r.Alignment = &a
		a.add(r)
	}
	return r, nil
}

// addUnwritten reports rows that the file declares but does not store, because its
// recorder was interrupted or its index is damaged. HDF5 returns the fill value for
// them, so reading alone does not show it.
func (r *CheckReport) addUnwritten(src Source, column string) {
	f, ok := src.(interface{ Unwritten(column string) [][2]int })
	if !ok {
		return
	}
	rows := f.Unwritten(column)
	if len(rows) == 0 {
		return
	}
	all := 0
	for _, of := range rows {
		all += of[1] - of[0]
	}
	r.add("%s: %d rows were never written, the first of them rows %d to %d; they read as the file's fill value", column, all, rows[0][0], rows[0][1]-1)
}

// checkEpisodes reports gaps and overlaps between episodes.
func (r *CheckReport) checkEpisodes(src Source) {
	// Sort by offset: files may list episodes in any order.
	eps := slices.Clone(src.Episodes())
	slices.SortFunc(eps, func(a, b Episode) int { return a.Offset - b.Offset })
	at := 0
	for _, e := range eps {
		switch {
		case e.Offset > at:
			r.add("rows %d to %d belong to no episode", at, e.Offset-1)
		case e.Offset < at:
			r.add("row %d belongs to two episodes", e.Offset)
		}
		at = max(at, e.Offset+e.Len)
	}
	if at != src.Rows() {
		r.add("the episodes end at row %d of %d", at, src.Rows())
	}
}

// checkColumn reads a column episode by episode and reports faults of its numbers,
// one problem for each cause.
func (r *CheckReport) checkColumn(src Source, c envs.Column) {
	var causes []string
	where := map[string]*rowsOf{}
	var still, ends rowsOf
	inexact := false
	for i, e := range src.Episodes() {
		v, err := src.Read(c.Name, e.Offset, e.Offset+e.Len)
		if errors.Is(err, ErrInexact) {
			if !inexact {
				r.Notes = append(r.Notes, fmt.Sprintf("episode %d: %v", i, err))
			}
			inexact, err = true, nil
		}
		if err != nil {
			r.add("episode %d: %v", i, err)
			still.broken = true
			// One problem is enough for a column that cannot be read.
			break
		}
		still.repeats(i, e, func(t int) bool { return slices.Equal(v[:c.Width], v[t*c.Width:(t+1)*c.Width]) })
		if !hasNaN(v[(e.Len-1)*c.Width:]) {
			ends.add(place{i, e.Len - 1, e.Offset + e.Len - 1})
		}
		for t := range e.Len {
			what := fault(c.Name, v, v[t*c.Width:(t+1)*c.Width], t, e.Len)
			if what == "" {
				continue
			}
			if where[what] == nil {
				causes, where[what] = append(causes, what), new(rowsOf)
			}
			where[what].add(place{i, t, e.Offset + t})
		}
	}
	for _, what := range causes {
		r.add("%v: %s", where[what], what)
	}
	if slices.Contains(observed, c.Name) {
		r.addStill(c.Name, still)
	}
	if c.Name == "action" && ends.rows > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%v: the last row of an episode has an action, although no row shows its result; other recorders write NaN there", &ends))
	}
}

// observed are the columns that show the state of the world, which moves in any
// useful recording. A constant one is a sign that the recorder stored the same array
// again and again.
var observed = []string{"observation", "state", "proprio", "qpos"}

// rowsOf is the set of rows that share a cause: the first of them and their number.
type rowsOf struct {
	first place
	rows  int
	// broken is set by repeats when a row differs from the first of its episode.
	broken bool
}

func (r *rowsOf) add(p place) {
	if r.rows == 0 {
		r.first = p
	}
	r.rows++
}

// repeats adds the rows of an episode after the first, until one differs from the
// first row; then the set is broken and stays so.
func (r *rowsOf) repeats(i int, e Episode, same func(t int) bool) {
	for t := 1; t < e.Len && !r.broken; t++ {
		r.add(place{i, t, e.Offset + t})
		r.broken = !same(t)
	}
}

func (r *rowsOf) String() string {
	if r.rows == 1 {
		return r.first.String()
	}
	return fmt.Sprintf("%v and %d more", r.first, r.rows-1)
}

// addStill reports a column in which all rows of every episode equal the episode's
// first row.
func (r *CheckReport) addStill(column string, still rowsOf) {
	if !still.broken && still.rows > 0 {
		r.add("%v: %s equals that of the episode's first row, in every episode", &still, column)
	}
}

// place is a row, by its episode and step and by its number in the file.
type place struct {
	episode, step, row int
}

func (p place) String() string {
	return fmt.Sprintf("episode %d, step %d (row %d)", p.episode, p.step, p.row)
}

// badAction reports whether a number is not a valid part of an action. The last row
// of an episode may have no action, which is NaN.
func badAction(a float64, last bool) bool { return math.IsInf(a, 0) || math.IsNaN(a) && !last }

// CheckFinite returns an error that names the first number of the actions that is not
// finite, and likewise of the task state q if it is not nil. Training calls it first:
// one such number would turn all weights into NaN.
func CheckFinite(src Source, q *envs.Q) error {
	actions, err := src.Read("action", 0, src.Rows())
	if err != nil {
		return err
	}
	var state []float64
	if q != nil {
		if state, err = ReadQ(src, *q, 0, src.Rows()); err != nil {
			return err
		}
	}
	width := len(actions) / max(src.Rows(), 1)
	for i, e := range src.Episodes() {
		for t := range e.Len {
			p := place{i, t, e.Offset + t}
			for d, a := range actions[p.row*width:][:width] {
				if badAction(a, t == e.Len-1) {
					return fmt.Errorf("%v: action[%d] is %v (hint: `scalewm data check` looks at every row)", p, d, a)
				}
			}
			for d := range len(state) / src.Rows() {
				if v := state[p.row*len(q.Parts)+d]; math.IsNaN(v) || math.IsInf(v, 0) {
					return fmt.Errorf("%v: %s of q is %v (hint: leave that episode out, or collect the data set again)", p, q.Parts[d], v)
				}
			}
		}
	}
	return nil
}

// fault returns what is wrong with a column's numbers now at step t of an episode of
// n rows, or "" if nothing is. all has the numbers of the entire episode.
func fault(column string, all, now []float64, t, n int) string {
	switch column {
	case "step_idx":
		switch {
		case now[0] == float64(t+1) && all[0] == 1:
			return "step_idx starts at 1, not at 0"
		case now[0] != float64(t):
			return "step_idx does not count the steps"
		}
	case "ep_idx", "episode_idx":
		if now[0] != all[0] {
			return column + " changes within the episode"
		}
	case "action":
		for k, a := range now {
			if badAction(a, t == n-1) {
				return fmt.Sprintf("action[%d] is %v", k, a)
			}
		}
	}
	return ""
}

// checkFrames decodes every frame on all cores and compares hashes of the frames
// within each episode. Each worker has one frame in memory.
func (r *CheckReport) checkFrames(ctx context.Context, src Source, progress func(done, total int64, note string)) error {
	var good atomic.Int64
	rows := src.Rows()
	frames, bad, sums := make([][]byte, parallel.Workers(0, rows)), make([]error, rows), make([]uint64, rows)
	seed := maphash.MakeSeed()
	err := parallel.For(ctx, len(frames), rows, func(w, row int) error {
		if frames[w] == nil {
			frames[w] = make([]byte, 3*src.FrameSize()*src.FrameSize())
		}
		if bad[row] = src.Frame(row, frames[w]); bad[row] != nil {
			return nil
		}
		sums[row] = maphash.Bytes(seed, frames[w])
		if n := good.Add(1); progress != nil && n%256 == 0 {
			progress(n, int64(rows), "frames")
		}
		return nil
	})
	r.Frames = int(good.Load())
	if i := slices.IndexFunc(bad, func(err error) bool { return err != nil }); i >= 0 {
		more := ""
		if n := rows - r.Frames - 1; n > 0 && err == nil {
			more = fmt.Sprintf(" (and %d more frames)", n)
		}
		r.add("%v%s", bad[i], more)
		return err
	}
	var still rowsOf
	for i, e := range src.Episodes() {
		still.repeats(i, e, func(t int) bool { return e.Offset+t < rows && sums[e.Offset+t] == sums[e.Offset] })
	}
	if err == nil {
		r.addStill("pixels", still)
	}
	return err
}
