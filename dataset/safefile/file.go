// Package safefile reads and writes files that other processes, crashes and
// strangers may touch. A file gets its name only when it is complete, a folder is
// locked by one process at a time, and a reader opens only regular files of a
// bounded size. It also checks the names that become parts of paths.
//
// It does not know what the files hold.
package safefile

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Write writes path so that a reader sees all of the old file, all of the new
// one or none: the bytes go to a hidden file next to it, which is flushed to the
// disk and renamed. Missing folders are made. If write fails, no file is left.
// Writers of the same path on one host, in this process or others, take turns; the
// next one reuses the hidden file of a killed writer. Writers on different hosts
// have separate hidden files, and the last to finish wins.
func Write(path string, write func(io.Writer) error) error {
	return Fill(path, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 1<<16)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	})
}

// WriteBytes is Write of bytes, and writes nothing where the file has them: a finished folder may be read-only.
func WriteBytes(path string, b []byte) error {
	if there, err := Read(path, Limit(len(b))); err == nil && bytes.Equal(there, b) {
		return nil
	}
	return Write(path, func(w io.Writer) error { _, err := w.Write(b); return err })
}

// Fill is Write for who needs the empty file itself, to map it for instance.
func Fill(path string, fill func(*os.File) error) error {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	if err := fillAside(path, fill); err != nil {
		return fmt.Errorf("writing %s: %w", path, Explain(err))
	}
	return nil
}

func fillAside(path string, fill func(*os.File) error) error {
	f, err := openAside(Aside(path))
	if err != nil {
		return err
	}
	defer f.Close() // releases the lock, after the rename or the removal
	if err = f.Truncate(0); err == nil {
		err = fill(f)
	}
	if err != nil {
		os.Remove(f.Name()) // the error that matters is err
		return err
	}
	return Publish(f, path)
}

// MakeFolder makes a folder, and those above it, where they are missing.
func MakeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("making the folder %s: %w", dir, Explain(err))
	}
	return nil
}

// Publish gives a file that was written aside its name, for good: its bytes are
// flushed to the disk before, and its folder after. A file that cannot have its
// name is removed.
func Publish(f *os.File, path string) error {
	err := f.Sync()
	if err == nil {
		renaming.Lock()
		err = os.Rename(f.Name(), path)
		renaming.Unlock()
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return syncDir(filepath.Dir(path))
}

// renaming is locked while a file gets its final name.
var renaming sync.Mutex

// HoldRenames keeps Publish from renaming until release is called. A process that is about to
// end calls it, so that what it reports stays true.
func HoldRenames() (release func()) {
	renaming.Lock()
	return renaming.Unlock
}

// SHA256 is the hex SHA-256 of a file, fs.ErrNotExist where there is none.
func SHA256(path string) (string, error) {
	f, err := Open(path, MaxData)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, Explain(err))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Remove removes what Write wrote to path, and what a killed writer of it
// left aside. A file that is not there is no error.
func Remove(path string) error {
	for _, name := range []string{path, Aside(path)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %s: %w", path, Explain(err))
		}
	}
	return nil
}

// Tidy removes what killed writers left aside of files that dir has: nobody need write
// those again, which would use it up.
func Tidy(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, strings.TrimSuffix(strings.TrimPrefix(e.Name(), "."), asideSuffix))
		if filepath.Join(dir, e.Name()) != Aside(path) {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			removeUnused(Aside(path))
		}
	}
}

// Claim makes a file that this program writes, in a folder that it makes too, and locks it by
// how (syscall.LOCK_EX or LOCK_SH) until it is closed. It does not wait: where another process
// has the lock, f is nil.
func Claim(path string, how int) (f *os.File, err error) {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if f, err = OpenOurs(path, os.O_CREATE); err != nil {
		return nil, err
	}
	if syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) != nil || !isAt(f, path) { // its writer may have renamed it meanwhile
		f.Close()
		return nil, nil
	}
	return f, nil
}

// Free is the number of bytes that a user may still write to the disk of a folder.
func Free(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("looking for free space at %s: %w", dir, Explain(err))
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// removeUnused removes a file aside that no writer has locked.
func removeUnused(aside string) {
	f, err := OpenOurs(aside, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && isAt(f, aside) {
		os.Remove(aside)
	}
}

// isAt says whether an open file still has a name.
func isAt(f *os.File, name string) bool {
	mine, err1 := f.Stat()
	now, err2 := os.Lstat(name)
	return err1 == nil && err2 == nil && os.SameFile(mine, now)
}

// OpenOurs opens a file that this program writes, for reading and writing, with flag
// added (os.O_CREATE). A link is refused, since what it leads to is somebody else's, and so is what
// is no regular file.
func OpenOurs(path string, flag int) (*os.File, error) {
	unfit := func(what string) error {
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: it is %s (hint: move it away)", ErrUnfit, what)}
	}
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|flag, 0o666)
	if errors.Is(err, syscall.ELOOP) {
		return nil, unfit("a link, and nothing is written through links")
	}
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, unfit("a named pipe or a device"))
	}
	return f, nil
}

// RemoveParts removes the files of a folder whose names end with suffix, what killed
// writers left aside of such, and the folder's lock; then the folder, if it holds nothing else.
// The files of others stay.
func RemoveParts(dir, suffix string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	others := 0
	for _, e := range entries {
		name := e.Name()
		aside := strings.HasPrefix(name, ".") && strings.Contains(name, suffix+".") && strings.HasSuffix(name, ".aside")
		if name != lockName && !aside && !strings.HasSuffix(name, suffix) || e.IsDir() {
			others++
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if others > 0 {
		return nil
	}
	return os.Remove(dir)
}

// Aside is the hidden file beside path that its next content is written to.
func Aside(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+asideSuffix)
}

// asideSuffix names the host, since taking turns by a lock is what network file
// systems do not promise to writers on different ones.
var asideSuffix = "." + Self().Host + ".aside"

// openAside opens and locks the file beside the target. Its name is fixed, so
// that the next writer reuses what a killed one left. While we wait for the lock its
// owner renames or removes the file; then the file is opened anew.
func openAside(name string) (*os.File, error) {
	for {
		f, err := OpenOurs(name, os.O_CREATE)
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		if isAt(f, name) {
			return f, nil
		}
		f.Close()
	}
}

// lock waits for the exclusive lock of f. The runtime's own signals interrupt
// the wait.
func lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// syncDir makes a rename last through a power cut. Some network file systems
// refuse to sync folders; the file itself is safe then.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// Explain returns a file-system error for a message that names the file itself: without
// the path, since the caller knows the one that the user wrote, and with a hint.
func Explain(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		err = fmt.Errorf("%s: %w", e.Op, e.Err)
	case *os.LinkError:
		err = fmt.Errorf("%s: %w", e.Op, e.Err)
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w (hint: free space on that disk, or write to another folder)", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w (hint: check who may read and write there, or take another folder)", err)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w (hint: a folder and a file compete for that name; choose another one)", err)
	}
	return err
}

// SetAside renames a file to PATH.damaged, PATH.damaged-2, ... if damaged says that it is, and returns its new name, "" if it
// stays. Processes that find the same damaged file take turns, and the second one finds it whole or gone.
func SetAside(path string, damaged func() (bool, error)) (aside string, err error) {
	if folder, err := os.Open(filepath.Dir(path)); err == nil {
		defer folder.Close()
		_ = syscall.Flock(int(folder.Fd()), syscall.LOCK_EX) // where folders have no locks, the rename finds out
	}
	bad, err := damaged()
	if err != nil || !bad {
		return "", err
	}
	aside = path + ".damaged"
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); err != nil {
			break
		}
		aside = fmt.Sprintf("%s.damaged-%d", path, n)
	}
	err = os.Rename(path, aside)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("keeping what is damaged of %s: %w", path, Explain(err))
	}
	return aside, nil
}
