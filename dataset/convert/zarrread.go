package convert

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"scalewm/dataset/safefile"
)

// read returns the content of a file of at most limit bytes.
func (s *zarrStore) read(name string, limit int64) ([]byte, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := min(st.Size(), limit)
	if _, isFile := f.(*os.File); !isFile {
		// An archive may claim any size, so that more than this is allocated as it comes.
		size = min(size, 1<<20)
	}
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err = b.ReadFrom(io.LimitReader(f, limit+1)); err == nil && int64(b.Len()) > limit {
		err = fmt.Errorf("it has more than %d bytes: %w", limit, errZarrDamaged)
	}
	return b.Bytes(), err
}

// readAt returns n bytes from a position of a file. A negative position counts from
// the end. Members of an archive are read completely and cached.
func (s *zarrStore) readAt(name string, at, n int64) ([]byte, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size, r := st.Size(), io.ReaderAt(nil)
	if file, ok := f.(io.ReaderAt); ok {
		r = file
	} else {
		whole, err := s.member(name)
		if err != nil {
			return nil, err
		}
		size, r = int64(len(whole)), bytes.NewReader(whole)
	}
	if at < 0 {
		at += size
	}
	if at < 0 || n < 0 || at > size || n > size-at {
		return nil, fmt.Errorf("%d bytes at %d are not in its %d: %w", n, at, size, errZarrDamaged)
	}
	b := make([]byte, n)
	_, err = r.ReadAt(b, at)
	return b, err
}

// member returns the content of a member of an archive, from the cache if it is there.
// The cache is emptied when it is full.
func (s *zarrStore) member(name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.members[name]; ok {
		return b, nil
	}
	b, err := s.read(name, maxZarrChunk)
	if err != nil {
		return nil, err
	}
	if s.cached += len(b); s.cached > maxZarrChunk || s.members == nil {
		s.members, s.cached = map[string][]byte{}, len(b)
	}
	s.members[name] = b
	return b, nil
}

// folderFS is a folder whose files are opened with safefile.
type folderFS string

func (d folderFS) path(name string) string { return filepath.Join(string(d), filepath.FromSlash(name)) }

func (d folderFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := safefile.Open(d.path(name), safefile.MaxData)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d folderFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(d.path(name)) }

func (d folderFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(d.path(name)) }
