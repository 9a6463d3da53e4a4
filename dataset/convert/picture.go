package convert

import (
	"bytes"
	"fmt"
	"image"
	_ "image/jpeg" // formats of frames
	_ "image/png"

	"scalewm/dataset/hdf5"
)

// picture is a frame: rows of pixels of three bytes.
type picture struct {
	width, height int
	rgb           []byte
}

// check returns an error if the picture is larger than any frame.
func (p picture) check() error {
	if min(p.width, p.height) < 1 || max(p.width, p.height) > hdf5.MaxFrameSize {
		return fmt.Errorf("it is %d x %d pixels, frames have an edge of 1 to %d (hint: resize them, as with ffmpeg -vf scale)", p.width, p.height, hdf5.MaxFrameSize)
	}
	return nil
}

// readPicture decodes a JPEG or PNG. The size is checked before the pixels are
// decoded, since a small file can declare a huge picture.
func readPicture(b []byte) (p picture, err error) {
	c, _, err := image.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		return p, err
	}
	p.width, p.height = c.Width, c.Height
	if err := p.check(); err != nil {
		return p, err
	}
	img, _, err := image.Decode(bytes.NewReader(b))
	if err != nil {
		return p, err
	}
	p.rgb = make([]byte, 0, 3*p.width*p.height)
	if ycc, ok := img.(*image.YCbCr); ok {
		p.rgb = appendRGB(p.rgb, ycc)
		return p, nil
	}
	// RGBA returns 16 bits per colour, of which the upper 8 are those of the picture.
	at := img.Bounds().Min
	for y := range p.height {
		for x := range p.width {
			r, g, b, _ := img.At(at.X+x, at.Y+y).RGBA()
			p.rgb = append(p.rgb, byte(r>>8), byte(g>>8), byte(b>>8))
		}
	}
	return p, nil
}

// appendRGB appends the pixels of a JPEG's planes as libjpeg converts them, which
// Pillow and OpenCV use: chroma of half the resolution is interpolated, where Go's
// image package repeats it, and the conversion has 16 bits of fraction
// (docs/sources.md#jpeg).
func appendRGB(dst []byte, m *image.YCbCr) []byte {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	cb, cr := upsample(m.Cb, m), upsample(m.Cr, m)
	for y := range height {
		for x := range width {
			// The constants are 1.402, 0.34414, 0.71414 and 1.772, times 2^16.
			luma, b, r := int32(m.Y[y*m.YStride+x]), int32(cb[y*width+x])-128, int32(cr[y*width+x])-128
			const half = 1 << 15
			dst = append(dst, clamp(luma+(91881*r+half)>>16), clamp(luma+(-22554*b-46802*r+half)>>16), clamp(luma+(116130*b+half)>>16))
		}
	}
	return dst
}

func clamp(v int32) byte { return byte(max(0, min(v, 255))) }

// upsample returns a chroma plane with one value for each pixel of the picture.
func upsample(plane []byte, m *image.YCbCr) []byte {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	// half is the number of values in a row of the plane if it has half the pixels.
	half := (width + 1) / 2
	wide, tall := false, false
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio420:
		wide, tall = true, true
	case image.YCbCrSubsampleRatio422:
		wide = true
	case image.YCbCrSubsampleRatio440:
		tall = true
	}
	out := make([]byte, 0, width*height)
	// libjpeg repeats the values of planes with fewer than three columns, and those of
	// other ratios.
	if wide && half < 3 || !wide && !tall {
		for y := range height {
			for x := range width {
				out = append(out, plane[m.COffset(m.Rect.Min.X+x, m.Rect.Min.Y+y)])
			}
		}
		return out
	}
	if !wide {
		half = width
	}
	sums := make([]int32, half)
	for y := range height {
		// A row of the picture is 3/4 of the nearest row of the plane and 1/4 of the
		// next one. scale is the factor of the sums so far, and up makes the rounding
		// of neighbours opposite.
		scale, up := int32(1), int32(y&1)
		near, far := y, y
		if tall {
			scale, near = 4, y/2
			far = min(max(near-1+2*(y&1), 0), (height-1)/2)
		}
		row, next := plane[near*m.CStride:], plane[far*m.CStride:]
		for x := range sums {
			if sums[x] = int32(row[x]); tall {
				sums[x] = 3*int32(row[x]) + int32(next[x])
			}
		}
		if !wide {
			for _, s := range sums {
				out = append(out, byte((s+1+up)/4))
			}
			continue
		}
		for x := range width {
			near := x / 2
			far := min(max(near-1+2*(x&1), 0), half-1)
			// The bias is half of the divisor 4*scale for even pixels, and one less
			// for odd ones, in libjpeg's two versions for one and two axes.
			bias := 2*scale - int32(x&1)
			if !tall {
				bias = 1 + int32(x&1)
			}
			out = append(out, byte((3*sums[near]+sums[far]+bias)/(4*scale)))
		}
	}
	return out
}

// stack returns an array of the n frames that next returns, after fit.
func stack(n int, fit func(picture) (picture, error), next func(i int) (picture, error)) (a array, err error) {
	a.dtype = "uint8"
	for i := range n {
		p, err := next(i)
		if err == nil {
			p, err = fit(p)
		}
		if err != nil {
			return a, err
		}
		if i == 0 {
			a.shape = []int{n, p.height, p.width, 3}
		}
		if p.width != a.shape[2] || p.height != a.shape[1] {
			return a, fmt.Errorf("frame %d is %d pixels wide, the first %d (hint: all frames have one size)", i, p.width, a.shape[2])
		}
		if a.data = append(a.data, p.rgb...); len(a.data) > maxArrays {
			return a, fmt.Errorf("an episode of frames is larger than %d GB", maxArrays>>30)
		}
	}
	return a, nil
}
