package convert

import (
	"encoding/binary"
	"fmt"
	"math"

	"scalewm/dataset"
)

// Fit is how pictures become square.
type Fit string

// FitCrop takes the centre, with the shorter edge. FitLetterbox adds black bars up to
// the longer edge. With FitNone, the default, such pictures are an error.
const (
	FitNone      Fit = "none"
	FitCrop      Fit = "crop"
	FitLetterbox Fit = "letterbox"
)

// fitted is what has become of the frames so far.
type fitted struct {
	// attrs describe it in the data set.
	attrs   map[string]string
	resizer *dataset.Resizer
	// from is the edge of the frames that resizer takes.
	from int
}

// fit makes a picture square and scales it, as the user asked. It leaves a square
// picture of the right size as it is.
func (j *Job) fit(p picture) (picture, error) {
	if p.width != p.height {
		if !j.fits() {
			return p, fmt.Errorf("the frames%s are %d x %d pixels, and frames must be squares (hint: --fit crop takes their centre, --fit letterbox adds bars; --size N scales them)", j.ofCamera(), p.width, p.height)
		}
		j.remember("frames_fit", fmt.Sprintf("%s of %d x %d pixels", j.Fit, p.width, p.height))
		p = p.square(j.Fit)
	}
	if j.Size == 0 || p.width == j.Size {
		return p, nil
	}
	if j.fitted.from != p.width {
		j.fitted.resizer, j.fitted.from = dataset.NewResizer(p.width, j.Size), p.width
		j.remember("frames_resized", fmt.Sprintf("from %d to %d pixels", p.width, j.Size))
	}
	out := picture{j.Size, j.Size, make([]byte, 3*j.Size*j.Size)}
	j.fitted.resizer.Resize(out.rgb, p.rgb)
	return out, nil
}

// fits reports whether the user asked to make frames square.
func (j *Job) fits() bool { return j.Fit == FitCrop || j.Fit == FitLetterbox }

// ofCamera names the camera for messages, if the user chose one.
func (j *Job) ofCamera() string {
	if j.Frames == "" {
		return ""
	}
	return " " + j.Frames
}

// remember sets an attribute of the data set.
func (j *Job) remember(name, value string) {
	if j.fitted.attrs == nil {
		j.fitted.attrs = map[string]string{}
	}
	if j.fitted.attrs[name] == "" {
		j.fitted.attrs[name] = value
	}
}

// square returns the centre of a picture, or the picture between two black bars.
func (p picture) square(how Fit) picture {
	edge := min(p.width, p.height)
	if how == FitLetterbox {
		edge = max(p.width, p.height)
	}
	out := picture{edge, edge, make([]byte, 3*edge*edge)}
	// left and top are the position of the result in the picture, negative with bars.
	left, top := (p.width-edge)/2, (p.height-edge)/2
	for y := max(0, top); y < min(p.height, top+edge); y++ {
		row := p.rgb[3*(y*p.width+max(0, left)):][:3*min(p.width, edge)]
		copy(out.rgb[3*((y-top)*edge+max(0, -left)):], row)
	}
	return out
}

// frames takes the pixels of an episode, one frame per row.
func (j *Job) frames(e *episode, a array) error {
	s := a.shape
	if len(s) != 4 {
		return fmt.Errorf("its frames%s have the shape %v (hint: frames are (rows, edge, edge, 3) or (rows, 3, edge, edge))", j.ofCamera(), s)
	}
	data, err := a.bytes()
	if err != nil {
		return fmt.Errorf("its frames%s: %w", j.ofCamera(), err)
	}
	height, width, colours, first := s[1], s[2], s[3], false
	if colours != 1 && colours != 3 {
		colours, height, width, first = s[1], s[2], s[3], true
	}
	if colours != 1 && colours != 3 {
		return fmt.Errorf("its frames%s have the shape %v, neither one nor three colours (hint: x[..., :3] in Python takes the first three; a depth camera is no frame)", j.ofCamera(), s)
	}
	if err := (picture{width: width, height: height}).check(); err != nil {
		return err
	}
	size := height * width * colours
	for t := range a.rows() {
		p := picture{width, height, data[t*size : (t+1)*size]}
		if first || colours == 1 {
			p.rgb = interleaved(p.rgb, colours, first)
		}
		if p, err = j.fit(p); err != nil {
			return err
		}
		if t > 0 && p.width != e.edge {
			return fmt.Errorf("frame %d has %d pixels, the first %d (hint: all frames have one size)", t, p.width, e.edge)
		}
		e.edge = p.width
		e.data.Frames = append(e.data.Frames, p.rgb)
	}
	if colours == 1 {
		e.notes = append(e.notes, "its frames are grey; all three colours have that value")
	}
	return nil
}

// interleaved returns pixels of three bytes from one grey plane, or from three planes
// that follow one another.
func interleaved(planes []byte, colours int, first bool) []byte {
	n := len(planes) / colours
	out := make([]byte, 3*n)
	for i := range n {
		for c := range 3 {
			out[3*i+c] = planes[i+n*min(c, colours-1)]
		}
	}
	return out
}

// bytes returns the numbers of an array as bytes. They must be whole numbers from 0
// to 255: a rounded picture would be another one.
func (a array) bytes() ([]byte, error) {
	if a.dtype == "uint8" {
		return a.data, nil
	}
	out := make([]byte, len(a.data)/widths[a.dtype])
	i := 0
	if a.dtype == "float32" { // the usual type, in a fast loop up to the first fault
		for ; i < len(out); i++ {
			v := math.Float32frombits(binary.LittleEndian.Uint32(a.data[4*i:]))
			if out[i] = byte(int32(v)); float32(out[i]) != v {
				break
			}
		}
	}
	for ; i < len(out); i++ {
		v := a.number(i)
		if out[i] = byte(max(0, min(v, 255))); float64(out[i]) != v || math.IsNaN(v) {
			return nil, fmt.Errorf("number %d is %g, and pixels are whole numbers from 0 to 255 (hint: (255*x).round().astype(\"uint8\") in Python, if they are from 0 to 1)", i, v)
		}
	}
	return out, nil
}
