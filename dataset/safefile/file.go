// Package safefile reads and writes files that other processes, crashes and other
// users may touch at the same time. Everything the program leaves on disk goes
// through it.
//
//   - [Write], [WriteBytes] and [Fill] write atomically: the content goes to a
//     temporary file next to the target, which is flushed to disk and renamed. A
//     reader, or a program that starts after a crash, never sees half of a file under
//     its final name.
//   - [Open] and [Read] open only regular files of a bounded size, so that a named
//     pipe cannot block the program and a huge file cannot exhaust its memory.
//   - [Lock] gives one process exclusive use of a folder, on network file systems
//     too.
//   - [CheckName] and [Visible] make text from files safe to use in paths and to
//     print.
//
// [Explain] adds a hint to errors of the file system. The package does not know what
// the files contain.
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

// Write writes path atomically: a reader sees the complete old file, the complete new
// file, or none. The bytes go to a hidden temporary file in the same folder, which is
// flushed to disk and renamed to path; missing folders are created. If write returns
// an error, so does Write, and path is unchanged.
//
// Writers of the same path on one host, in this process or others, run one after
// another, and the next one reuses the temporary file of a killed writer. Writers on
// different hosts have separate temporary files, and the last one to finish wins.
func Write(path string, write func(io.Writer) error) error {
	return Fill(path, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 1<<16)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	})
}

// WriteBytes is [Write] for a byte slice. It writes nothing if the file already has
// this content, so that it succeeds in a finished folder that is read-only.
func WriteBytes(path string, b []byte) error {
	if there, err := Read(path, Limit(len(b))); err == nil && bytes.Equal(there, b) {
		return nil
	}
	return Write(path, func(w io.Writer) error { _, err := w.Write(b); return err })
}

// Fill is [Write] for callers that need the empty file itself, for example to map it
// into memory. fill must not close the file.
func Fill(path string, fill func(*os.File) error) error {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	if err := fillTemp(path, fill); err != nil {
		return fmt.Errorf("writing %s: %w", path, Explain(err))
	}
	return nil
}

// fillTemp writes the temporary file of path and renames it.
func fillTemp(path string, fill func(*os.File) error) error {
	f, err := openTemp(Aside(path))
	if err != nil {
		return err
	}
	// Closing releases the lock, after the rename or the removal: a waiting writer
	// then finds the name gone and opens a new file.
	defer f.Close()
	// A killed writer may have left content that is longer than ours.
	if err = f.Truncate(0); err == nil {
		err = fill(f)
	}
	if err != nil {
		// An error of the removal is ignored: err is the cause.
		os.Remove(f.Name())
		return err
	}
	return Publish(f, path)
}

// MakeFolder creates a folder and the missing folders above it.
func MakeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("making the folder %s: %w", dir, Explain(err))
	}
	return nil
}

// Publish renames an open, completely written temporary file to path. The file is
// flushed to disk before the rename, and its folder after it. Without the first sync
// a power failure could leave the new name with empty content, since file systems may
// commit a rename before the data; without the second the rename itself could be
// lost. If the rename fails, the temporary file is removed.
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

// renaming is held while a file gets its final name.
var renaming sync.Mutex

// HoldRenames blocks [Publish] before its rename until release is called. A process
// that is about to exit calls it, so that no file appears after it has reported which
// ones are there.
func HoldRenames() (release func()) {
	renaming.Lock()
	return renaming.Unlock
}

// SHA256 returns the SHA-256 of a file in hex. The error wraps fs.ErrNotExist if
// there is no such file.
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

// Remove removes a file that Write wrote, and the temporary file that a killed writer
// of path left. A missing file is not an error.
func Remove(path string) error {
	for _, name := range []string{path, Aside(path)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %s: %w", path, Explain(err))
		}
	}
	return nil
}

// Tidy removes temporary files of killed writers whose target exists in dir. Since
// the target exists, no later writer may come that would reuse and rename them.
// Temporary files without a target stay, for the writer that resumes the work. Errors
// are ignored.
func Tidy(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, strings.TrimSuffix(strings.TrimPrefix(e.Name(), "."), tempSuffix))
		if filepath.Join(dir, e.Name()) != Aside(path) {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			removeUnused(Aside(path))
		}
	}
}

// Claim creates a file that this program writes, and its folder, and locks it until
// it is closed; how is syscall.LOCK_EX or syscall.LOCK_SH. Claim does not wait: if
// another process has the lock, f and err are nil.
func Claim(path string, how int) (f *os.File, err error) {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if f, err = OpenOurs(path, os.O_CREATE); err != nil {
		return nil, err
	}
	// The previous owner may have renamed the file between our open and our lock.
	// Then the lock is on a file that no longer has this name.
	if syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) != nil || !isAt(f, path) {
		f.Close()
		return nil, nil
	}
	return f, nil
}

// Free returns the number of bytes that an unprivileged user may still write to the
// file system of a folder.
func Free(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("reading the free space of %s: %w", dir, Explain(err))
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// removeUnused removes a temporary file unless a writer has it locked.
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

// isAt reports whether an open file is still the one of that name, and not renamed,
// removed or replaced.
func isAt(f *os.File, name string) bool {
	mine, err1 := f.Stat()
	now, err2 := os.Lstat(name)
	return err1 == nil && err2 == nil && os.SameFile(mine, now)
}

// OpenOurs opens a file that this program writes, for reading and writing, with flag
// added (os.O_CREATE). It refuses symbolic links, since their target belongs to
// someone else, and everything that is not a regular file; the error wraps ErrUnfit.
func OpenOurs(path string, flag int) (*os.File, error) {
	unfit := func(what string) error {
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: it is %s (hint: move it away)", ErrUnfit, what)}
	}
	// O_NONBLOCK: opening a named pipe must not wait for its other end.
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

// RemoveParts removes the files of a folder whose names end with suffix, the
// temporary files that killed writers of such files left, and the folder's lock. It
// then removes the folder if nothing else is in it. Other files are left alone; a
// missing folder is not an error.
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

// Aside returns the path of the temporary file, hidden and in the same folder, that
// the next content of path is written to. It must be in the same folder because a
// rename is atomic only within one file system.
func Aside(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+tempSuffix)
}

// tempSuffix contains the host name: network file systems do not reliably pass locks
// between hosts, so writers on different hosts must not share a temporary file.
var tempSuffix = "." + Self().Host + ".aside"

// openTemp opens and locks the temporary file called name. The name is fixed, so
// that the next writer reuses what a killed one left. While we wait for the lock, its
// owner renames or removes the file; our lock is then on a file without that name,
// and we open the name again.
func openTemp(name string) (*os.File, error) {
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

// lock waits for the exclusive lock of f. Signals that the Go runtime sends to its
// own threads interrupt the system call, so it is repeated.
func lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// syncDir flushes a folder, so that a rename in it survives a power failure. Some
// network file systems cannot sync folders and return EINVAL or ENOTSUP. That is not
// an error: the content of the file is on disk.
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

// Explain rewrites a file-system error for a message that names the file itself. It
// drops the path, because the caller's message has the path as the user wrote it, and
// appends a hint for a full disk, missing permissions and names that are files
// instead of folders. The result wraps the underlying error.
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

// SetAside renames a file to PATH.damaged, PATH.damaged-2, ... if damaged reports
// that it is damaged. It returns the new name, or "" if the file stays. Processes
// that find the same damaged file run one after another, under a lock of the folder;
// the second one finds the file intact or gone.
func SetAside(path string, damaged func() (bool, error)) (aside string, err error) {
	if folder, err := os.Open(filepath.Dir(path)); err == nil {
		defer folder.Close()
		// File systems without locks on folders return an error. Two processes may
		// then both rename, and the second gets fs.ErrNotExist below.
		_ = syscall.Flock(int(folder.Fd()), syscall.LOCK_EX)
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
		return "", fmt.Errorf("renaming the damaged file %s: %w", path, Explain(err))
	}
	return aside, nil
}
