// Package raster draws 2-D primitives pixel for pixel as the originals' drawing
// libraries do: filled polygons, discs, thick and anti-aliased lines by the
// rules of pygame 2.6, and bilinear resizing by those of OpenCV for bytes. The
// rules are integer or float32 arithmetic that is repeated exactly, oddities
// included; the images must equal those that data were recorded with.
//
// It knows nothing of tasks.
package raster

import "math"

// Color is a pixel: red in the low byte, then green, then blue.
type Color uint32

// RGB packs a colour.
func RGB(r, g, b byte) Color { return Color(r) | Color(g)<<8 | Color(b)<<16 }

// Point is a pixel's place; x runs right, y down.
type Point struct{ X, Y int }

// far bounds coordinates, so that sums and products of them never overflow.
const far = 1 << 20

// At is the pixel that a place falls to: each coordinate is rounded, halves to
// even. Places out of all bounds stay far outside.
func At(x, y float64) Point { return Point{coordinate(x), coordinate(y)} }

func coordinate(v float64) int {
	if !(v > -far) { // NaN too
		return -far
	}
	return int(math.RoundToEven(min(v, far)))
}

// Rect is the pixels with X0 <= x < X1 and Y0 <= y < Y1.
type Rect struct{ X0, Y0, X1, Y1 int }

// Empty says whether no pixel is in the rectangle.
func (r Rect) Empty() bool { return r.X0 >= r.X1 || r.Y0 >= r.Y1 }

// Union is the smallest rectangle that holds both.
func (r Rect) Union(s Rect) Rect {
	if r.Empty() {
		return s
	}
	if s.Empty() {
		return r
	}
	return Rect{min(r.X0, s.X0), min(r.Y0, s.Y0), max(r.X1, s.X1), max(r.Y1, s.Y1)}
}

// Canvas is a picture that is drawn on. What lies outside is not drawn.
type Canvas struct {
	W, H int
	Pix  []Color // row by row
	// Dirty holds every pixel drawn since TakeDirty was last called.
	Dirty Rect
}

// NewCanvas makes a black picture.
func NewCanvas(w, h int) *Canvas { return &Canvas{W: w, H: h, Pix: make([]Color, w*h)} }

// Fill paints everything.
func (c *Canvas) Fill(col Color) {
	for i := range c.Pix {
		c.Pix[i] = col
	}
	c.Dirty = Rect{0, 0, c.W, c.H}
}

// TakeDirty is what was drawn on since the last call.
func (c *Canvas) TakeDirty() Rect {
	d := c.Dirty
	c.Dirty = Rect{}
	return d
}

// Restore copies an area from another picture of the same size.
func (c *Canvas) Restore(from *Canvas, area Rect) {
	for y := area.Y0; y < area.Y1; y++ {
		copy(c.Pix[y*c.W+area.X0:y*c.W+area.X1], from.Pix[y*c.W+area.X0:])
	}
}

// touch notes that pixels from a to b, both included, may have been drawn.
func (c *Canvas) touch(x0, y0, x1, y1 int) {
	if r := (Rect{max(x0, 0), max(y0, 0), min(x1+1, c.W), min(y1+1, c.H)}); !r.Empty() {
		c.Dirty = c.Dirty.Union(r)
	}
}

// span paints the pixels of row y between two columns, both included.
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

// column paints the pixels of column x between two rows, both included.
func (c *Canvas) column(x, y0, y1 int, col Color) {
	if x < 0 || x >= c.W {
		return
	}
	for y := max(y0, 0); y <= min(y1, c.H-1); y++ {
		c.Pix[y*c.W+x] = col
	}
}
