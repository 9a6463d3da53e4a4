package dataset

import (
	"errors"
	"math"
	"testing"

	"scalewm/envs"
)

// fake is a source in memory: episodes of given lengths with a 2-wide action
// (NaN in last rows), a state and a frame that are functions of the row.
type fake struct {
	episodes    []Episode
	rows        int
	action      []float64
	fingerprint string
	frameSeed   int
	indices     []float64 // step_idx
	badFrame    int       // this row's frame does not decode
	still       bool      // the state is the same in all rows
	stillFrames bool
	unwritten   [][2]int // rows of action
}

func (f *fake) Unwritten(column string) [][2]int {
	if column == "action" {
		return f.unwritten
	}
	return nil
}

func newFake(t testing.TB, lens ...int) *fake {
	t.Helper()
	f := &fake{fingerprint: "f00d", badFrame: -1}
	for _, n := range lens {
		f.episodes = append(f.episodes, Episode{Offset: f.rows, Len: n})
		for s := range n {
			a := []float64{float64(f.rows%7) - 3, float64(f.rows * f.rows % 11)}
			if s == n-1 {
				a = []float64{math.NaN(), math.NaN()}
			}
			f.action = append(f.action, a...)
			f.indices = append(f.indices, float64(s))
			f.rows++
		}
	}
	return f
}

func (f *fake) Rows() int           { return f.rows }
func (f *fake) Episodes() []Episode { return f.episodes }
func (f *fake) Columns() []envs.Column {
	return []envs.Column{{Name: "action", DType: "float32", Width: 2}, {Name: "state", DType: "float64", Width: 3}, {Name: "step_idx", DType: "int32", Width: 1}}
}

func (f *fake) Read(column string, from, to int) ([]float64, error) {
	if column == "action" {
		return f.action[2*from : 2*to], nil
	}
	if column == "step_idx" {
		return f.indices[from:to], nil
	}
	var out []float64
	for r := from; r < to; r++ {
		at := r
		if f.still {
			at = 0
		}
		out = append(out, float64(at), float64(at%5)*0.25, 7)
	}
	return out, nil
}

func (f *fake) FrameSize() int { return envs.FrameSize }

func (f *fake) Frame(row int, dst []byte) error {
	if row == f.badFrame {
		return errors.New("frame does not decode")
	}
	if f.stillFrames {
		row = 0
	}
	for i := range dst {
		dst[i] = byte(i/97*3 + row*31 + f.frameSeed)
	}
	return nil
}

func (f *fake) Attr(string) (string, bool)   { return "", false }
func (f *fake) Fingerprint() (string, error) { return f.fingerprint, nil }
func (f *fake) Close() error                 { return nil }
