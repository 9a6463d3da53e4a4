package raster

import (
	"bufio"
	"hash/crc32"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

var (
	ground = RGB(255, 250, 3)
	ink    = RGB(231, 76, 60)
)

// cases reads testdata/drawings.txt (make_drawings.py): operation, numbers, checksum.
func cases(t *testing.T, f func(line, what string, v []int, sum uint32)) {
	t.Helper()
	file, err := os.Open("testdata/drawings.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		var v []int
		for _, w := range words[1:] {
			n, err := strconv.Atoi(w)
			if err != nil {
				t.Fatal(err)
			}
			v = append(v, n)
		}
		f(lines.Text(), words[0], v[:len(v)-1], uint32(v[len(v)-1]))
	}
}

// Every drawing equals pygame's byte for byte, also where it leaves the picture, and Dirty
// contains everything that changed.
func TestDrawingsOfPygame(t *testing.T) {
	n := map[string]int{}
	cases(t, func(line, what string, v []int, sum uint32) {
		c := NewCanvas(60, 50)
		c.Fill(ground)
		c.TakeDirty()
		switch what {
		case "polygon":
			var p []Point
			for i := 0; i < len(v); i += 2 {
				p = append(p, Point{v[i], v[i+1]})
			}
			c.Polygon(p, ink)
		case "disc":
			c.Disc(Point{v[0], v[1]}, v[2], ink)
		case "line":
			c.Line(Point{v[0], v[1]}, Point{v[2], v[3]}, v[4], ink)
		case "aaline":
			c.AALine(Point{v[0], v[1]}, Point{v[2], v[3]}, ink)
		default:
			return
		}
		n[what]++
		if crc32.ChecksumIEEE(bytesOf(c)) != sum {
			t.Errorf("differs: %s", line)
		}
		for i, p := range c.Pix {
			if d, x, y := c.Dirty, i%c.W, i/c.W; p != ground && (x < d.X0 || x >= d.X1 || y < d.Y0 || y >= d.Y1) {
				t.Fatalf("%s: drew (%d, %d), outside %+v", line, x, y, d)
			}
		}
	})
	for _, what := range []string{"polygon", "disc", "line", "aaline"} {
		if n[what] != 300 {
			t.Errorf("%d cases of %s", n[what], what)
		}
	}
}

func bytesOf(c *Canvas) []byte {
	var b []byte
	for _, p := range c.Pix {
		b = append(b, byte(p), byte(p>>8), byte(p>>16))
	}
	return b
}

// noise returns the picture of a resize case: bytes of a linear congruential generator, for
// odd seeds only 0 and 200.
func noise(seed int) *Canvas {
	c := NewCanvas(64, 64)
	v := uint32(seed)
	next := func() byte {
		v = (v*1103515245 + 12345) % (1 << 31)
		b := byte(v >> 16)
		if seed%2 == 1 {
			b = map[bool]byte{true: 200}[b > 128]
		}
		return b
	}
	for i := range c.Pix {
		c.Pix[i] = RGB(next(), next(), next())
	}
	return c
}

func TestResizeOfOpenCV(t *testing.T) {
	n := 0
	cases(t, func(line, what string, v []int, sum uint32) {
		if what != "resize" {
			return
		}
		n++
		dst := make([]byte, 28*28*3)
		NewResizer(64, 28).Draw(dst, noise(v[0]), Rect{0, 0, 64, 64})
		if crc32.ChecksumIEEE(dst) != sum {
			t.Errorf("differs: %s", line)
		}
	})
	if n != 8 {
		t.Errorf("%d cases", n)
	}
}

// Resizing only the pixels that an area affects equals resizing everything.
func TestResizeOfAnArea(t *testing.T) {
	r := NewResizer(64, 28)
	c := noise(2)
	dst := make([]byte, 28*28*3)
	r.Draw(dst, c, Rect{0, 0, 64, 64})
	for i, area := range []Rect{{0, 0, 1, 1}, {63, 63, 64, 64}, {10, 20, 11, 40}, {5, 5, 30, 9}, {}} {
		for y := area.Y0; y < area.Y1; y++ {
			for x := area.X0; x < area.X1; x++ {
				c.Pix[y*64+x] ^= 0xff00ff
			}
		}
		r.Draw(dst, c, area)
		want := make([]byte, len(dst))
		r.Draw(want, c, Rect{0, 0, 64, 64})
		if string(dst) != string(want) {
			t.Errorf("area %d: %+v", i, area)
		}
	}
}

func TestAt(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want int
	}{{0.5, 0}, {1.5, 2}, {-0.5, 0}, {-1.5, -2}, {2.4999, 2}, {1e300, maxCoordinate}, {-1e300, -maxCoordinate}, {math.NaN(), -maxCoordinate}, {math.Inf(1), maxCoordinate}} {
		if p := At(c.x, 7); p != (Point{c.want, 7}) {
			t.Errorf("At(%g) = %v, want %d", c.x, p, c.want)
		}
	}
}

func TestRestore(t *testing.T) {
	base, c := noise(4), NewCanvas(64, 64)
	c.Fill(0)
	c.Restore(base, c.TakeDirty())
	c.Disc(Point{70, 30}, 12, ink)
	c.Polygon([]Point{{3, 3}, {9, 5}, {4, 20}}, ink)
	c.Disc(Point{500, 500}, 3, ink)
	if string(bytesOf(c)) == string(bytesOf(base)) {
		t.Error("nothing was drawn")
	}
	if c.Restore(base, c.TakeDirty()); string(bytesOf(c)) != string(bytesOf(base)) || !c.Dirty.Empty() {
		t.Errorf("not as before; dirty %+v", c.Dirty)
	}
}

// Huge coordinates draw only what is in the picture and do not take long.
func TestFarAway(t *testing.T) {
	c := NewCanvas(60, 50)
	a, b := At(-1e18, -1e18), At(1e18, 1e18)
	c.Polygon([]Point{a, {b.X, a.Y}, b, {a.X, b.Y}}, ink)
	for i, p := range c.Pix {
		if p != ink {
			t.Fatalf("pixel %d is not covered", i)
		}
	}
	c.Fill(ground)
	c.Line(a, b, 4, ink)
	c.AALine(a, b, ink)
	if c.Pix[20*60+20] != ink {
		t.Error("the diagonal is not there")
	}
	defer func() {
		if recover() == nil {
			t.Error("9 corners are taken")
		}
	}()
	c.Polygon(make([]Point, 9), ink)
}
