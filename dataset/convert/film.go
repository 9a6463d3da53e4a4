package convert

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // pictures of both layouts
	_ "image/png"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"scalewm/dataset/cell"
	"scalewm/dataset/hdf5"
)

// film decodes a film from its first frame on, by the program ffmpeg, which hands over each
// frame as a picture with its size (https://netpbm.sourceforge.net/doc/ppm.html).
type film struct {
	path string
	cmd  *exec.Cmd
	out  *bufio.Reader
	said bytes.Buffer
	next int // number of the next frame
}

func openFilm(ctx context.Context, path string) (*film, error) {
	if path, err := filepath.Abs(path); err != nil { // so that ffmpeg takes it for no option or address
		return nil, err
	} else if err := isFile(path); err != nil {
		return nil, err
	}
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, fmt.Errorf("its frames are the film %s, which needs the program ffmpeg (hint: apt-get install ffmpeg)", path)
	}
	f := &film{path: path}
	f.cmd = exec.CommandContext(ctx, program, "-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-i", "file:"+path, "-fps_mode", "passthrough", "-f", "image2pipe", "-c:v", "ppm", "-")
	f.cmd.Stderr = &f.said
	f.cmd.WaitDelay = time.Second // where ffmpeg is a script, what it started may live on
	out, err := f.cmd.StdoutPipe()
	if err == nil {
		err = f.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting ffmpeg: %w", err)
	}
	f.out = bufio.NewReaderSize(out, 1<<20)
	return f, nil
}

func isFile(path string) error {
	f, err := cell.Open(path, cell.MaxData)
	if err == nil {
		f.Close()
	}
	return err
}

// frames are n frames from number first on, none of which was read before.
func (f *film) frames(first, n int) (array, error) {
	for f.next < first {
		if _, err := f.frame(false, first+n); err != nil {
			return array{}, err
		}
	}
	return stack(n, func(int) (picture, error) { return f.frame(true, first+n) })
}

// frame is the next one of a film that must have so many; its pixels are read where they are kept.
func (f *film) frame(keep bool, need int) (p picture, err error) {
	if _, err = f.out.Peek(1); err == nil {
		p, err = readPPM(f.out, keep)
	}
	if err == nil {
		f.next++
		return p, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		wait := f.cmd.Wait()
		f.cmd = nil
		if f.said.Len() > 0 || wait != nil {
			err = fmt.Errorf("ffmpeg says: %.300s (%v)", bytes.TrimSpace(f.said.Bytes()), wait)
		} else {
			err = fmt.Errorf("the film ends there, and there are rows for %d frames (hint: was the recording cut off?)", need)
		}
	}
	f.close()
	return p, fmt.Errorf("frame %d of the film %s: %w", f.next, f.path, err)
}

func (f *film) close() {
	if f.cmd != nil {
		_ = f.cmd.Process.Kill() // it waits to be read on
		_ = f.cmd.Wait()
		f.cmd = nil
	}
}

// picture is a frame: rows of pixels of three bytes.
type picture struct {
	width, height int
	rgb           []byte
}

// readPPM reads a picture of 8 bits.
func readPPM(r *bufio.Reader, keep bool) (p picture, err error) {
	var most int
	if _, err := fmt.Fscanf(r, "P6\n%d %d\n%d", &p.width, &p.height, &most); err != nil {
		return p, err
	}
	if c, err := r.ReadByte(); err != nil || c != '\n' || most != 255 {
		return p, errors.New("it is no picture of 8 bits a colour")
	}
	if err := p.check(); err != nil {
		return p, err
	}
	n := 3 * p.width * p.height
	if !keep {
		_, err = r.Discard(n)
		return p, err
	}
	p.rgb = make([]byte, n)
	_, err = io.ReadFull(r, p.rgb)
	return p, err
}

// readPicture reads a JPEG or PNG.
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
	at := img.Bounds().Min
	p.rgb = make([]byte, 0, 3*p.width*p.height)
	for y := range p.height {
		for x := range p.width {
			r, g, b, _ := img.At(at.X+x, at.Y+y).RGBA()
			p.rgb = append(p.rgb, byte(r>>8), byte(g>>8), byte(b>>8))
		}
	}
	return p, nil
}

// check refuses what is no frame.
func (p picture) check() error {
	if p.width != p.height || p.width < 1 || p.width > hdf5.MaxFrameSize {
		return fmt.Errorf("it is %d x %d pixels, frames are squares with an edge of 1 to %d (hint: crop or resize them, as with ffmpeg -vf crop)", p.width, p.height, hdf5.MaxFrameSize)
	}
	return nil
}

// stack makes an array of the frames of an episode.
func stack(n int, next func(i int) (picture, error)) (a array, err error) {
	a.dtype = "uint8"
	for i := range n {
		p, err := next(i)
		if err != nil {
			return a, err
		}
		if i == 0 {
			a.shape = []int{n, p.height, p.width, 3}
		}
		if p.width != a.shape[1] {
			return a, fmt.Errorf("frame %d is %d pixels wide, the first %d (hint: all frames have one size)", i, p.width, a.shape[1])
		}
		if a.data = append(a.data, p.rgb...); len(a.data) > maxArrays {
			return a, fmt.Errorf("an episode of frames is larger than %d GB", maxArrays>>30)
		}
	}
	return a, nil
}
