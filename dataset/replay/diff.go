package replay

import (
	"math"
	"slices"

	"scalewm/envs"
)

// notANumber is the difference where the file has a number and we do not, and
// the largest one reported.
const notANumber = 1e300

// column is a column of the task while it is replayed.
type column struct {
	envs.Column
	recorded bool // the file has it too
	ours     []float64
	total    ColumnDiff
	episode  ColumnDiff
}

// compare takes in our present row against the recorded one.
func (c *column) compare(theirs []float64, at Place) {
	worst, any := 0.0, false
	for i, v := range theirs {
		if math.IsNaN(v) {
			continue
		}
		any = true
		worst = max(worst, difference(c.ours[i], v, slices.Contains(c.Angle, i)))
	}
	if !any {
		return
	}
	c.total.add(worst, at)
	c.episode.add(worst, at)
}

// add takes in a row whose largest difference is d.
func (f *ColumnDiff) add(d float64, at Place) {
	if f.Rows == 0 || d > f.MaxAbs {
		f.MaxAbs, f.Worst = d, at
	}
	f.Rows++
	switch {
	case d == 0:
		f.RowsEqual++
	case f.First == nil:
		f.First = &at
	}
}

// difference is |ours - theirs| for a recorded number, on the circle for
// angles, and never more than 1e300.
func difference(ours, theirs float64, circle bool) float64 {
	if ours == theirs {
		return 0
	}
	d := math.Abs(ours - theirs)
	if circle {
		d = math.Abs(math.Remainder(ours-theirs, 2*math.Pi))
	}
	if math.IsNaN(d) || d > notANumber {
		return notANumber
	}
	return d
}

// frameDiffs takes in frames and keeps, byte by byte of the picture, what the
// measure of moving bytes needs.
type frameDiffs struct {
	count, worst int
	sum          uint64
	max          byte
	first        []byte // the first recorded frame
	moved        []bool // bytes that were another in a later one
	sums         []uint64
}

// compare takes in a pair of frames.
func (f *frameDiffs) compare(ours, theirs []byte) {
	if f.first == nil {
		f.first = slices.Clone(theirs)
		f.moved = make([]bool, len(theirs))
		f.sums = make([]uint64, len(theirs))
	}
	differing := 0
	for i, v := range theirs {
		if v != f.first[i] {
			f.moved[i] = true
		}
		if v == ours[i] {
			continue
		}
		d := max(v, ours[i]) - min(v, ours[i])
		differing++
		f.sum += uint64(d)
		f.sums[i] += uint64(d)
		f.max = max(f.max, d)
	}
	f.count++
	f.worst = max(f.worst, differing)
}

// diff sums up; all sums are whole numbers, so the order of frames does not matter.
func (f *frameDiffs) diff() FrameDiff {
	if f.count == 0 {
		return FrameDiff{}
	}
	var sum uint64
	moving := 0
	for i, m := range f.moved {
		if m {
			moving++
			sum += f.sums[i]
		}
	}
	d := FrameDiff{Count: f.count, Max: int(f.max), WorstBytes: f.worst,
		Mean: float64(f.sum) / float64(f.count*len(f.first))}
	if moving > 0 {
		d.Moving = float64(sum) / float64(f.count*moving)
	}
	return d
}
