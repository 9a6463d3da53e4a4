package eval

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color/palette"
	"image/draw"
	"image/gif"
	"io"

	"scalewm/dataset"
	"scalewm/dataset/cell"
	"scalewm/envs"
	"scalewm/eval/record"
)

// Film is one episode to look at: the frame of the start, one after each step,
// and the stored frame of the goal, each of envs.FrameBytes.
type Film struct {
	Frames [][]byte
	Goal   []byte
	Row    record.Row
}

// Watch runs one episode of the job's first set again, which gives the same
// actions as in the batch, and keeps what it looks like.
func Watch(ctx context.Context, j Job, index int) (Film, error) {
	if err := j.check(); err != nil {
		return Film{}, err
	}
	j.Sets, j.Workers, j.Progress = j.Sets[:1], 1, nil
	r, err := newRunner(j)
	if err != nil {
		return Film{}, err
	}
	defer r.close()
	r.episodes = r.episodes[index : index+1]
	ep := r.episodes[0]
	film := Film{Goal: make([]byte, dataset.FrameBytes)}
	if err := j.Data.Frame(j.Data.fileRow(ep.start)+GoalOffset, film.Goal); err != nil {
		return Film{}, fmt.Errorf("reading the goal frame of episode %d: %w", index, err)
	}
	r.watch = func(_ int, e envs.Env) error {
		px := make([]byte, envs.FrameBytes)
		film.Frames = append(film.Frames, px)
		return e.Frame(px)
	}
	if err := r.run(ctx); err != nil {
		return Film{}, fmt.Errorf("watching episode %d of %s: %w", index, j.Arm.Method, err)
	}
	film.Row = ep.row
	return film, nil
}

// The film's look: hundredths of a second a frame, the pause at the end, and
// the gap in pixels between episode and goal.
const (
	filmDelay = 8
	filmPause = 150
	filmGap   = 8
)

// Save writes the film as a GIF, the goal's frame to the right.
func (f Film) Save(path string) error {
	pal := palette.Plan9
	size := envs.FrameSize
	out := gif.GIF{}
	goal := rgba(f.Goal, size)
	for i, px := range f.Frames {
		img := image.NewPaletted(image.Rect(0, 0, 2*size+filmGap, size), pal)
		draw.Draw(img, image.Rect(0, 0, size, size), rgba(px, size), image.Point{}, draw.Src)
		draw.Draw(img, image.Rect(size+filmGap, 0, 2*size+filmGap, size), goal, image.Point{}, draw.Src)
		delay := filmDelay
		if i == len(f.Frames)-1 {
			delay = filmPause
		}
		out.Image, out.Delay = append(out.Image, img), append(out.Delay, delay)
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &out); err != nil {
		return fmt.Errorf("drawing %s: %w", path, err)
	}
	return cell.WriteFile(path, func(w io.Writer) error {
		_, err := b.WriteTo(w)
		return err
	})
}

// rgba copies a frame of row-major RGB into an image.
func rgba(px []byte, size int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, size, size))
	for i := range size * size {
		copy(img.Pix[4*i:4*i+3], px[3*i:3*i+3])
		img.Pix[4*i+3] = 255
	}
	return img
}
