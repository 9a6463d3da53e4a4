package dataset

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"scalewm/envs"
)

// noiseFrame and discFrame are the frames of testdata/make_resize.py.
func noiseFrame() []byte {
	f, x := make([]byte, envs.FrameBytes), uint32(1)
	for i := range f {
		x = 1664525*x + 1013904223
		f[i] = byte(x >> 24)
	}
	return f
}

func discFrame() []byte {
	f := make([]byte, envs.FrameBytes)
	for i := range f {
		x, y, c := i/3%envs.FrameSize, i/3/envs.FrameSize, i%3
		v, d := 255, (x-81)*(x-81)+(y-120)*(y-120)
		if c > 0 && d < 900 {
			v = min(255, d*255/900)
		}
		if x/9%7 == 3 {
			v = 0
		}
		f[i] = byte(v)
	}
	return f
}

// The bytes equal those of torchvision 0.29.2 for the same frames. Where the scale is
// not a short binary fraction, ties in the noise may round the other way.
func TestResizeAgreesWithTorchvision(t *testing.T) {
	f, err := os.Open("testdata/resize.bin.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{32, 64, 96, 112, 160} {
		for i, frame := range [][]byte{noiseFrame(), discFrame()} {
			want, got := make([]byte, size*size*3), make([]byte, size*size*3)
			if _, err := io.ReadFull(z, want); err != nil {
				t.Fatal(err)
			}
			NewResizer(envs.FrameSize, size).Resize(got, frame)
			allowed, off := 0, 0
			if i == 0 && size > 64 {
				allowed = 3
			}
			for p := range got {
				if d := int(got[p]) - int(want[p]); d != 0 {
					off++
					if d*d > 1 {
						t.Errorf("size %d frame %d byte %d is %d, torchvision has %d", size, i, p, got[p], want[p])
					}
				}
			}
			if off > allowed {
				t.Errorf("size %d frame %d: %d bytes differ, at most %d may", size, i, off, allowed)
			}
		}
	}
}

func TestResizeToTheSameSizeCopies(t *testing.T) {
	got := make([]byte, envs.FrameBytes)
	NewResizer(envs.FrameSize, envs.FrameSize).Resize(got, noiseFrame())
	if !bytes.Equal(got, noiseFrame()) {
		t.Error("224 to 224 changes bytes")
	}
}

// The result for a frame is that of a new Resizer, whatever frames came before.
func TestResizeKeepsWhatHolds(t *testing.T) {
	frame, r := noiseFrame(), NewResizer(envs.FrameSize, 64)
	got, want := make([]byte, 64*64*3), make([]byte, 64*64*3)
	for i, change := range []int{0, 0, 7, 3 * envs.FrameSize * 100, envs.FrameBytes - 1} {
		frame[change] += byte(100 * min(i, 1))
		r.Resize(got, frame)
		NewResizer(envs.FrameSize, 64).Resize(want, frame)
		if !bytes.Equal(got, want) {
			t.Errorf("frame %d differs", i)
		}
	}
}

// The set is the same in memory and in a sidecar, with one worker and with three.
func TestResizedSet(t *testing.T) {
	src := newFake(t, 5, 4)
	path := filepath.Join(t.TempDir(), "d.h5")
	frame := make([]byte, envs.FrameBytes)
	want := make([]byte, 32*32*3)
	for _, opt := range []ResizeOptions{{Size: 32, Workers: 1}, {Size: 32, Workers: 3}, {Size: 32, Budget: 1, Path: path}, {Size: 32, Budget: 1, Path: path}} {
		s, err := Resized(context.Background(), src, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		for row := range src.Rows() {
			if err := src.Frame(row, frame); err != nil {
				t.Fatal(err)
			}
			NewResizer(envs.FrameSize, 32).Resize(want, frame)
			got := make([]byte, len(want))
			if err := s.Frame(row, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("row %d differs (%v)", row, err)
			}
		}
		if err := s.Frame(src.Rows(), want); err == nil {
			t.Error("a frame beyond the end")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if !slices.Equal(left, []string{path + ".32px"}) {
		t.Errorf("files %v, want the sidecar alone", left)
	}
}

// A sidecar of other data, or a truncated one, is written again.
func TestSidecarOfOtherData(t *testing.T) {
	opt := ResizeOptions{Size: 32, Budget: 1, Path: filepath.Join(t.TempDir(), "d.h5")}
	first, second := newFake(t, 5), newFake(t, 5)
	second.fingerprint, second.frameSeed = "beef", 77
	got, want := make([]byte, 32*32*3), make([]byte, 32*32*3)
	check := func(src *fake) {
		t.Helper()
		s, err := Resized(context.Background(), src, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		frame := make([]byte, envs.FrameBytes)
		if err := src.Frame(3, frame); err != nil {
			t.Fatal(err)
		}
		NewResizer(envs.FrameSize, 32).Resize(want, frame)
		if err := s.Frame(3, got); err != nil || !bytes.Equal(got, want) {
			t.Error("the set is not of these data")
		}
	}
	check(first)
	check(second)
	if err := os.Truncate(opt.Path+".32px", 999); err != nil {
		t.Fatal(err)
	}
	check(second)
}

func TestResizedStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	path := filepath.Join(t.TempDir(), "d.h5")
	for _, opt := range []ResizeOptions{{Size: 32}, {Size: 32, Budget: 1, Path: path}} {
		if _, err := Resized(ctx, newFake(t, 5), opt, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// A cancelled context ends the work before all frames are done.
func TestResizedStopsInTheMiddle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.h5")
	for _, opt := range []ResizeOptions{{Size: 32, Workers: 1}, {Size: 32, Workers: 1, Budget: 1, Path: path}} {
		ctx, cancel := context.WithCancel(context.Background())
		src := &cancelling{Source: newFake(t, 40), cancel: cancel}
		if _, err := Resized(ctx, src, opt, nil); !errors.Is(err, context.Canceled) || src.read != 3 {
			t.Errorf("%+v: %d frames read, %v", opt, src.read, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// cancelling cancels at its third frame.
type cancelling struct {
	Source
	cancel func()
	read   int
}

func (c *cancelling) Frame(row int, dst []byte) error {
	if c.read++; c.read == 3 {
		c.cancel()
	}
	return c.Source.Frame(row, dst)
}

func BenchmarkResize64(b *testing.B) {
	r, src, dst := NewResizer(envs.FrameSize, 64), discFrame(), make([]byte, 64*64*3)
	for b.Loop() {
		r.Resize(dst, src)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
}
