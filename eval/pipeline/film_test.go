package pipeline

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"scalewm/envs"
	_ "scalewm/envs/pointmaze"
	_ "scalewm/envs/reacher"
	_ "scalewm/envs/tworoom"
	"scalewm/eval"
	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// TestFilm writes README's film (make pictures): SCALE plans with CEM at tier T1 on
// Two-Room, PointMaze and Reacher, with the checkpoints of the results folder that
// SCALEWM_PICTURES names. It shows the first episodes of set s101 that reach their
// goal in five steps or more.
func TestFilm(t *testing.T) {
	dir := os.Getenv("SCALEWM_PICTURES")
	if dir == "" {
		t.Skip("pictures: SCALEWM_PICTURES names no results folder (make pictures)")
	}
	p, err := LoadPreset("nano")
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{Precision: device.FP32, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	g := Grid{Preset: *p, Tasks: lookUp(t, envs.Lookup, "tworoom", "pointmaze", "reacher"), Methods: lookUp(t, model.LookUp, "scale"), Seeds: []int64{3072},
		Definition: protocol.Definition{Rules: results.Published()}, Axes: Axes{Solvers: []string{results.CEM}, Tiers: eval.Tiers()[:1], Sets: []string{"s101"}}, Episodes: 20}
	g.Precision = string(device.FP32)
	w := NewWorkspace(g, dir, Options{Workers: 2, Listener: &heard{}, Planner: dev})
	defer w.Close()
	var columns [][]shot
	for _, s := range StepsOf[*Evaluate](w.Graph()) {
		job, err := s.Job()
		if err != nil {
			t.Fatal(err)
		}
		agent, err := w.load(dev, job, w.checkpoint(s.arm), "")
		if err != nil {
			t.Fatal(err)
		}
		var column []shot
		for i := 0; i < g.Episodes && len(column) < 60; i++ {
			film, err := eval.Watch(t.Context(), job, agent, i)
			if err != nil {
				t.Fatal(err)
			}
			if !film.Result.Success || len(film.Frames) < 6 {
				continue
			}
			for k := range len(film.Frames) + 8 { // the last frame stays for a moment
				column = append(column, shot{film.Frames[min(k, len(film.Frames)-1)], film.Side[0], k >= len(film.Frames)})
			}
		}
		if column == nil {
			t.Fatalf("%s: no episode of s101 reaches the goal", s.ID())
		}
		columns = append(columns, column)
	}
	out, err := os.Create(filepath.Join("..", "..", "docs", "img", "planning.gif"))
	if err != nil {
		t.Fatal(err)
	}
	if err := gif.EncodeAll(out, animate(columns)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// shot is one moment of a column: the frame of the episode, the frame of its goal, both
// envs.FrameBytes of RGB, and whether the goal has been reached.
type shot struct {
	frame, goal []byte
	reached     bool
}

// animate returns an animation of the columns: the episode above, its goal below, and a
// green border where the goal has been reached. A column that ends before the others
// keeps its last shot. Frames after the first hold only what changes.
func animate(columns [][]shot) *gif.GIF {
	const (
		size   = envs.FrameSize
		gap    = 8
		border = 5
		delay  = 8   // hundredths of a second
		pause  = 150 // at the end
	)
	bounds := image.Rect(0, 0, len(columns)*(size+gap)-gap, 2*size+gap)
	longest := 0
	for _, c := range columns {
		longest = max(longest, len(c))
	}
	colors := frequent(columns)
	green, clear := uint8(len(colors)-2), uint8(len(colors)-1)
	nearest := map[[3]byte]uint8{}
	put := func(img *image.Paletted, x, y int, rgb []byte) {
		for i := range size * size {
			c := [3]byte(rgb[3*i:])
			index, ok := nearest[c]
			if !ok {
				index = uint8(colors[:green].Index(color.RGBA{c[0], c[1], c[2], 0xff}))
				nearest[c] = index
			}
			img.SetColorIndex(x+i%size, y+i/size, index)
		}
	}
	last := image.NewPaletted(bounds, colors)
	out := &gif.GIF{Config: image.Config{ColorModel: colors, Width: bounds.Dx(), Height: bounds.Dy()}}
	for k := range longest {
		img := image.NewPaletted(bounds, colors)
		draw.Draw(img, bounds, image.White, image.Point{}, draw.Src)
		for i, column := range columns {
			s, x := column[min(k, len(column)-1)], i*(size+gap)
			put(img, x, 0, s.frame)
			put(img, x, size+gap, s.goal)
			for p := range size * size {
				if dx, dy := p%size, p/size; s.reached && min(dx, dy, size-1-dx, size-1-dy) < border {
					img.SetColorIndex(x+dx, dy, green)
				}
			}
		}
		change, box := image.NewPaletted(bounds, colors), image.Rect(0, 0, 1, 1)
		for i := range change.Pix {
			change.Pix[i] = clear
			if k == 0 || img.Pix[i] != last.Pix[i] {
				change.Pix[i] = img.Pix[i]
				box = box.Union(image.Rect(0, 0, 1, 1).Add(image.Pt(i%change.Stride, i/change.Stride)))
			}
		}
		last = img
		out.Image = append(out.Image, change.SubImage(box).(*image.Paletted))
		out.Delay = append(out.Delay, delay)
		out.Disposal = append(out.Disposal, gif.DisposalNone)
	}
	out.Delay[longest-1] = pause
	return out
}

// frequent returns the 254 most frequent colours of the frames, to five bits a channel,
// followed by the border's green and by transparency.
func frequent(columns [][]shot) color.Palette {
	counts := map[[3]byte]int{}
	for _, column := range columns {
		for _, s := range column {
			for i := 0; i < len(s.frame); i += 3 {
				counts[[3]byte{s.frame[i] &^ 7, s.frame[i+1] &^ 7, s.frame[i+2] &^ 7}]++
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b [3]byte) int {
		return cmp.Or(counts[b]-counts[a], bytes.Compare(a[:], b[:]))
	})
	var out color.Palette
	for _, c := range keys[:min(254, len(keys))] {
		out = append(out, color.RGBA{c[0] | c[0]>>5, c[1] | c[1]>>5, c[2] | c[2]>>5, 0xff})
	}
	return append(out, color.RGBA{0x18, 0xa0, 0x40, 0xff}, color.RGBA{})
}
