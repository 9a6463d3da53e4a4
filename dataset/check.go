package dataset

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"scalewm/envs"
	"scalewm/envs/parallel"
)

// maxProblems is how many problems a check lists; the rest are counted.
const maxProblems = 20

// CheckReport is what Check found.
type CheckReport struct {
	Rows, Episodes int
	Frames         int      // decoded without an error
	Problems       []string // one line each, at most 20
	More           int      // problems beyond those
}

// OK says that nothing is wrong.
func (r *CheckReport) OK() bool { return len(r.Problems) == 0 }

func (r *CheckReport) add(format string, args ...any) {
	if len(r.Problems) == maxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Check reads everything in a source: the episodes must cover the rows without
// gap or overlap, every column and every frame must decode, index columns must
// agree with the episodes, and actions must be finite, the last of an episode
// apart, which may be NaN. One cause in many rows is one problem. The error is
// ctx's; what is wrong with the data is in the report.
func Check(ctx context.Context, src Source, progress func(done, total int64, note string)) (*CheckReport, error) {
	r := &CheckReport{Rows: src.Rows(), Episodes: len(src.Episodes())}
	r.checkEpisodes(src)
	for _, c := range src.Columns() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.checkColumn(src, c)
	}
	if src.HasFrames() {
		if err := r.checkFrames(ctx, src, progress); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *CheckReport) checkEpisodes(src Source) {
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

func (r *CheckReport) checkColumn(src Source, c envs.Column) {
	var faults []string
	first, rows := map[string]place{}, map[string]int{}
	for i, e := range src.Episodes() {
		v, err := src.Read(c.Name, e.Offset, e.Offset+e.Len)
		if err != nil {
			r.add("episode %d: %v", i, err)
			break // one line for a column that cannot be read
		}
		for t := range e.Len {
			what := fault(c.Name, v, v[t*c.Width:(t+1)*c.Width], t, e.Len)
			if what == "" {
				continue
			}
			if rows[what] == 0 {
				faults = append(faults, what)
				first[what] = place{i, t, e.Offset + t}
			}
			rows[what]++
		}
	}
	for _, what := range faults {
		more := ""
		if n := rows[what] - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		r.add("%v%s: %s", first[what], more, what)
	}
}

// place is a row by its episode and step.
type place struct {
	episode, step, row int
}

func (p place) String() string {
	return fmt.Sprintf("episode %d, step %d (row %d)", p.episode, p.step, p.row)
}

// badAction says that a number of an action is none: the last row of an episode
// may have no action, which is NaN.
func badAction(a float64, last bool) bool { return math.IsInf(a, 0) || math.IsNaN(a) && !last }

// CheckFinite names the first number of the actions, and of the task state q
// where one is given, that nothing can be learnt from.
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

// fault says what is wrong with a column's numbers at step t of an episode of n
// rows, "" for nothing; all are those of the whole episode.
func fault(column string, all, now []float64, t, n int) string {
	switch column {
	case "step_idx":
		if by := now[0] - float64(t); by != 0 {
			return fmt.Sprintf("step_idx differs by %+g from the step", by)
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

// checkFrames decodes every frame on all cores.
func (r *CheckReport) checkFrames(ctx context.Context, src Source, progress func(done, total int64, note string)) error {
	var good atomic.Int64
	rows := src.Rows()
	frames, bad := make([][]byte, parallel.Workers(0, rows)), make([]error, rows)
	err := parallel.For(ctx, len(frames), rows, func(w, row int) error {
		if frames[w] == nil {
			frames[w] = make([]byte, envs.FrameBytes)
		}
		if bad[row] = src.Frame(row, frames[w]); bad[row] != nil {
			return nil
		}
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
	}
	return err
}
