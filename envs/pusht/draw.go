package pusht

import (
	"math"
	"sync"

	"scalewm/envs"
	"scalewm/envs/raster"
)

// Colours of the reference implementation that do not vary (docs/sources.md#push-t-drawing).
var (
	wallColor = raster.RGB(211, 211, 211)
	markColor = raster.RGB(231, 76, 60)
)

const (
	outlineRadius = 2   // half the width of the block's edges
	agentRim      = 4   // width of the disc's rim
	markReach     = 2.0 // a contact's mark extends beyond its two points by this
)

// scenery is the part of the picture that never moves, at full size and scaled to a frame.
type scenery struct {
	canvas  *raster.Canvas
	resizer *raster.Resizer
	frame   []byte
}

// plain is the backdrop of the initial factor values.
var plain = backdrop{raster.RGB(255, 255, 255), raster.RGB(144, 238, 144), [3]float64{256, 256, math.Pi / 4}, true}

// plainScenery is drawn once per process. All pens share it and must not write to it.
var plainScenery = sync.OnceValue(func() *scenery { return newScenery(plain) })

// wallPixels says for each pixel of the canvas whether it belongs to a wall.
var wallPixels = sync.OnceValue(func() []bool {
	c := raster.NewCanvas(window, window)
	drawWalls(c)
	is := make([]bool, len(c.Pix))
	for i, p := range c.Pix {
		is[i] = p == wallColor
	}
	return is
})

// drawWalls draws the four walls.
func drawWalls(c *raster.Canvas) {
	for i := range walls {
		fatSegment(c, walls[i].end[0].pixel(), walls[i].end[1].pixel(), wallRadius, wallColor)
	}
}

// newScenery draws a backdrop: table, goal, walls.
func newScenery(b backdrop) *scenery {
	s := &scenery{raster.NewCanvas(window, window), raster.NewResizer(window, envs.FrameSize), make([]byte, envs.FrameBytes)}
	s.canvas.Fill(b.table)
	if b.shown {
		var rot vec
		rot.y, rot.x = sincos(b.pose[2])
		for _, part := range parts {
			var corner [4]raster.Point
			for i, c := range part.corner {
				c = c.rotated(rot)
				corner[i] = raster.At(c.x+b.pose[0], c.y+b.pose[1])
			}
			s.canvas.Polygon(corner[:], b.goal)
		}
	}
	drawWalls(s.canvas)
	s.resizer.Draw(s.frame, s.canvas, s.canvas.TakeDirty())
	return s
}

// pen draws the frames of one env. It draws what moves over the scenery, and restores and
// rescales only the areas touched, which is much cheaper than a full frame.
type pen struct {
	back   backdrop // the one that table shows
	table  *scenery
	isWall []bool // wallPixels
	canvas *raster.Canvas
	areas  [3]raster.Rect // where block, agent and marks were drawn last
}

// newPen returns a pen with an empty table of the initial factor values.
func newPen() *pen {
	p := &pen{back: plain, table: plainScenery(), isWall: wallPixels(), canvas: raster.NewCanvas(window, window)}
	p.clear()
	return p
}

// show switches to another backdrop, unless it is the current one.
func (p *pen) show(b backdrop) {
	if b == p.back {
		return
	}
	p.back, p.table = b, plainScenery()
	if b != plain {
		p.table = newScenery(b)
	}
	p.clear()
}

// clear makes the canvas show the empty table.
func (p *pen) clear() { p.canvas.Restore(p.table.canvas, raster.Rect{X1: window, Y1: window}) }

// draw draws the frame into dst, in the reference implementation's order: bar, stem, agent,
// the walls over them, then a red mark at each contact of the last sub-step.
func (p *pen) draw(dst []byte, w *world, l *look) {
	p.show(l.back)
	c := p.canvas
	for _, area := range p.areas {
		c.Restore(p.table.canvas, area)
	}
	for k := range parts {
		drawPart(c, &w.block.corner[k], l.block)
	}
	p.areas[0] = c.TakeDirty()
	at := w.agent.p.pixel()
	c.Disc(at, rounded(l.radius), l.agent.edge)
	c.Disc(at, rounded(l.radius-agentRim), l.agent.fill)
	p.areas[1] = c.TakeDirty()
	p.coverByWalls(p.areas[0])
	p.coverByWalls(p.areas[1])
	for _, k := range w.active[:w.count] {
		w.drawMarks(c, k)
	}
	p.areas[2] = c.TakeDirty()
	copy(dst, p.table.frame)
	for _, area := range p.areas {
		p.table.resizer.Draw(dst, c, area)
	}
}

// drawMarks draws the marks of a pair's contacts, along the normal.
func (w *world) drawMarks(c *raster.Canvas, pair uint8) {
	a, from := &w.arbiter[pair], w.partner(pair).p
	for i := range a.at[:a.count] {
		p1, p2 := from.add(a.at[i].r1), w.block.p.add(a.at[i].r2)
		c.AALine(p1.add(a.n.mul(-markReach)).pixel(), p2.add(a.n.mul(markReach)).pixel(), markColor)
	}
}

// rounded rounds to the nearest integer, halves to even, as Python's round does.
func rounded(x float64) int { return int(math.RoundToEven(x)) }

// pixel returns the pixel of a position.
func (a vec) pixel() raster.Point { return raster.At(a.x, a.y) }

// drawPart draws a part of the block: the fill, then its edges.
func drawPart(c *raster.Canvas, corner *[4]vec, col paint) {
	var at [4]raster.Point
	for i, v := range corner {
		at[i] = v.pixel()
	}
	c.Polygon(at[:], col.fill)
	for i := range at {
		fatSegment(c, at[i], at[(i+1)%4], outlineRadius, col.edge)
	}
}

// fatSegment draws a line with round ends as the reference implementation does: a thick
// line, a quadrilateral, and a disc at each end. The reference implementation takes absolute
// values of the extents, so for one sign of the slope the sides of the quadrilateral lean
// the wrong way; this is repeated.
func fatSegment(c *raster.Canvas, a, b raster.Point, radius int, col raster.Color) {
	c.Line(a, b, 2*radius, col)
	if a == b {
		return
	}
	x, y := math.Abs(float64(b.Y-a.Y)), math.Abs(float64(b.X-a.X))
	scale := float64(radius) / math.Sqrt(x*x+y*y)
	ox, oy := rounded(x*scale), rounded(y*scale)
	quad := [4]raster.Point{{X: a.X - ox, Y: a.Y - oy}, {X: a.X + ox, Y: a.Y + oy}, {X: b.X + ox, Y: b.Y + oy}, {X: b.X - ox, Y: b.Y - oy}}
	c.Polygon(quad[:], col)
	c.Disc(a, radius, col)
	c.Disc(b, radius, col)
}

// wallReach bounds the distance of wall pixels from the edges of the picture.
const wallReach = 10

// coverByWalls redraws the walls in an area in which something was drawn over them.
func (p *pen) coverByWalls(d raster.Rect) {
	if d.X0 >= wallReach && d.Y0 >= wallReach && d.X1 <= window-wallReach && d.Y1 <= window-wallReach {
		return
	}
	for y := d.Y0; y < d.Y1; y++ {
		for i := y*window + d.X0; i < y*window+d.X1; i++ {
			if p.isWall[i] {
				p.canvas.Pix[i] = wallColor
			}
		}
	}
}
