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
// agree with the episodes, and an action may be NaN in the last row of its
// episode only. The error is ctx's; what is wrong with the data is in the report.
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
	for i, e := range src.Episodes() {
		v, err := src.Read(c.Name, e.Offset, e.Offset+e.Len)
		if err != nil {
			r.add("episode %d: %v", i, err)
			return // one line for a column that cannot be read
		}
		for t := range e.Len {
			r.checkRow(c, v[t*c.Width:(t+1)*c.Width], place{i, t, e.Offset + t, t == e.Len-1})
		}
	}
}

// place is a row by its episode and step.
type place struct {
	episode, step, row int
	last               bool
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
			p := place{i, t, e.Offset + t, t == e.Len-1}
			for d, a := range actions[p.row*width:][:width] {
				if badAction(a, p.last) {
					return fmt.Errorf("%v: action[%d] is %v (hint: `scalewm data check` lists all such rows)", p, d, a)
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

func (r *CheckReport) checkRow(c envs.Column, v []float64, p place) {
	switch c.Name {
	case "action":
		for i, a := range v {
			if badAction(a, p.last) {
				r.add("%v: action[%d] is %v", p, i, a)
				return
			}
		}
	case "step_idx":
		if v[0] != float64(p.step) {
			r.add("%v: step_idx is %v", p, v[0])
		}
	}
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
	for _, err := range bad {
		if err != nil {
			r.add("%v", err)
		}
	}
	return err
}
