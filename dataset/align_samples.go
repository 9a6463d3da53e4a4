package dataset

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"scalewm/dataset/parallel"
)

// Limits of what align reads, for any size of data set.
const (
	alignRows    = 3000 // rows
	alignWindows = 100  // episodes that they come from
	alignParts   = 10   // parts at least, so that a share of them means something
	alignWidth   = 64   // numbers of an action, or of the columns of the state together
	alignBins    = 8    // of a frame, along each axis
	alignFolds   = 5    // of the cross-validation
)

// samples are the rows on which align compares actions with what is seen. All slices
// are by position in the windows that were read, except those over at.
type samples struct {
	windows []Episode // runs of rows within episodes
	actions []float64
	width   int
	// at has the positions t for which t-2..t+1 are in the window and their actions are
	// finite; part and fold are theirs.
	at, part, fold []int
	parts, folds   int
}

// view is what is seen in the rows of the windows: width numbers a position.
type view struct {
	name   string
	values []float64
	width  int
}

func (v view) row(i int) []float64 { return v.values[i*v.width : (i+1)*v.width] }

// windowsOf returns the runs of rows that align reads: from up to alignWindows episodes,
// evenly over the file. The last row of an episode is left out, because its action leads
// nowhere.
func windowsOf(episodes []Episode) []Episode {
	var long []Episode
	for _, e := range episodes {
		if e.Len >= 6 {
			long = append(long, Episode{e.Offset, e.Len - 1})
		}
	}
	n := min(len(long), alignWindows)
	out := make([]Episode, n)
	for i := range out {
		e := long[i*len(long)/n]
		rows := min(e.Len, alignRows/n+3)
		// Another part of every episode: its beginning often differs from the rest.
		out[i] = Episode{e.Offset + i*rows%(e.Len-rows+1), rows}
	}
	return out
}

// newSamples reads the actions of the windows. why says why they decide nothing; "" if
// they may.
func newSamples(src Source) (s *samples, why string) {
	c, err := FindColumn(src, "action")
	switch {
	case err != nil:
		return nil, "there is no column action"
	case c.Width > alignWidth:
		return nil, fmt.Sprintf("actions of more than %d numbers are not compared", alignWidth)
	}
	s = &samples{windows: windowsOf(src.Episodes()), width: c.Width}
	perWindow := 1
	if n := len(s.windows); n > 0 {
		perWindow = (alignParts + n - 1) / n
	}
	s.parts = perWindow * len(s.windows)
	s.folds = min(alignFolds, s.parts)
	start := 0
	for i, w := range s.windows {
		v, err := src.Read("action", w.Offset, w.Offset+w.Len)
		if err != nil {
			return nil, err.Error()
		}
		s.actions = append(s.actions, v...)
		for t := 2; t < w.Len-1; t++ {
			if finite(v[(t-2)*s.width : (t+2)*s.width]) {
				p := i*perWindow + t*perWindow/w.Len
				s.at, s.part, s.fold = append(s.at, start+t), append(s.part, p), append(s.fold, p%s.folds)
			}
		}
		start += w.Len
	}
	if len(s.at) < minAlignRows {
		return nil, fmt.Sprintf("%d rows can be compared, and fewer than %d decide nothing", len(s.at), minAlignRows)
	}
	if !slices.ContainsFunc(s.at, func(t int) bool {
		return !slices.Equal(s.actions[t*s.width:(t+1)*s.width], s.actions[s.at[0]*s.width:][:s.width])
	}) {
		return nil, "the actions are the same in all rows"
	}
	for f := range s.folds {
		if !slices.Contains(s.fold, f) {
			return nil, "too many actions are NaN"
		}
	}
	return s, ""
}

func finite(v []float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
}

// state reads the columns that show the world, as far as they are finite and differ from
// the actions of the same rows. ok is false if there are none.
func (s *samples) state(src Source) (v view, ok bool) {
	var columns [][]float64
	var names []string
	for _, c := range src.Columns() {
		if !slices.Contains(observed, c.Name) || c.Width > alignWidth-len(columns) {
			continue
		}
		var all []float64
		for _, w := range s.windows {
			part, err := src.Read(c.Name, w.Offset, w.Offset+w.Len)
			if err != nil {
				return v, false // Check has reported it
			}
			all = append(all, part...)
		}
		if !finite(all) {
			continue
		}
		used := false
		for j := range c.Width {
			number := make([]float64, len(all)/c.Width)
			for i := range number {
				number[i] = all[i*c.Width+j]
			}
			if !s.isAction(number) {
				columns, used = append(columns, number), true
			}
		}
		if used {
			names = append(names, c.Name)
		}
	}
	v = view{name: strings.Join(names, ", "), width: len(columns)}
	for i := range len(s.actions) / s.width {
		for _, c := range columns {
			v.values = append(v.values, c[i])
		}
	}
	return v, v.width > 0
}

// isAction reports whether a number of the state repeats a number of the action of the
// same row. It would say nothing of what the action does.
func (s *samples) isAction(number []float64) bool {
	for j := range s.width {
		same := !slices.ContainsFunc(s.at, func(t int) bool {
			a := s.actions[t*s.width+j]
			return math.Abs(a-number[t]) > 1e-5*math.Abs(a)
		})
		if same {
			return true
		}
	}
	return false
}

// frames reads the frames and reduces each to its sums over columns and over rows of
// pixels, in alignBins overlapping bins for each of the three colours. A pixel is shared
// between the two nearest bins, so that the sums follow a movement of less than a bin.
func (s *samples) frames(ctx context.Context, src Source) (view, error) {
	size := src.FrameSize()
	v := view{name: "pixels", width: 2 * 3 * alignBins}
	var rows []int
	for _, w := range s.windows {
		rows = append(rows, span(w.Offset, w.Len)...)
	}
	v.values = make([]float64, len(rows)*v.width)
	frames := make([][]byte, parallel.Workers(0, len(rows)))
	err := parallel.For(ctx, len(frames), len(rows), func(worker, i int) error {
		if frames[worker] == nil {
			frames[worker] = make([]byte, 3*size*size)
		}
		if err := src.Frame(rows[i], frames[worker]); err != nil {
			return err
		}
		profiles(frames[worker], size, v.row(i))
		return nil
	})
	return v, err
}

// profiles writes the sums of a frame of size x size pixels to dst: by axis, bin and
// colour.
func profiles(frame []byte, size int, dst []float64) {
	line := make([]float64, 2*3*size) // sums of each column and of each row of pixels
	for y := range size {
		for x := range size {
			for c := range 3 {
				value := float64(frame[(y*size+x)*3+c])
				line[3*x+c] += value
				line[3*(size+y)+c] += value
			}
		}
	}
	for i := range 2 * size {
		at := (float64(i%size) + .5) / float64(size) * (alignBins - 1)
		bin := int(at)
		share, first := at-float64(bin), 3*(i/size*alignBins+bin)
		for c := range 3 {
			dst[first+c] += (1 - share) * line[3*i+c]
			dst[first+3+c] += share * line[3*i+c]
		}
	}
}

// align compares the actions of a data set with what its frames and its columns of the
// state show. It reads at most about alignRows rows. The result does not depend on the
// number of cores. The error is that of ctx only.
func align(ctx context.Context, src Source) (Alignment, error) {
	s, why := newSamples(src)
	if why != "" {
		return Alignment{Why: why}, nil
	}
	var all []evidence
	if v, ok := s.state(src); ok {
		all = append(all, weigh(v, s))
	}
	if src.FrameSize() > 0 {
		v, err := s.frames(ctx, src)
		if ctx.Err() != nil {
			return Alignment{}, ctx.Err()
		}
		if err == nil { // else Check has reported it
			all = append(all, weigh(v, s))
		}
	}
	if len(all) == 0 {
		return Alignment{Why: "there are neither frames nor one of the columns " + strings.Join(observed, ", ")}, nil
	}
	a := judge(all)
	a.Rows = len(s.at)
	return a, nil
}
