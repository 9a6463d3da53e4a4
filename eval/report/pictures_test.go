package report

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"scalewm/eval/results/resultstest"
)

// TestPictures makes the README's pictures of a results folder (make pictures): the first
// screen of its report, and an episode of LeWM and of SCALE as a strip of frames.
func TestPictures(t *testing.T) {
	dir := os.Getenv("SCALEWM_PICTURES")
	if dir == "" {
		t.Skip("pictures: SCALEWM_PICTURES names no results folder (make pictures)")
	}
	r := reported(t, dir)
	files, err := r.Render([]string{"html"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	resultstest.Put(t, path, string(files[0].Bytes))
	ctx, _ := browser(t, path)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1180, 980)); err != nil {
		t.Fatal(err)
	}
	screen, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	pictures := filepath.Join("..", "..", "docs", "img")
	resultstest.Put(t, filepath.Join(pictures, "report.png"), string(screen))
	var strips []*image.Paletted
	for _, method := range []string{lewm, scale} {
		for _, c := range r.Clips {
			if c.Arm.String() == method {
				strips = append(strips, strip(t, c.GIF))
				break
			}
		}
	}
	if len(strips) != 2 {
		t.Fatalf("%s has films of %d of the two methods", dir, len(strips))
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, stack(strips)); err != nil {
		t.Fatal(err)
	}
	resultstest.Put(t, filepath.Join(pictures, "episode.png"), b.String())
}

// strip is five frames of a film, from the first to the last, next to each other.
func strip(t *testing.T, film []byte) *image.Paletted {
	t.Helper()
	g, err := gif.DecodeAll(bytes.NewReader(film))
	if err != nil {
		t.Fatal(err)
	}
	const frames, gap = 5, 8
	w, h := g.Config.Width, g.Config.Height
	out := image.NewPaletted(image.Rect(0, 0, frames*(w+gap)-gap, h), append(color.Palette{color.Transparent}, g.Image[0].Palette[:min(255, len(g.Image[0].Palette))]...))
	screen := image.NewRGBA(image.Rect(0, 0, w, h))
	k := 0
	for i, frame := range g.Image { // later frames may hold only what changes
		draw.Draw(screen, frame.Bounds(), frame, frame.Bounds().Min, draw.Over)
		if k < frames && i == k*(len(g.Image)-1)/(frames-1) {
			draw.Draw(out, image.Rect(k*(w+gap), 0, k*(w+gap)+w, h), screen, image.Point{}, draw.Src)
			k++
		}
	}
	return out
}

// stack sets strips of one palette and size below each other.
func stack(strips []*image.Paletted) image.Image {
	const gap = 8
	b := strips[0].Bounds()
	out := image.NewPaletted(image.Rect(0, 0, b.Dx(), len(strips)*(b.Dy()+gap)-gap), strips[0].Palette)
	for i, s := range strips {
		draw.Draw(out, image.Rect(0, i*(b.Dy()+gap), b.Dx(), i*(b.Dy()+gap)+b.Dy()), s, image.Point{}, draw.Src)
	}
	return out
}
