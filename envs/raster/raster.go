// Package raster draws 2-D primitives, pixel for pixel as the drawing libraries of the
// reference implementations do: filled polygons, discs, thick and anti-aliased lines by
// the rules of pygame 2.6, and bilinear resizing by those of OpenCV for 8-bit images.
//
// The images must equal those that data sets were recorded with. The rules are integer or
// float32 arithmetic, which this package repeats operation by operation, oddities
// included. Explicit float32 conversions keep the compiler from fusing operations, which
// would change the rounding on some architectures.
//
// A caller draws on a [Canvas], whose Dirty rectangle says what changed, and scales that
// part with a [Resizer]. The package contains nothing about tasks.
package raster

import "math"

// Color is a pixel: red in the low byte, then green, then blue.
type Color uint32

// RGB returns a colour from its channels.
func RGB(r, g, b byte) Color { return Color(r) | Color(g)<<8 | Color(b)<<16 }

// Point is the position of a pixel. x increases to the right, y downwards.
type Point struct{ X, Y int }

// maxCoordinate bounds coordinates, so that their sums and products never overflow.
const maxCoordinate = 1 << 20

// At returns the pixel for a position: each coordinate is rounded to the nearest integer,
// halves to even, as Python's round does. Positions beyond the bounds, and NaN, become
// pixels far outside any picture.
func At(x, y float64) Point { return Point{coordinate(x), coordinate(y)} }

func coordinate(v float64) int {
	if !(v > -maxCoordinate) { // NaN too
		return -maxCoordinate
	}
	return int(math.RoundToEven(min(v, maxCoordinate)))
}

// Rect is the set of pixels with X0 <= x < X1 and Y0 <= y < Y1.
type Rect struct{ X0, Y0, X1, Y1 int }

// Empty reports whether the rectangle contains no pixel.
func (r Rect) Empty() bool { return r.X0 >= r.X1 || r.Y0 >= r.Y1 }

// Union returns the smallest rectangle that contains both.
func (r Rect) Union(s Rect) Rect {
	if r.Empty() {
		return s
	}
	if s.Empty() {
		return r
	}
	return Rect{min(r.X0, s.X0), min(r.Y0, s.Y0), max(r.X1, s.X1), max(r.Y1, s.Y1)}
}

// Canvas is a picture to draw on. Drawing is clipped to it.
type Canvas struct {
	W, H int
	Pix  []Color // W x H, row-major
	// Dirty contains every pixel drawn since TakeDirty was last called. It may be larger
	// than what was drawn.
	Dirty Rect
}

// NewCanvas returns a black picture.
func NewCanvas(w, h int) *Canvas { return &Canvas{W: w, H: h, Pix: make([]Color, w*h)} }

// Fill paints the entire picture.
func (c *Canvas) Fill(col Color) {
	for i := range c.Pix {
		c.Pix[i] = col
	}
	c.Dirty = Rect{0, 0, c.W, c.H}
}

// TakeDirty returns the Dirty rectangle and empties it.
func (c *Canvas) TakeDirty() Rect {
	d := c.Dirty
	c.Dirty = Rect{}
	return d
}

// Restore copies an area from another picture of the same size. It does not change Dirty:
// the caller restores an area that it already knows to be dirty.
func (c *Canvas) Restore(from *Canvas, area Rect) {
	for y := area.Y0; y < area.Y1; y++ {
		copy(c.Pix[y*c.W+area.X0:y*c.W+area.X1], from.Pix[y*c.W+area.X0:])
	}
}

// touch extends Dirty by the pixels x0 to x1 and y0 to y1, both inclusive.
func (c *Canvas) touch(x0, y0, x1, y1 int) {
	if r := (Rect{max(x0, 0), max(y0, 0), min(x1+1, c.W), min(y1+1, c.H)}); !r.Empty() {
		c.Dirty = c.Dirty.Union(r)
	}
}

// span paints the pixels of row y between two columns, both inclusive, in either order.
func (c *Canvas) span(x0, x1, y int, col Color) {
	if x0 > x1 {
		x0, x1 = x1, x0
	}
	x0, x1 = max(x0, 0), min(x1, c.W-1)
	if y < 0 || y >= c.H || x0 > x1 {
		return
	}
	row := c.Pix[y*c.W+x0 : y*c.W+x1+1]
	for i := range row {
		row[i] = col
	}
}

// column paints the pixels of column x from row y0 to row y1, both inclusive.
func (c *Canvas) column(x, y0, y1 int, col Color) {
	if x < 0 || x >= c.W {
		return
	}
	for y := max(y0, 0); y <= min(y1, c.H-1); y++ {
		c.Pix[y*c.W+x] = col
	}
}
