package convert

import (
	"slices"
	"strings"
	"testing"
)

// ramp returns a picture whose pixel (x, y) is (x, y, 7).
func ramp(width, height int) picture {
	p := picture{width: width, height: height}
	for y := range height {
		for x := range width {
			p.rgb = append(p.rgb, byte(x), byte(y), 7)
		}
	}
	return p
}

// The centre of 64 x 48 pixels is columns 8 to 55. Bars above and below make it 64 x
// 64, from row 8 on.
func TestFit(t *testing.T) {
	for _, is := range []struct {
		width, height int
		fit           Fit
		edge          int
		// left and top are the position of the result's first pixel in the picture.
		left, top int
	}{{64, 48, FitCrop, 48, 8, 0}, {48, 64, FitCrop, 48, 0, 8}, {5, 4, FitCrop, 4, 0, 0}, {64, 48, FitLetterbox, 64, 0, -8}, {48, 64, FitLetterbox, 64, -8, 0}, {6, 6, FitCrop, 6, 0, 0}} {
		j := Job{Fit: is.fit}
		p, err := j.fit(ramp(is.width, is.height))
		if err != nil || p.width != is.edge || p.height != is.edge {
			t.Fatalf("%+v: %d x %d, %v", is, p.width, p.height, err)
		}
		for y := range is.edge {
			for x := range is.edge {
				want := []byte{byte(x + is.left), byte(y + is.top), 7}
				if fx, fy := x+is.left, y+is.top; fx < 0 || fy < 0 || fx >= is.width || fy >= is.height {
					want = []byte{0, 0, 0}
				}
				if got := p.rgb[3*(y*is.edge+x):][:3]; !slices.Equal(got, want) {
					t.Fatalf("%+v: pixel (%d, %d) is %v, want %v", is, x, y, got, want)
				}
			}
		}
		if (j.fitted.attrs["frames_fit"] == "") != (is.width == is.height) {
			t.Errorf("%+v: attributes %v", is, j.fitted.attrs)
		}
	}
	j := Job{Frames: "top"}
	if _, err := j.fit(ramp(64, 48)); err == nil || !strings.Contains(err.Error(), "the frames top are 64 x 48 pixels") || !strings.Contains(err.Error(), "(hint: --fit crop") {
		t.Error(err)
	}
	// Scaling keeps a constant picture, and is recorded.
	j = Job{Size: 5, Fit: FitCrop}
	one := picture{8, 12, slices.Repeat([]byte{10, 20, 30}, 96)}
	if p, err := j.fit(one); err != nil || p.width != 5 || !slices.Equal(p.rgb, slices.Repeat([]byte{10, 20, 30}, 25)) || j.fitted.attrs["frames_resized"] != "from 8 to 5 pixels" {
		t.Errorf("%v, %v, %v", p, err, j.fitted.attrs)
	}
}

// Frames come with the colours last or first, grey, and as whole numbers of any type.
func TestFramesOfArrays(t *testing.T) {
	// Two frames of 2 x 2 pixels.
	rgb := make([]byte, 24)
	for i := range rgb {
		rgb[i] = byte(10 * i)
	}
	first := make([]byte, 24)
	for f := range 2 {
		for p := range 4 {
			for c := range 3 {
				first[12*f+4*c+p] = rgb[12*f+3*p+c]
			}
		}
	}
	grey := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	var greyRGB []byte
	for _, v := range grey {
		greyRGB = append(greyRGB, v, v, v)
	}
	float := numpyType{"f4", 4, false}.array([]int{2, 2, 2, 3}, floats(rgb), false)
	for name, is := range map[string]struct {
		a    array
		want []byte
	}{
		"last":        {array{"uint8", []int{2, 2, 2, 3}, rgb}, rgb},
		"first":       {array{"uint8", []int{2, 3, 2, 2}, first}, rgb},
		"grey, last":  {array{"uint8", []int{2, 2, 2, 1}, grey}, greyRGB},
		"grey, first": {array{"uint8", []int{2, 1, 2, 2}, grey}, greyRGB},
		"float":       {float, rgb},
		"four":        {array{"uint8", []int{2, 2, 2, 4}, make([]byte, 32)}, nil},
		"flat":        {array{"uint8", []int{2, 12}, rgb}, nil},
		"half":        {numpyType{"f4", 4, false}.array([]int{1, 1, 1, 3}, []byte{0, 0, 0, 63, 0, 0, 0, 0, 0, 0, 0, 0}, false), nil},
	} {
		var e episode
		err := (&Job{}).frames(&e, is.a)
		if is.want == nil {
			if err == nil || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || e.edge != 2 || !slices.Equal(slices.Concat(e.data.Frames...), is.want) {
			t.Errorf("%s: %v, %v", name, e.data.Frames, err)
		}
	}
}
