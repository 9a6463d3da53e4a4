package safefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Limit is the maximum size of one kind of file, in bytes. A larger file is not one
// of that kind, and readers return an error before they allocate memory for it.
type Limit int64

// The kinds of files that are read, with what they hold at most. The limits are
// generous multiples of real files; they exist for files that were damaged or made to
// exhaust memory.
const (
	MaxCell    Limit = 16 << 20  // a cell, 70,000 episodes
	MaxRecord  Limit = 1 << 20   // a run's times, a gate, a sidecar, a config.json, a preset
	MaxSet     Limit = 16 << 20  // an evaluation set, 200,000 episodes
	MaxFilm    Limit = 8 << 20   // a film in a page
	MaxPicture Limit = 64 << 20  // a frame of a recording that is converted
	MaxCSV     Limit = 64 << 20  // outcomes in CSV, two million
	MaxMetrics Limit = 256 << 20 // the metrics of a training, a million rows
	MaxPart    Limit = 16 << 30  // a part of a collection
	MaxWeights Limit = 8 << 30   // a checkpoint's tensors; DINOv2's largest that is computed here has 1.2 GB
	MaxData    Limit = 1<<63 - 1 // what is read in pieces, such as a data set
)

// ErrUnfit is wrapped by errors about a path that exists but is not read: it is not a
// regular file, or is larger than files of its kind.
var ErrUnfit = errors.New("not a readable file")

// Open opens a regular file of at most limit bytes for reading, through symbolic
// links. It never blocks, as opening a named pipe otherwise does. The error wraps
// fs.ErrNotExist or ErrUnfit where these apply.
func Open(path string, limit Limit) (*os.File, error) {
	unfit := func(what string) error {
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: it %s", ErrUnfit, what)}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return nil, unfit("is a socket or a device")
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = unfit("is a folder")
	case !st.Mode().IsRegular():
		err = unfit("is a named pipe or a device")
	case st.Size() > int64(limit):
		err = unfit(fmt.Sprintf("has %.1f MB, and a file of this kind at most %.0f", float64(st.Size())/(1<<20), float64(limit)/(1<<20)))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Marked reports whether a file contains mark in its first 64 KiB, as files of one
// writer do, or does not exist. Either way that writer may replace it; a file without
// the mark belongs to someone else.
func Marked(path string, mark []byte) (bool, error) {
	f, err := Open(path, MaxData)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 1<<16))
	return bytes.Contains(head, mark), err
}

// Read returns the content of a regular file of at most limit bytes.
func Read(path string, limit Limit) ([]byte, error) {
	f, err := Open(path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// Do not trust the size: files in /proc report 0, and a file may grow beyond
	// limit while it is read.
	b := bytes.NewBuffer(make([]byte, 0, st.Size()+bytes.MinRead))
	_, err = b.ReadFrom(io.LimitReader(f, int64(limit)))
	return b.Bytes(), err
}
