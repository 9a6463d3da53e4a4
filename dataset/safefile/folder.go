package safefile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FillFolder is [Fill] for a folder: fill writes files to an empty temporary folder
// next to path, which are then flushed to disk, and the folder is renamed to path. An
// existing path is an error, and after any error nothing is left. A second writer of
// the same path gets an error. A folder that a killed writer left is emptied and
// reused.
func FillFolder(path string, fill func(dir string) error) error {
	path = filepath.Clean(path)
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	if err := fillTempFolder(path, fill); err != nil {
		return fmt.Errorf("writing %s: %w", path, Explain(err))
	}
	return nil
}

func fillTempFolder(path string, fill func(dir string) error) error {
	dir := Aside(path)
	f, err := openTempFolder(dir)
	if err != nil {
		return err
	}
	// Closing releases the lock, after the rename or the removal.
	defer f.Close()
	if err = fill(dir); err == nil {
		err = syncFolder(dir)
	}
	if err == nil {
		err = renameFolder(dir, path)
	}
	if err != nil {
		// An error of the removal is ignored: err is the cause.
		os.RemoveAll(dir)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// openTempFolder creates and locks a temporary folder, and removes what is in it.
func openTempFolder(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o777); err != nil && !os.IsExist(err) {
		return nil, err
	}
	// O_NOFOLLOW: the files behind a link belong to someone else.
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil || !isAt(f, dir) {
		f.Close()
		return nil, fmt.Errorf("another process is writing it (hint: wait for that one, or choose another folder)")
	}
	entries, err := f.ReadDir(-1)
	for _, e := range entries {
		if err == nil {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// syncFolder flushes all files and folders below dir to disk.
func syncFolder(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return syncDir(path)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

// renameFolder gives a folder its final name, unless there is something of that name.
// A rename alone would replace an empty folder.
func renameFolder(dir, path string) error {
	renaming.Lock()
	defer renaming.Unlock()
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("it already exists (hint: remove it, or choose another folder)")
	}
	return os.Rename(dir, path)
}
