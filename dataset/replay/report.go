package replay

import "slices"

// Report is what a replay found; its JSON is read by scripts and holds no NaN,
// infinity or null.
type Report struct {
	Env      string `json:"env"`
	File     string `json:"file"`
	Episodes int    `json:"episodes"`
	// Rows counts the rows that were simulated and compared, LeftOut (one-step
	// mode only) those that do not hold enough to restart exactly.
	Rows    int  `json:"rows"`
	LeftOut *int `json:"left_out,omitempty"`
	// Columns holds every column of the file that the task produces.
	Columns    map[string]ColumnDiff `json:"columns"`
	Frames     FrameDiff             `json:"frames"`
	Terminated FlagDiff              `json:"terminated"`
	// NotCompared lists the other columns of the file, in alphabetical order.
	NotCompared []string      `json:"not_compared"`
	PerEpisode  []EpisodeDiff `json:"per_episode,omitempty"`
}

// ColumnDiff is how far a column is from the recorded one.
type ColumnDiff struct {
	MaxAbs    float64 `json:"max_abs"`    // largest difference of an element; 1e300 where ours is not a number
	RowsEqual int     `json:"rows_equal"` // rows without any difference
	Rows      int     `json:"rows"`       // rows with an element to compare
	Worst     Place   `json:"worst"`      // the first row with MaxAbs
	// First is the first row with any difference: where a replay begins to diverge.
	First *Place `json:"first,omitempty"`
}

// Place is a row of an episode, both counted from 0.
type Place struct {
	Episode int `json:"episode"`
	Row     int `json:"row"`
}

// FrameDiff is how far frames are from the recorded ones, in levels of 0 to 255.
type FrameDiff struct {
	Count      int     `json:"count"`       // frames compared
	Mean       float64 `json:"mean"`        // absolute difference, over all bytes of all frames
	Max        int     `json:"max"`         // largest absolute difference of a byte
	WorstBytes int     `json:"worst_bytes"` // most differing bytes in a frame
	// Moving is Mean over those bytes of the picture that take more than one
	// value in the recorded frames: a drawing without the moving thing shows here.
	Moving float64 `json:"moving"`
}

// FlagDiff is how often the success flag is another than the recorded one.
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

// MaxAbs is a column's largest difference in an episode.
type MaxAbs struct {
	MaxAbs float64 `json:"max_abs"`
}

// report sums up after the last episode.
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
