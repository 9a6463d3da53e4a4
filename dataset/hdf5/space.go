package hdf5

import (
	"fmt"
	"path/filepath"
	"syscall"
)

// FreeSpace is the number of bytes a user may still write beside path.
func FreeSpace(path string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &st); err != nil {
		return 0, fmt.Errorf("asking for the free space at %s: %w", filepath.Dir(path), err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// NeedSpace refuses work that will not fit beside path.
func NeedSpace(path string, bytes int64) error {
	free, err := FreeSpace(path)
	if err != nil {
		return err
	}
	if bytes > free {
		return fmt.Errorf("%s needs %s and its disk has %s free (hint: free some space or choose another --out)",
			path, MB(bytes), MB(free))
	}
	return nil
}

// MB shows a size for people.
func MB(bytes int64) string {
	if bytes >= 10<<30 {
		return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}

// explain names the file and adds the likely cause: the library's own words for
// a full disk are several layers deep.
func (w *Writer) explain(err error) error {
	if free, e := FreeSpace(w.path); e == nil && free < 16<<20 {
		return fmt.Errorf("writing the data set %s: %w (hint: its disk is full, %s free)", w.path, err, MB(free))
	}
	return fmt.Errorf("writing the data set %s: %w", w.path, err)
}
