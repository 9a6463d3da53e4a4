package pusht

import (
	"math"

	"scalewm/envs"
	"scalewm/envs/raster"
)

// factors are the factors of the reference implementation in the order in which it draws
// them (docs/sources.md#push-t-reset). Omitted are goal.scale, block.scale and agent.angle,
// which have no effect there, and agent.shape and block.shape, because this solver supports
// only a disc and a T.
var factors = []envs.Factor{
	{Name: "background.color", DType: "uint8", High: 255, Init: []float64{255, 255, 255}, Doc: "red, green, blue of the table"},
	{Name: "goal.color", DType: "uint8", High: 255, Init: []float64{144, 238, 144}, Doc: "of the T that is drawn as the goal"},
	{Name: "goal.angle", DType: "float64", Low: -2 * math.Pi, High: 2 * math.Pi, Init: []float64{math.Pi / 4}, Doc: "of the T that is drawn as the goal"},
	{Name: "goal.position", DType: "float64", Low: 50, High: 450, Init: []float64{256, 256}, Doc: "x, y of the T that is drawn as the goal"},
	{Name: "block.color", DType: "uint8", High: 255, Init: []float64{119, 136, 153}, Doc: "of the block's edges; it is filled with the same colour, a fifth lighter"},
	{Name: "block.angle", DType: "float64", Low: -2 * math.Pi, High: 2 * math.Pi, Init: []float64{0}, Sampled: true, Doc: "of a reset's start"},
	{Name: "block.start_position", DType: "float64", Low: 100, High: 400, Init: []float64{400, 100}, Sampled: true, Doc: "x, y of a reset's start"},
	{Name: "agent.color", DType: "uint8", High: 255, Init: []float64{65, 105, 225}, Doc: "of the disc's rim; it is filled with the same colour, a fifth lighter"},
	{Name: "agent.scale", DType: "float32", Low: 20, High: 60, Init: []float64{40}, Doc: "the disc's radius is 0.375 times this many pixels"},
	{Name: "agent.start_position", DType: "float64", Low: 50, High: 450, Init: []float64{256, 400}, Sampled: true, Doc: "x, y of a reset's start"},
	{Name: "agent.velocity", DType: "float64", High: window, Init: []float64{0, 0}, Doc: "x, y of a reset's goal and start, pixels/s"},
	{Name: "rendering.render_goal", DType: "int64", High: 1, Init: []float64{1}, Doc: "1: the goal is drawn"},
}

// look is the geometry and colours that follow from certain factor values. It is
// immutable, so states can share it.
type look struct {
	values   []float64 // of the factors
	back     backdrop
	block    paint
	agent    paint
	radius   float64 // of the agent
	velocity vec     // of the agent at a reset
}

// backdrop describes what is drawn below and behind everything that moves. It is comparable.
type backdrop struct {
	table, goal raster.Color
	pose        [3]float64 // of the drawn goal
	shown       bool
}

// paint is the two colours of a body.
type paint struct{ edge, fill raster.Color }

// newLook computes the look for a vector of factor values.
func newLook(v *envs.Variation, values []float64) *look {
	number := func(name string) float64 { return v.Of(values, name)[0] }
	color := func(name string) paint { return newPaint(v.Of(values, name)) }
	at, velocity := v.Of(values, "goal.position"), v.Of(values, "agent.velocity")
	return &look{values: values,
		back: backdrop{color("background.color").edge, color("goal.color").edge,
			[3]float64{at[0], at[1], number("goal.angle")}, number("rendering.render_goal") == 1},
		block: color("block.color"), agent: color("agent.color"),
		radius:   float64(float32(0.375 * number("agent.scale"))),
		velocity: vec{velocity[0], velocity[1]},
	}
}

// newPaint returns the edge colour and a lighter fill colour, computed in float32 like the
// reference implementation's.
func newPaint(c []float64) paint {
	light := func(x float64) byte { return byte(math.RoundToEven(min(float64(float32(1.2)*float32(x)), 255))) }
	return paint{raster.RGB(byte(c[0]), byte(c[1]), byte(c[2])), raster.RGB(light(c[0]), light(c[1]), light(c[2]))}
}

// adopt sets the factors that a row has columns for.
func (e *env) adopt(row envs.Row) error {
	values, err := e.vary.Read(row, e.s.look.values)
	if err == nil {
		e.s.look = e.look(values)
		e.s.world.agent.radius = e.s.look.radius
	}
	return err
}

// look returns the look for a vector of values. It reuses an existing one for the same
// slice.
func (e *env) look(values []float64) *look {
	for _, l := range []*look{e.initial, e.s.look} {
		if &l.values[0] == &values[0] {
			return l
		}
	}
	return newLook(e.vary, values)
}
