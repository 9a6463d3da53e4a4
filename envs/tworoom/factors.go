package tworoom

import (
	"slices"

	"scalewm/envs"
)

// factors are those of the original in the order in which it draws them
// (docs/sources.md#two-room-reset), without wall.border_color, which it never draws with.
var factors = []envs.Factor{
	{Name: "background.color", DType: "uint8", High: 255, Init: []float64{255, 255, 255}, Doc: "red, green, blue of the floor"},
	{Name: "wall.color", DType: "uint8", High: 255, Init: []float64{0, 0, 0}, Doc: "of all walls"},
	{Name: "wall.thickness", DType: "int64", Low: 7, High: 41, Init: []float64{10}, Doc: "pixels; the wall covers half of it, rounded down, on both sides of its middle line"},
	{Name: "wall.axis", DType: "int64", High: 1, Init: []float64{1}, Doc: "1: the wall is vertical, 0: horizontal"},
	{Name: "agent.color", DType: "uint8", High: 255, Init: []float64{255, 0, 0}, Doc: "red, green, blue"},
	{Name: "agent.radius", DType: "float32", Low: 7, High: 14, Init: []float64{7}, Doc: "pixels; also the standard deviation of its drawing"},
	{Name: "agent.position", DType: "float32", Low: placeLow, High: placeHigh, Init: []float64{60, 112}, Sampled: true, Doc: "x, y of a reset, clear of the wall"},
	{Name: "agent.speed", DType: "float32", Low: 1.75, High: 10.5, Init: []float64{5}, Doc: "pixels a step at full action"},
	{Name: "door.color", DType: "uint8", High: 255, Init: []float64{255, 255, 255}, Doc: "red, green, blue"},
	{Name: "door.number", DType: "int64", Low: 1, High: maxDoors, Init: []float64{1}, Doc: "of doors"},
	{Name: "door.size", DType: "int64", Low: 1, High: 21, Init: []float64{14, 14, 14}, Doc: "half the width of each door in pixels; one of those there is at least 1.1 agent radii"},
	{Name: "door.position", DType: "int64", High: envs.FrameSize - 1, Init: []float64{49, 49, 49}, Doc: "middle of each door along the wall"},
	{Name: "task.min_steps", DType: "int64", Low: 15, High: 114, Init: []float64{25}, Doc: "shortest way to a target of the constrained sampler"},
	{Name: "target.color", DType: "uint8", High: 255, Init: []float64{0, 255, 0}, Doc: "red, green, blue"},
	{Name: "target.radius", DType: "float32", Low: 7, High: 14, Init: []float64{7}, Doc: "standard deviation of the target's drawing in pixels"},
	{Name: "target.position", DType: "float32", Low: placeLow, High: placeHigh, Init: []float64{164, 112}, Sampled: true, Doc: "x, y of a reset"},
	{Name: "rendering.render_target", DType: "int64", High: 1, Init: []float64{0}, Doc: "1: the target is drawn, below the agent"},
}

// color is red, green, blue of a pixel.
type color [3]byte

// door is a hole in the wall, from its middle along the wall.
type door struct{ at, half int }

// look is a world with its factors at certain values. It is never changed, so
// that many states share it.
type look struct {
	values []float64 // of the factors

	floor, wall, doorway, agent, target color
	radius, targetRadius, speed         float32
	vertical, showTarget                bool
	half                                int // the wall covers this much on both sides of its middle
	doors                               []door
	minSteps                            float64

	// Where the agent's centre may be, as the original computes it: in float64.
	low, high, faceLow, faceHigh float64
}

// newLook computes geometry and colours from the factors' values.
func newLook(v *envs.Variation, values []float64) *look {
	number := func(name string) float64 { return v.Of(values, name)[0] }
	paint := func(name string) color {
		c := v.Of(values, name)
		return color{byte(c[0]), byte(c[1]), byte(c[2])}
	}
	l := &look{values: values,
		floor: paint("background.color"), wall: paint("wall.color"), doorway: paint("door.color"),
		agent: paint("agent.color"), target: paint("target.color"),
		radius: float32(number("agent.radius")), targetRadius: float32(number("target.radius")),
		speed: float32(number("agent.speed")), vertical: number("wall.axis") == 1,
		showTarget: number("rendering.render_target") == 1,
		half:       int(number("wall.thickness")) / 2, minSteps: number("task.min_steps")}
	at, half := v.Of(values, "door.position"), v.Of(values, "door.size")
	for i := range int(number("door.number")) {
		l.doors = append(l.doors, door{int(at[i]), int(half[i])})
	}
	r := number("agent.radius")
	l.low, l.high = borderSize+r, envs.FrameSize-borderSize-r
	l.faceLow, l.faceHigh = float64(wallCentre-l.half)-r, float64(wallCentre+l.half)+r
	return l
}

// passes says whether the agent fits through a door, as the sampler and the expert need to know.
func (l *look) passes(d door) bool { return float64(d.half) >= doorFit*float64(l.radius) }

// inDoor says whether one at this place along the wall stands in a door's band.
func (l *look) inDoor(along float64) bool {
	for _, d := range l.doors {
		if float64(d.at-d.half)-doorMargin <= along && along <= float64(d.at+d.half)+doorMargin {
			return true
		}
	}
	return false
}

// place splits a place into across and along the wall, or puts it together again.
func (l *look) place(p point) point {
	if l.vertical {
		return p
	}
	return point{p.y, p.x}
}

// allowed is the original's rule for drawn factors: one door at least lets the
// agent through, and the agent does not begin in the wall. Where the original
// would draw a radius and then stop for a door that is too small, it is drawn again.
func (e *env) allowed(name string, values []float64) bool {
	switch name {
	case "agent.radius", "door.number":
		return e.vary.Drawn("door.size") || newLook(e.vary, values).passable()
	case "door.size":
		return newLook(e.vary, values).passable()
	case "agent.position":
		p := e.vary.Of(values, name)
		return !newLook(e.vary, values).atWall(point{float32(p[0]), float32(p[1])})
	}
	return true
}

func (l *look) passable() bool { return slices.ContainsFunc(l.doors, l.passes) }
