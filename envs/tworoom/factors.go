package tworoom

import (
	"slices"

	"scalewm/envs"
	"scalewm/envs/tworoom/disc"
)

// factors are the factors of the reference implementation in the order in which it draws
// them (docs/sources.md#two-room-reset). wall.border_color is omitted, because the reference
// implementation does not use it.
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

// color is red, green and blue of a pixel.
type color [3]byte

// door is an opening in the wall: its centre along the wall and half its width, in pixels.
type door struct{ at, half int }

// look is the geometry and colours that follow from certain factor values. It is
// immutable, so states can share it.
type look struct {
	values []float64 // of the factors

	floor, wall, doorway, agent, target color
	radius, targetRadius, speed         float32
	vertical, showTarget                bool
	half                                int // the wall covers half pixels on both sides of its centre line
	doors                               []door
	minSteps                            float64 // minimum length of the shortest path, in steps at full speed

	// Bounds of the agent's centre, in float64 as in the reference implementation: inside
	// the outer walls, and at the two faces of the dividing wall.
	low, high, faceLow, faceHigh float64

	disc *disc.Geometry // the same walls for the swept rule
}

// newLook computes the look for a vector of factor values.
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
	// From the factor, in float64, and not from the rounded l.radius.
	r := number("agent.radius")
	l.low, l.high = borderSize+r, envs.FrameSize-borderSize-r
	l.faceLow, l.faceHigh = float64(wallCentre-l.half)-r, float64(wallCentre+l.half)+r
	var doors [][2]float64
	for _, d := range l.doors {
		doors = append(doors, [2]float64{float64(d.at), float64(d.half)})
	}
	l.disc = disc.New(l.vertical, number("wall.thickness"), r, doors)
	return l
}

// passes reports whether the agent fits through a door. The sampler and the expert use it;
// the dynamics only test the band of the door.
func (l *look) passes(d door) bool { return float64(d.half) >= doorFit*float64(l.radius) }

// inDoor reports whether a coordinate along the wall is in the band of a door.
func (l *look) inDoor(along float64) bool {
	for _, d := range l.doors {
		if float64(d.at-d.half)-doorMargin <= along && along <= float64(d.at+d.half)+doorMargin {
			return true
		}
	}
	return false
}

// place converts between floor coordinates and (across, along) the dividing wall, in either
// direction: for a horizontal wall it swaps the coordinates.
func (l *look) place(p point) point {
	if l.vertical {
		return p
	}
	return point{p.y, p.x}
}

// allowed is the reference implementation's constraint on drawn factors: at least one door
// lets the agent through, and the agent does not start in the wall. The reference
// implementation may draw a radius for which the doors are too small, and then fails; here
// the radius is drawn again.
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

// passable reports whether the agent fits through at least one door.
func (l *look) passable() bool { return slices.ContainsFunc(l.doors, l.passes) }
