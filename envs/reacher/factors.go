package reacher

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"scalewm/envs"
)

// factors are those of the original in the order in which it draws them, without
// agent.finger_locked, which has no effect there. All of them make the original
// compile its model again, and us too.
var factors = []envs.Factor{
	{Name: "agent.color", DType: "float64", High: 1, Init: []float64{0.7, 0.5, 0.3}, Doc: "red, green, blue of both links"},
	{Name: "agent.arm_density", DType: "float32", Low: 500, High: 1500, Init: []float64{1000}, Doc: "of the first link in kg/m³"},
	{Name: "agent.finger_density", DType: "float32", Low: 500, High: 1500, Init: []float64{1000}, Doc: "of the finger in kg/m³"},
	{Name: "floor.color", DType: "float64", High: 1, Init: []float64{0.1, 0.2, 0.3, 0.2, 0.3, 0.4}, Doc: "red, green, blue of the checker's one colour and of its other"},
	{Name: "target.color", DType: "float64", High: 1, Init: []float64{0.6, 0.3, 0.3}, Doc: "red, green, blue"},
	{Name: "target.shape", DType: "int64", High: 1, Init: []float64{1}, Doc: "0: a box, 1: a sphere"},
	{Name: "rendering.render_target", DType: "int64", High: 1, Init: []float64{0}, Doc: "1: the target is drawn"},
	{Name: "light.intensity", DType: "float64", High: 1, Init: []float64{0.7}, Doc: "of the light above, per channel"},
}

// look is what the scene is written with.
type look struct {
	vary   *envs.Variation
	values []float64 // of the factors
}

// Of writes the numbers of a factor as MJCF has them.
func (l look) Of(factor string) string { return text(l.vary.Of(l.values, factor)...) }

// Part writes some numbers of a factor.
func (l look) Part(factor string, from, to int) string {
	return text(l.vary.Of(l.values, factor)[from:to]...)
}

// Light is the same for every channel.
func (l look) Light() string {
	x := l.vary.Of(l.values, "light.intensity")[0]
	return text(x, x, x)
}

// Shown says whether the target is drawn.
func (l look) Shown() bool { return l.vary.Of(l.values, "rendering.render_target")[0] == 1 }

// Shape is the target's.
func (l look) Shape() string {
	return [2]string{"box", "sphere"}[int(l.vary.Of(l.values, "target.shape")[0])]
}

func text(v ...float64) string {
	parts := make([]string, len(v))
	for i, x := range v {
		parts[i] = strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strings.Join(parts, " ")
}

// change goes on in a world whose factors have these values.
func (e *env) change(values []float64) error {
	if slices.Equal(values, e.stage.values) {
		return nil
	}
	s, err := look{e.vary, values}.stage()
	if err != nil {
		return err
	}
	return e.enter(s)
}

// enter goes on in a stage.
func (e *env) enter(s *stage) error {
	if s == e.stage {
		return nil
	}
	d, err := s.model.NewData()
	if err != nil {
		return fmt.Errorf("reacher: making a world: %w", err)
	}
	if e.d != nil {
		e.d.Close()
	}
	e.stage, e.d, e.arrays = s, d, s.arraysOf(d)
	return nil
}
