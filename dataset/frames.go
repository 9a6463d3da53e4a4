package dataset

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"scalewm/dataset/parallel"
	"scalewm/dataset/safefile"
)

// FrameReader returns frames of (size, size, 3) bytes by row. Its methods may be
// called from several goroutines at once.
type FrameReader interface {
	Size() int
	Frame(row int, dst []byte) error
}

// Original returns a FrameReader for a source's own frames.
func Original(src Source) FrameReader { return original{src} }

type original struct{ Source }

func (o original) Size() int { return o.FrameSize() }

// AtSize returns a FrameReader that scales each frame of a source to an edge of size
// pixels when it is read.
func AtSize(src Source, size int) FrameReader { return &atSize{src: src, size: size} }

type atSize struct {
	src  Source
	size int
	// tools has one *scaling for each goroutine that has called Frame at the same
	// time.
	tools sync.Pool
}

// scaling is the state for scaling one frame at a time.
type scaling struct {
	*Resizer
	// frame is the frame at its stored size.
	frame []byte
}

func (a *atSize) Size() int { return a.size }

func (a *atSize) Frame(row int, dst []byte) error {
	t, ok := a.tools.Get().(*scaling)
	if !ok {
		edge := a.src.FrameSize()
		t = &scaling{NewResizer(edge, a.size), make([]byte, 3*edge*edge)}
	}
	defer a.tools.Put(t)
	if err := a.src.Frame(row, t.frame); err != nil {
		return err
	}
	t.Resize(dst, t.frame)
	return nil
}

// ReadFrames reads the frames of rows [from, to) into dst, one after another, with
// workers goroutines (0: one per core).
func ReadFrames(ctx context.Context, frames FrameReader, from, to int, dst []byte, workers int) error {
	size := frames.Size() * frames.Size() * 3
	return parallel.For(ctx, workers, to-from, func(_, i int) error {
		if err := frames.Frame(from+i, dst[i*size:][:size]); err != nil {
			return fmt.Errorf("reading frames: %w", err)
		}
		return nil
	})
}

// ResizeOptions are the arguments of Resized.
type ResizeOptions struct {
	// Size is the edge of the resized frames in pixels.
	Size int
	// Workers is the number of goroutines that resize; 0 is one per core.
	Workers int
	// Budget is the number of bytes that the frames may take in memory. A larger set
	// goes to a sidecar file next to the data set. 0 is a quarter of the machine's
	// memory.
	Budget int64
	// Path is that of the data set. Its sidecar is Path + ".<size>px".
	Path string
}

// ResizedSet is a FrameReader over all frames of a source at one size, in memory or
// in a mapped file.
type ResizedSet struct {
	size int
	// pixels has the shape (rows, size, size, 3).
	pixels []byte
	// mapped is the mapping that contains pixels: anonymous memory, or the sidecar
	// file with its header.
	mapped []byte
}

// Size implements FrameReader.
func (s *ResizedSet) Size() int { return s.size }

// Frame implements FrameReader: it copies the frame of a row to dst.
func (s *ResizedSet) Frame(row int, dst []byte) error {
	n := s.size * s.size * 3
	if row < 0 || (row+1)*n > len(s.pixels) {
		return fmt.Errorf("frame of row %d: the set has %d rows", row, len(s.pixels)/n)
	}
	copy(dst, s.pixels[row*n:(row+1)*n])
	return nil
}

// Close releases the memory. A sidecar file stays for later runs. Frame must not be
// called afterwards.
func (s *ResizedSet) Close() error {
	s.pixels = nil
	if s.mapped == nil {
		return nil
	}
	m := s.mapped
	s.mapped = nil
	return syscall.Munmap(m)
}

// Resized resizes all frames of a source on all cores. It keeps them in memory if
// they fit the budget, and otherwise in a sidecar file, which later runs reuse.
// progress may be nil.
func Resized(ctx context.Context, src Source, opt ResizeOptions, progress func(done, total int64, note string)) (*ResizedSet, error) {
	if src.FrameSize() == 0 {
		return nil, fmt.Errorf("resizing frames to %d px: the data set has no pixels (hint: collect it with frames)", opt.Size)
	}
	opt.Workers = parallel.Workers(opt.Workers, src.Rows())
	if opt.Budget <= 0 {
		opt.Budget = memory() / 4
	}
	bytes := int64(src.Rows()) * int64(opt.Size*opt.Size*3)
	if bytes > opt.Budget {
		return sidecar(ctx, src, opt, bytes, progress)
	}
	// Anonymous memory instead of a Go slice: the garbage collector lets the heap
	// grow in proportion to what it manages, so a set of many gigabytes would permit
	// as much garbage.
	m, err := syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("allocating %d MB of memory for frames of %d px: %w", bytes>>20, opt.Size, err)
	}
	s := &ResizedSet{size: opt.Size, pixels: m, mapped: m}
	if err := resizeAll(ctx, src, opt, m, progress); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// memory returns the machine's RAM in bytes.
func memory() int64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 4 << 30
	}
	return int64(info.Totalram) * int64(info.Unit)
}

// resizeAll fills out, of shape (rows, size, size, 3). Each row is written by one
// worker, so the result does not depend on their number.
func resizeAll(ctx context.Context, src Source, opt ResizeOptions, out []byte, progress func(done, total int64, note string)) error {
	var done atomic.Int64
	rows, n, frames := src.Rows(), opt.Size*opt.Size*3, AtSize(src, opt.Size)
	return parallel.For(ctx, opt.Workers, rows, func(_, row int) error {
		if err := frames.Frame(row, out[row*n:(row+1)*n]); err != nil {
			return fmt.Errorf("resizing frames to %d px: %w", opt.Size, err)
		}
		if d := done.Add(1); progress != nil && (d%256 == 0 || d == int64(rows)) {
			progress(d, int64(rows), fmt.Sprintf("frames to %d px", opt.Size))
		}
		return nil
	})
}

// sidecarHeader is the length in bytes of a sidecar's first line, padded with spaces.
// It names format, size, rows and fingerprint of the data.
const sidecarHeader = 128

// sidecar maps the sidecar file of a set. If it is missing, has the wrong length or
// belongs to other data, it is written first.
func sidecar(ctx context.Context, src Source, opt ResizeOptions, bytes int64, progress func(done, total int64, note string)) (*ResizedSet, error) {
	fp, err := src.Fingerprint()
	if err != nil {
		return nil, err
	}
	if _, err := hex.DecodeString(fp); err != nil {
		return nil, fmt.Errorf("the fingerprint %q is not hexadecimal", fp)
	}
	path := fmt.Sprintf("%s.%dpx", opt.Path, opt.Size)
	header := fmt.Sprintf("%-*s\n", sidecarHeader-1, fmt.Sprintf("scalewm frames %d %d %s", opt.Size, src.Rows(), fp))
	if s, err := mapSidecar(path, header, bytes, opt.Size); err == nil {
		return s, nil
	}
	if err := makeSidecar(ctx, src, opt, path, header, bytes, progress); err != nil {
		return nil, err
	}
	return mapSidecar(path, header, bytes, opt.Size)
}

// mapSidecar maps an existing sidecar, or returns an error if it is not the one that
// header describes.
func mapSidecar(path, header string, bytes int64, size int) (*ResizedSet, error) {
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() != sidecarHeader+bytes {
		return nil, fmt.Errorf("the resized set %s is torn", path)
	}
	m, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the resized set %s: %w", path, err)
	}
	if string(m[:sidecarHeader]) != header {
		syscall.Munmap(m)
		return nil, fmt.Errorf("the resized set %s belongs to other data", path)
	}
	return &ResizedSet{size: size, pixels: m[sidecarHeader:], mapped: m}, nil
}

// makeSidecar writes the sidecar through a mapping of its temporary file, so that
// several workers can write at once.
func makeSidecar(ctx context.Context, src Source, opt ResizeOptions, path, header string, bytes int64, progress func(done, total int64, note string)) error {
	return safefile.Fill(path, func(f *os.File) error {
		// Reserve the disk space first: if the disk is full, this returns an error,
		// whereas a write to the mapping would end the process with SIGBUS.
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, sidecarHeader+bytes); err != nil {
			return fmt.Errorf("a resized set of %d MB: %w", bytes>>20, err)
		}
		m, err := syscall.Mmap(int(f.Fd()), 0, int(sidecarHeader+bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		if err != nil {
			return err
		}
		defer syscall.Munmap(m)
		copy(m, header)
		return resizeAll(ctx, src, opt, m[sidecarHeader:], progress)
	})
}
