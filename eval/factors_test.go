package eval

import (
	"testing"

	"scalewm/envs"
	"scalewm/eval/results"
)

// turned is a recording of Two-Room with a horizontal wall.
type turned struct{ *recording }

func (s turned) Columns() []envs.Column {
	return append(s.recording.Columns(), envs.Column{Name: "variation.wall.axis", DType: "int64", Width: 1})
}

func (s turned) Read(column string, from, to int) ([]float64, error) {
	if column == "variation.wall.axis" {
		return make([]float64, to-from), nil
	}
	return s.recording.Read(column, from, to)
}

// An evaluation runs in the world that was recorded.
func TestEvaluationTakesFactorsOver(t *testing.T) {
	d, err := NewData(turned{recordEpisodes(t, 8)}, tworoom(), rules(results.Paper))
	must(t, err)
	e, err := tworoom().New(nil)
	must(t, err)
	set, err := d.Set("s101", 1)
	must(t, err)
	must(t, d.setTo(e, set.Starts[0]))
	axis := []float64{1}
	must(t, e.Observe("variation.wall.axis", axis))
	if axis[0] != 0 {
		t.Error("the wall stands as by default")
	}
}
