package main

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
)

func init() {
	register(verb{name: "render", args: "F.h5", summary: "render an episode of a data set as GIF, PNG strip or MP4",
		example: "scalewm render tworoom.h5 --episode 3 --out episode3.gif", run: runRender})
}

// How an episode is shown.
const (
	framesPerSecond = 12 // of GIF and MP4; slower than the simulation, to follow it by eye
	stripFrames     = 8  // frames of a PNG strip
)

// runRender writes one episode as a picture or film; the suffix of --out selects the
// format. It never replaces the input, and other existing files only with --force. An
// interrupt leaves no file.
func runRender(ctx context.Context, c *command, args []string) error {
	episode := c.Count("episode", 0, "number `n` of the episode, from 0")
	out := c.String("out", "", "`file` to write: .gif, .png (a strip of 8 frames) or .mp4 (needs ffmpeg)")
	force := c.forceFlag()
	pos, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	save, ok := map[string]func(context.Context, string, [][]byte) error{".gif": saveGIF, ".png": saveStrip, ".mp4": saveMP4}[strings.ToLower(filepath.Ext(*out))]
	if !ok {
		return usagef("render needs --out FILE.gif, FILE.png or FILE.mp4")
	}
	if err := c.mayWrite(*out, pos[0], *force); err != nil {
		return err
	}
	frames, err := episodeFrames(pos[0], *episode)
	if err != nil {
		return err
	}
	if err := save(ctx, *out, frames); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "%s: episode %d of %s, %d frames\n", *out, *episode, pos[0], len(frames))
	return nil
}

// episodeFrames reads the RGB frames of an episode. All of them are in memory at
// once: an episode has a few hundred.
func episodeFrames(path string, episode int) ([][]byte, error) {
	f, err := hdf5.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Data sets of latents have no frames.
	if f.FrameSize() == 0 {
		return nil, fmt.Errorf("rendering %s: it has no pixels (hint: give the data set that it was made from)", path)
	}
	// A negative number cannot come from the flag, which is a count.
	if n := len(f.Episodes()); episode < 0 || episode >= n {
		return nil, fmt.Errorf("rendering %s: there is no episode %d (hint: it has 0 to %d)", path, episode, n-1)
	}
	e := f.Episodes()[episode]
	frames := make([][]byte, e.Len)
	for t := range frames {
		frames[t] = make([]byte, 3*f.FrameSize()*f.FrameSize())
		if err := f.Frame(e.Offset+t, frames[t]); err != nil {
			return nil, err
		}
	}
	return frames, nil
}

// edge returns the edge of an episode's square frames in pixels.
func edge(frames [][]byte) int { return int(math.Sqrt(float64(len(frames[0]) / 3))) }

// saveGIF writes the frames as a GIF with one palette for the episode, so that
// colours do not flicker. The last frame stays for a second.
func saveGIF(_ context.Context, path string, frames [][]byte) error {
	ink, size := newInk(frames), edge(frames)
	var g gif.GIF
	for _, f := range frames {
		img := image.NewPaletted(image.Rect(0, 0, size, size), ink.palette)
		for i := range img.Pix {
			img.Pix[i] = ink.index([3]byte(f[3*i : 3*i+3]))
		}
		g.Image, g.Delay = append(g.Image, img), append(g.Delay, 100/framesPerSecond)
	}
	g.Delay[len(g.Delay)-1] = 100
	return safefile.Write(path, func(w io.Writer) error { return gif.EncodeAll(w, &g) })
}

// ink maps colours to a palette of the 256 most frequent colours of an episode.
// Episodes of the planar tasks have few more colours than that, so that hardly any
// pixel changes.
type ink struct {
	palette color.Palette
	near    map[[3]byte]uint8 // palette indices of the colours seen so far
}

// newInk counts the colours of the frames. Ties are broken by the colour's bytes, so
// that equal episodes give equal files.
func newInk(frames [][]byte) *ink {
	count := map[[3]byte]int{}
	for _, f := range frames {
		for i := 0; i < len(f); i += 3 {
			count[[3]byte(f[i:i+3])]++
		}
	}
	var colours [][3]byte
	for c := range count {
		colours = append(colours, c)
	}
	// Most frequent first.
	sort.Slice(colours, func(i, j int) bool {
		a, b := colours[i], colours[j]
		if count[a] != count[b] {
			return count[a] > count[b]
		}
		return string(a[:]) < string(b[:])
	})
	k := &ink{near: map[[3]byte]uint8{}}
	for i, c := range colours[:min(256, len(colours))] {
		k.palette = append(k.palette, color.RGBA{c[0], c[1], c[2], 255})
		k.near[c] = uint8(i)
	}
	return k
}

// index returns the index of the palette's closest colour.
func (k *ink) index(c [3]byte) uint8 {
	i, ok := k.near[c]
	if !ok {
		i = uint8(k.palette.Index(color.RGBA{c[0], c[1], c[2], 255}))
		k.near[c] = i
	}
	return i
}

// saveStrip writes evenly spaced frames, including the first and the last, next to
// each other as a PNG.
func saveStrip(_ context.Context, path string, frames [][]byte) error {
	size := edge(frames)
	n := min(stripFrames, len(frames))
	img := image.NewRGBA(image.Rect(0, 0, n*size, size))
	for k := range n {
		f := frames[k*(len(frames)-1)/max(n-1, 1)] // k = 0 is the first frame, k = n-1 the last
		for i := range size * size {
			img.SetRGBA(k*size+i%size, i/size, color.RGBA{f[3*i], f[3*i+1], f[3*i+2], 255})
		}
	}
	return safefile.Write(path, func(w io.Writer) error { return png.Encode(w, img) })
}

// saveMP4 lets ffmpeg encode the frames. No Go package for H.264 is worth its size
// here.
func saveMP4(ctx context.Context, path string, frames [][]byte) error {
	ffmpeg, err := exec.LookPath("ffmpeg")
	if err != nil {
		return fmt.Errorf("rendering %s: there is no ffmpeg on PATH (hint: install ffmpeg, or choose --out with .gif or .png)", path)
	}
	return safefile.Fill(path, func(f *os.File) error { return encodeMP4(ctx, ffmpeg, f.Name(), frames) })
}

// encodeMP4 pipes raw RGB frames to ffmpeg, which writes to path. The prefix file:
// keeps a path with a colon from being taken for a protocol.
func encodeMP4(ctx context.Context, ffmpeg, path string, frames [][]byte) error {
	// rgb24 frames on stdin; yuv420p in the file, which all players support.
	size := fmt.Sprintf("%dx%d", edge(frames), edge(frames))
	cmd := exec.CommandContext(ctx, ffmpeg, "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size,
		"-r", fmt.Sprint(framesPerSecond), "-i", "-", "-pix_fmt", "yuv420p", "-f", "mp4", "file:"+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting ffmpeg: %w", err)
	}
	for _, f := range frames {
		if _, err := in.Write(f); err != nil {
			break // ffmpeg has ended; Wait returns why
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(complaint.String()), "\n")
		return fmt.Errorf("ffmpeg says: %s (%w)", line, err)
	}
	return nil
}
