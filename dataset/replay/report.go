package replay

import "slices"

// Report is the result of a replay. Its JSON is read by scripts and contains no NaN,
// infinity or null.
type Report struct {
	Env      string `json:"env"`
	File     string `json:"file"`
	Episodes int    `json:"episodes"`
	// Rows is the number of rows that were simulated and compared. LeftOut, in
	// one-step mode only, is the number of rows that do not have enough to restart
	// exactly.
	Rows    int  `json:"rows"`
	LeftOut *int `json:"left_out,omitempty"`
	// Columns has every column of the file that the task produces.
	Columns    map[string]ColumnDiff `json:"columns"`
	Frames     FrameDiff             `json:"frames"`
	Terminated FlagDiff              `json:"terminated"`
	// NotCompared has the other columns of the file, in alphabetical order.
	NotCompared []string      `json:"not_compared"`
	PerEpisode  []EpisodeDiff `json:"per_episode,omitempty"`
}

// ColumnDiff is the difference between a column and the recorded one.
type ColumnDiff struct {
	// MaxAbs is the largest difference of an element; 1e300 if ours is not a number.
	MaxAbs float64 `json:"max_abs"`
	// RowsEqual is the number of rows without any difference.
	RowsEqual int `json:"rows_equal"`
	// Rows is the number of rows with an element to compare.
	Rows int `json:"rows"`
	// Worst is the first row with a difference of MaxAbs.
	Worst Place `json:"worst"`
	// First is the first row with any difference, where a replay begins to diverge.
	First *Place `json:"first,omitempty"`
}

// Place is a row of an episode, both counted from 0.
type Place struct {
	Episode int `json:"episode"`
	Row     int `json:"row"`
}

// FrameDiff is the difference between frames and the recorded ones, in levels of 0 to
// 255.
type FrameDiff struct {
	// Count is the number of frames compared.
	Count int `json:"count"`
	// Mean is the mean absolute difference over all bytes of all frames.
	Mean float64 `json:"mean"`
	// Max is the largest absolute difference of a byte.
	Max int `json:"max"`
	// WorstBytes is the largest number of differing bytes in a frame.
	WorstBytes int `json:"worst_bytes"`
	// Moving is the mean over those bytes of the frame that take more than one value
	// in the recorded frames. The background dominates Mean; if the moving object is
	// not drawn, it shows here.
	Moving float64 `json:"moving"`
}

// FlagDiff counts how often the success flag differs from the recorded one.
type FlagDiff struct {
	Compared int `json:"compared"`
	Wrong    int `json:"wrong"`
}

// EpisodeDiff is the report of one episode.
type EpisodeDiff struct {
	Index      int               `json:"index"`
	Columns    map[string]MaxAbs `json:"columns"`
	Frames     FrameDiff         `json:"frames"`
	Terminated FlagDiff          `json:"terminated"`
}

// MaxAbs is the largest difference of a column in an episode.
type MaxAbs struct {
	MaxAbs float64 `json:"max_abs"`
}

// report returns the summary after the last episode.
func (p *player) report() *Report {
	r := &Report{
		Env: p.spec.Name, File: p.opt.File, Episodes: len(p.episodes), Rows: p.rows,
		Columns: map[string]ColumnDiff{}, Frames: p.frames.diff(), Terminated: p.flags,
		NotCompared: []string{}, PerEpisode: p.perEpisode,
	}
	if p.opt.OneStep {
		r.LeftOut = &p.leftOut
	}
	for _, c := range p.columns {
		if c.total.Rows > 0 {
			r.Columns[c.Name] = c.total
		}
	}
	for _, c := range p.src.Columns() {
		_, compared := r.Columns[c.Name]
		if c.Name == flagColumn {
			compared = p.flags.Compared > 0
		}
		if !compared {
			r.NotCompared = append(r.NotCompared, c.Name)
		}
	}
	slices.Sort(r.NotCompared)
	return r
}
