package replay

import (
	"math"
	"strings"

	"scalewm/envs"
)

// outcome collects what was simulated, in the layout of the recording: the task's own
// columns with our numbers, and all others as recorded. A nil outcome collects
// nothing.
type outcome struct {
	to Recorder
	// columns are those of the task, copied those that only the recording has.
	columns []*column
	copied  []envs.Column
	// matrix has the columns that the recording stores with the shape (rows, 1).
	matrix map[string]bool
	attrs  map[string]string
	// draws is set if frames are collected.
	draws bool
	// data and frames are those of the current episode.
	data   map[string][]float64
	frames [][]byte
}

// newOutcome returns an outcome with the columns and attributes of the player's
// recording.
func newOutcome(p *player) *outcome {
	o := &outcome{to: p.opt.Out, columns: p.columns, draws: p.opt.Pixels,
		attrs: map[string]string{"env": p.spec.Name},
		data:  map[string][]float64{}, matrix: map[string]bool{}}
	for _, c := range p.src.Columns() {
		o.matrix[c.Name] = c.Matrix
		_, ours := p.spec.Column(c.Name)
		if _, read := p.now.width[c.Name]; read && !ours {
			o.copied = append(o.copied, c)
		}
	}
	for _, name := range p.spec.OptionNames() {
		if v, ok := p.src.Attr(name); ok {
			o.attrs[name] = v
		}
	}
	return o
}

// start tells the recorder which columns will come.
func (o *outcome) start() error {
	if o == nil {
		return nil
	}
	columns := append([]envs.Column(nil), o.copied...)
	for _, c := range o.columns {
		stored := c.Column
		stored.Matrix = o.matrix[c.Name]
		columns = append(columns, stored)
	}
	return o.to.Start(columns, o.draws, o.attrs)
}

// observe appends the current row of a column.
func (o *outcome) observe(c *column) {
	if o != nil {
		o.data[c.Name] = append(o.data[c.Name], c.ours...)
	}
}

// frame appends a copy of our frame.
func (o *outcome) frame(f []byte) {
	if o != nil {
		o.frames = append(o.frames, append([]byte(nil), f...))
	}
}

// leaveOut appends a row for one that was not simulated: NaN, or 0 in integer columns
// and frames.
func (o *outcome) leaveOut() {
	if o == nil {
		return
	}
	for _, c := range o.columns {
		v := 0.0
		if strings.HasPrefix(c.DType, "float") {
			v = math.NaN()
		}
		for range c.Width {
			o.data[c.Name] = append(o.data[c.Name], v)
		}
	}
	if o.draws {
		o.frames = append(o.frames, make([]byte, envs.FrameBytes))
	}
}

// finish passes the episode to the recorder.
func (o *outcome) finish(r *recorded) error {
	if o == nil {
		return nil
	}
	for _, c := range o.copied {
		o.data[c.Name] = r.data[c.Name]
	}
	err := o.to.Episode(o.data, o.frames)
	o.data, o.frames = map[string][]float64{}, nil
	return err
}
