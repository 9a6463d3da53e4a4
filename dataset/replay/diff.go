package replay

import (
	"math"
	"slices"

	"scalewm/envs"
)

// notANumber is the difference if the file has a number and the simulation does not.
// It is also the largest difference reported, since JSON has no infinity.
const notANumber = 1e300

// column is a column of the task during a replay.
type column struct {
	envs.Column
	// recorded is set if the file has the column, with the same width.
	recorded bool
	// ours is the simulated row.
	ours []float64
	// total and episode are the differences so far, over all episodes and in the
	// current one.
	total   ColumnDiff
	episode ColumnDiff
}

// compare adds the difference between the simulated row and the recorded one.
// Recorded entries that are NaN are not compared.
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

// add adds a row with the largest difference d.
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

// difference returns |ours - theirs| for a recorded number, around the circle for
// angles, and at most notANumber.
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

// frameDiffs accumulates differences of frames. To report the mean over moving bytes,
// it keeps a sum for each byte of the frame, because which bytes move is known only
// at the end.
type frameDiffs struct {
	count, worst int
	sum          uint64
	max          byte
	// first is the first recorded frame.
	first []byte
	// moved marks the bytes that differed from first in a later recorded frame.
	moved []bool
	// sums has the sum of differences of each byte.
	sums []uint64
}

// compare adds a pair of frames.
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

// diff returns the summary. All sums are integers, so it does not depend on the order
// of frames.
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
