package replay

import (
	"math"
	"strings"

	"scalewm/envs"
)

// outcome gathers what we simulated, in the layout of the recording: the task's
// own columns with our numbers, the others as they were recorded. A nil
// outcome gathers nothing.
type outcome struct {
	to      Recorder
	columns []*column // of the task
	copied  []envs.Column
	matrix  map[string]bool // columns that the recording stores as rows x 1
	attrs   map[string]string
	draws   bool
	data    map[string][]float64
	frames  [][]byte
}

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

// observe keeps a column's present row.
func (o *outcome) observe(c *column) {
	if o != nil {
		o.data[c.Name] = append(o.data[c.Name], c.ours...)
	}
}

// frame keeps a copy of our frame.
func (o *outcome) frame(f []byte) {
	if o != nil {
		o.frames = append(o.frames, append([]byte(nil), f...))
	}
}

// leaveOut fills a row that was not simulated: NaN, or 0 where there is no NaN.
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

// finish hands the episode over.
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
