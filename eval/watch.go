package eval

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/color/palette"
	"image/gif"
	"io"

	"scalewm/dataset"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval/results"
)

// Film is the film of one episode: the frame of the start and one frame after each
// step, each of envs.FrameBytes. Side is shown to the right of Frames: either one
// image for the entire film, such as the goal, or one for each frame.
type Film struct {
	Frames, Side [][]byte
	Result       results.Row // the episode's row; empty if the film shows no evaluation
}

// Watch runs the episode at index of the job's first set again and records its
// frames. The actions are those of the evaluation, since no result depends on the
// batch.
func Watch(ctx context.Context, j Job, a Agent, index int) (Film, error) {
	if err := j.Check(a); err != nil {
		return Film{}, err
	}
	j.Sets, j.Workers, j.Progress = j.Sets[:1], 1, nil
	r, err := newRunner(ctx, j, a)
	if err != nil {
		return Film{}, err
	}
	defer r.close()
	r.episodes = r.episodes[index : index+1]
	ep := r.episodes[0]
	if j.Outside != nil {
		return r.watchWorld(ctx, ep)
	}
	goal := make([]byte, envs.FrameBytes)
	film := Film{Side: [][]byte{goal}}
	if err := j.Data.frames(r.workers[0], ep.start, func(_ int, px []byte) { copy(goal, px) }, r.ids(ep)...); err != nil {
		return Film{}, fmt.Errorf("goal frame of episode %d: %w", index, err)
	}
	r.watch = func(_ int, e envs.Env) error {
		px := make([]byte, envs.FrameBytes)
		film.Frames = append(film.Frames, px)
		return e.Frame(px)
	}
	if err := r.run(ctx); err != nil {
		return Film{}, fmt.Errorf("watching episode %d of %s: %w", index, j.Arm.Method, err)
	}
	film.Result = ep.result
	return film, nil
}

// watchWorld is Watch in an outside world, whose frames have any size.
func (r *runner) watchWorld(ctx context.Context, ep *episode) (film Film, err error) {
	edge := r.frameSize()
	goal := make([]byte, edge*edge*3)
	if r.Data.recorded() {
		err = r.Data.Frame(r.Data.fileRow(ep.start)+r.Data.rules.GoalOffset, goal)
	} else {
		var b Begun
		if b, err = r.Outside.Reset([]int{0}, []int{r.Sets[ep.set].Seeded[ep.index].Seed}); err == nil {
			goal = b.Goals
		}
	}
	if err != nil {
		return film, fmt.Errorf("goal frame of episode %d: %w", ep.index, err)
	}
	scaled := func(px []byte, edge int) []byte {
		out := make([]byte, envs.FrameBytes)
		dataset.NewResizer(edge, envs.FrameSize).Resize(out, px)
		return out
	}
	film.Side = [][]byte{scaled(goal, edge)}
	r.film = func(px []byte) { film.Frames = append(film.Frames, scaled(px, r.Outside.FrameSize)) }
	if err := r.run(ctx); err != nil {
		return Film{}, fmt.Errorf("watching episode %d of %s: %w", ep.index, r.Arm.Method, err)
	}
	film.Result = ep.result
	return film, nil
}

// Layout of a film. Delays are in hundredths of a second, as GIF stores them.
const (
	filmDelay = 8   // per frame
	filmPause = 150 // of the last frame
	filmGap   = 8   // pixels between a frame and the image to its right
)

// Save writes the film as a GIF.
func (f Film) Save(path string) error {
	return safefile.Write(path, f.encode)
}

// IsCompleteFilm reports whether a file begins and ends as a GIF does, which an
// interrupted copy would not. The error wraps fs.ErrNotExist if there is no file.
func IsCompleteFilm(path string) (bool, error) {
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return false, fmt.Errorf("checking a film: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("checking a film: %w", err)
	}
	const head, tail = "GIF8", "\x00;" // signature; end of the last image's data, trailer
	var begin [len(head)]byte
	var end [len(tail)]byte
	if st.Size() < int64(len(head)+len(tail)) {
		return false, nil
	}
	if _, err = f.ReadAt(begin[:], 0); err == nil {
		_, err = f.ReadAt(end[:], st.Size()-int64(len(tail)))
	}
	if err != nil {
		return false, fmt.Errorf("checking a film: %w", err)
	}
	return string(begin[:]) == head && string(end[:]) == tail, nil
}

// encode writes the GIF. The palette is fixed, so that equal films have equal bytes.
func (f Film) encode(w io.Writer) error {
	const size = envs.FrameSize
	var out gif.GIF
	pen := pen{}
	for i, px := range f.Frames {
		side := f.Side[min(i, len(f.Side)-1)]
		img := image.NewPaletted(image.Rect(0, 0, 2*size+filmGap, size), palette.Plan9)
		for y := range size {
			line := img.Pix[y*img.Stride:]
			pen.line(line, px[3*y*size:3*(y+1)*size])
			pen.line(line[size+filmGap:], side[3*y*size:3*(y+1)*size])
		}
		delay := filmDelay
		if i == len(f.Frames)-1 {
			delay = filmPause
		}
		out.Image, out.Delay = append(out.Image, img), append(out.Delay, delay)
	}
	return gif.EncodeAll(w, &out)
}

// pen caches the nearest palette entry of each colour. Frames have few colours, and
// the search over the palette is slow.
type pen map[[3]byte]uint8

// line converts a line of RGB pixels to palette indices.
func (p pen) line(dst, rgb []byte) {
	for i := 0; i < len(rgb); i += 3 {
		c := [3]byte(rgb[i : i+3])
		near, ok := p[c]
		if !ok {
			near = uint8(color.Palette(palette.Plan9).Index(color.RGBA{c[0], c[1], c[2], 255}))
			p[c] = near
		}
		dst[i/3] = near
	}
}
