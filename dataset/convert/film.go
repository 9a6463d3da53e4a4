package convert

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
)

// film decodes a film from its first frame on with the program ffmpeg, which writes
// each frame as a picture (https://netpbm.sourceforge.net/doc/ppm.html) to one pipe
// and its time to another.
//
// The data must be right, so a film is decoded to its end, any message of ffmpeg is
// an error, and the times are checked: a decoder that conceals damage would silently
// shift frames against rows.
type film struct {
	ctx context.Context
	// stop ends ffmpeg.
	stop context.CancelFunc
	path string
	cmd  *exec.Cmd
	// pipe and out read the pictures.
	pipe *os.File
	out  *bufio.Reader
	// times reads the times of frames.
	times *os.File
	// timesErr receives the result of checkTimes.
	timesErr chan error
	// done is closed when ffmpeg has ended and exit is set.
	done chan struct{}
	// exit is how ffmpeg ended. It is valid after done is closed.
	exit error
	// stderr is what ffmpeg wrote to standard error, which -v error limits to errors.
	stderr prefixBuffer
	// next is the number of the next frame.
	next int
}

// frameTimeout is how long ffmpeg may take for one frame. Tests shorten it.
var frameTimeout = time.Minute

// Arguments of ffmpeg before and after the path of the film.
//
// The input is opened as MP4 whatever its content looks like, with local files as the
// only protocol: a playlist, a manifest or a pattern would make ffmpeg read other
// files. Any error ends the program, and frames larger than any data set can have are
// not decoded. In the output, passthrough keeps ffmpeg from repeating or dropping
// frames to fit a constant rate.
var (
	filmInput = []string{"-nostdin", "-v", "error", "-xerror", "-err_detect", "explode", "-max_pixels", strconv.Itoa(4 * hdf5.MaxFrameSize * hdf5.MaxFrameSize),
		"-protocol_whitelist", "file", "-enable_drefs", "0", "-use_absolute_path", "0", "-f", "mov", "-i"}
	filmOutput = []string{"-map", "0:V:0", "-fps_mode", "passthrough", "-c:v", "ppm", "-f", "image2pipe", "pipe:1",
		"-map", "0:V:0", "-fps_mode", "passthrough", "-enc_time_base", "1/1000000", "-f", "mkvtimestamp_v2", "pipe:3"}
)

// openFilm starts ffmpeg. If fps is positive, frame i must have the time i/fps.
func openFilm(ctx context.Context, path string, fps float64) (*film, error) {
	r, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return nil, err
	}
	// The beginning of the file has the brands, of which AV1 has one
	// (https://aomediacodec.github.io/av1-isobmff).
	brands := make([]byte, 64)
	n, _ := r.ReadAt(brands, 0)
	r.Close()
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, fmt.Errorf("its frames are the film %s, which needs the program ffmpeg (hint: apt-get install ffmpeg)", path)
	}
	f := &film{path: path, timesErr: make(chan error, 1), done: make(chan struct{})}
	// These are ffmpeg's ends of the pipes. They are closed here when it has its own
	// copies, or else the pipes would never end.
	var out, times *os.File
	var err2 error
	f.pipe, out, err = os.Pipe()
	f.times, times, err2 = os.Pipe()
	defer out.Close()
	defer times.Close()
	if err = errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("starting ffmpeg: %w", err)
	}
	f.ctx, f.stop = context.WithCancel(ctx)
	var decoder []string
	if bytes.Contains(brands[:n], []byte("av01")) {
		// libaom detects damage within a frame, which ffmpeg's default decoder for
		// AV1 does not.
		decoder = []string{"-c:v", "libaom-av1"}
	}
	f.cmd = exec.CommandContext(f.ctx, program, slices.Concat(decoder, filmInput, []string{"file:" + path}, filmOutput)...)
	f.cmd.Stdout, f.cmd.Stderr, f.cmd.ExtraFiles = out, &f.stderr, []*os.File{times}
	// If ffmpeg is a script, a program that it started may keep the pipes open.
	f.cmd.WaitDelay = time.Second
	// The kernel kills ffmpeg if this program is killed.
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// Wake up a read of the pipe too, which a killed ffmpeg's children could keep
	// open.
	f.cmd.Cancel = func() error {
		_ = f.pipe.SetReadDeadline(time.Unix(1, 0))
		return f.cmd.Process.Kill()
	}
	// Start and wait in one goroutine with its own thread, for the sake of Pdeathsig.
	started := make(chan error)
	go func() {
		// Linux sends Pdeathsig when the thread that started the child ends. Without
		// the lock, the Go runtime could end that thread while ffmpeg runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := f.cmd.Start()
		if started <- err; err == nil {
			f.exit = f.cmd.Wait()
		}
		close(f.done)
	}()
	if err := <-started; err != nil {
		f.close()
		return nil, fmt.Errorf("starting ffmpeg: %w", err)
	}
	go func() { f.timesErr <- checkTimes(f.times, fps) }()
	f.out = bufio.NewReaderSize(f.pipe, 1<<20)
	return f, nil
}

// checkTimes reads the times of all frames, in milliseconds, one per line. It returns
// an error if one is off by half a frame or more: a decoder that skips damaged data
// leaves a gap there. It reads to the end in any case, so that ffmpeg does not block.
func checkTimes(r io.Reader, fps float64) (err error) {
	n := 0
	for s := bufio.NewScanner(r); s.Scan(); {
		// The first line is a title.
		ms, notNumber := strconv.ParseFloat(s.Text(), 64)
		if notNumber != nil {
			continue
		}
		if err == nil && fps > 0 && !(math.Abs(ms/1000*fps-float64(n)) < .5+fps/1000) {
			err = fmt.Errorf("frame %d is shown at %g s, and at %g frames per second it is due at %g s (hint: a frame before it is damaged or missing; copy or record the film again)", n, ms/1000, fps, float64(n)/fps)
		}
		n++
	}
	// Without times nothing was checked.
	if n == 0 && fps > 0 {
		err = errors.New("ffmpeg gave no times of the frames (hint: is it version 5.1 or later?)")
	}
	return err
}

// prefixBuffer keeps the first 4096 bytes that are written to it and discards the
// rest, so that an endless stream of messages does not fill the memory.
type prefixBuffer struct{ bytes.Buffer }

func (h *prefixBuffer) Write(b []byte) (int, error) {
	h.Buffer.Write(b[:min(len(b), 4096-h.Len())])
	return len(b), nil
}

// line returns the text on one line, without characters that a terminal would not
// print.
func (h *prefixBuffer) line() string {
	return strings.Join(strings.FieldsFunc(h.String(), func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }), " ")
}

// frames returns n frames from number first on. Frames before first are skipped; the
// film cannot go back.
func (f *film) frames(first, n int, fit func(picture) (picture, error)) (array, error) {
	for f.next < first {
		if _, err := f.frame(false, first+n); err != nil {
			return array{}, err
		}
	}
	return stack(n, fit, func(int) (picture, error) { return f.frame(true, first+n) })
}

// finish decodes the rest of the film, so that damage anywhere in it is an error. If
// rows is not negative, the film must have that many frames.
func (f *film) finish(rows int) error {
	for {
		if _, err := f.frame(false, 0); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	if rows >= 0 && f.next != rows {
		return fmt.Errorf("the film %s has %d frames for %d rows (hint: which frames belong to the rows cannot be known; record the episode again or leave it out)", f.path, f.next, rows)
	}
	return nil
}

// frame returns the next frame, or io.EOF after the last frame of an undamaged film.
// need is the number of frames that the film must have. With keep unset the frame is
// skipped.
func (f *film) frame(keep bool, need int) (p picture, err error) {
	// A read of the pipe fails after this time, so a hanging ffmpeg does not block
	// us.
	_ = f.pipe.SetReadDeadline(time.Now().Add(frameTimeout))
	if err = f.ctx.Err(); err == nil {
		_, err = f.out.Peek(1)
	}
	// inFrame says that the film ended within a frame, and not before one.
	inFrame := err == nil
	if inFrame {
		if p, err = readPPM(f.out, keep); err == nil {
			f.next++
			return p, nil
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		switch err = f.outcome(); {
		case err == nil && inFrame:
			err = errors.New("ffmpeg ended within it (hint: run the command again)")
		case err == nil && f.next < need:
			err = fmt.Errorf("the film ends there, and there are rows for %d frames (hint: was the recording cut off?)", need)
		case err == nil:
			return p, io.EOF
		}
	}
	if stopped := f.ctx.Err(); stopped != nil {
		err = stopped
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("ffmpeg decoded no further frame in %v (hint: copy or record the film again)", frameTimeout)
	}
	f.close()
	return p, fmt.Errorf("frame %d of the film %s: %w", f.next, f.path, err)
}

// outcome waits for ffmpeg to end and returns what it reports about the film, or what
// checkTimes found.
func (f *film) outcome() error {
	select {
	case <-f.done:
	case <-time.After(frameTimeout):
		return os.ErrDeadlineExceeded
	}
	// Any message counts, even if ffmpeg exits with 0: it conceals damage and only
	// reports it.
	if f.stderr.Len() > 0 || f.exit != nil {
		return fmt.Errorf("ffmpeg says: %.300s (%v) (hint: the film is damaged or not MP4, or this ffmpeg cannot decode it, for AV1 with libaom; copy or record it again)", f.stderr.line(), f.cmd.ProcessState)
	}
	_ = f.times.SetReadDeadline(time.Now().Add(f.cmd.WaitDelay))
	return <-f.timesErr
}

// close ends ffmpeg and waits for it. It may be called several times.
func (f *film) close() {
	f.stop()
	<-f.done
	f.pipe.Close()
	f.times.Close()
}

// readPPM reads one PPM picture of 8 bits per colour. If keep is not set, it skips
// the pixels.
func readPPM(r *bufio.Reader, keep bool) (p picture, err error) {
	var most int
	if _, err := fmt.Fscanf(r, "P6\n%d %d\n%d", &p.width, &p.height, &most); err != nil {
		return p, err
	}
	if c, err := r.ReadByte(); err != nil || c != '\n' || most != 255 {
		return p, errors.New("it is not a picture with 8 bits per colour")
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
