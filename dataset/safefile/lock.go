package safefile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	lockName = ".lock"
	// retryEvery is the interval between two attempts to get a lock that is taken.
	retryEvery = 500 * time.Millisecond
	// queryEvery is the number of attempts between two queries of the batch system,
	// which cost its controller time: one every 30 seconds.
	queryEvery = 60
	// maxTidied bounds the directory entries that tidy looks at. It is far above the
	// number of processes that wait for one lock.
	maxTidied = 1000
)

// LockOptions says what to do about a lock that another process holds.
type LockOptions struct {
	// Break takes the lock away from its owner, which the caller knows to be gone. It
	// applies to the lock found first, not to one that a third process gets in the
	// meantime.
	Break bool
	// Note, if set, is called once with a text that names the owner when Lock has to
	// wait.
	Note func(text string)
}

// Lock creates a folder and locks it for this process until release is called. It
// waits while another process holds the lock, or until ctx ends.
//
// The lock is the file .lock, whose content names its owner: host, process and, under
// Slurm, job. It works on network file systems too, where flock on a folder does not
// exclude other hosts. Lock takes over a lock whose owner is gone:
//
//   - a process of this host that has ended, in whatever way, which the kernel's lock
//     on the file shows;
//   - a process of another host, if Slurm reports that its job is not running, or if
//     its job is this process's own, before it was requeued;
//   - any owner, with LockOptions.Break.
func Lock(ctx context.Context, dir string, o LockOptions) (release func(), err error) {
	if err := MakeFolder(dir); err != nil {
		return nil, err
	}
	l, noted := lockAttempt{path: filepath.Join(dir, lockName), me: Self()}, false
	for try := 0; ; try++ {
		f, err := l.take()
		if err == nil {
			return func() { l.release(f) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("locking the folder %s: %w", dir, Explain(err))
		}
		broken, owner, err := l.breakStale(o.Break, try%queryEvery == 0)
		if err != nil {
			return nil, fmt.Errorf("locking the folder %s: %w", dir, Explain(err))
		}
		if broken {
			// Break applies to the lock just removed. Whoever gets the folder next is
			// alive.
			o.Break = false
			continue
		}
		if owner != (Owner{}) && o.Note != nil && !noted {
			noted = true
			o.Note(fmt.Sprintf("%s is locked by %s; waiting for it (hint: if that is gone, use --break-lock)", dir, owner))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(retryEvery):
		}
	}
}

// lockAttempt is one attempt of this process to get a lock.
type lockAttempt struct {
	path string
	me   Owner
}

// attempts counts the attempts of this process, which makes the names of their files
// unique.
var attempts atomic.Int64

// take creates the lock, or returns fs.ErrExist if there is one. It writes a file
// under a unique name, locks it, and hard-links it to the final name: link is atomic
// and fails if the name exists, on NFS too, and nobody can see the lock without its
// content or before the kernel's lock is held. The file stays open, since the
// kernel's lock on it is how other processes of this host see that the owner is
// alive.
func (l lockAttempt) take() (*os.File, error) {
	name := fmt.Sprintf("%s.%s-%d-%d", l.path, l.me.Host, l.me.PID, attempts.Add(1))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	defer os.Remove(name)
	text, err := json.Marshal(l.me)
	if err == nil {
		_, err = f.Write(text)
	}
	if err == nil {
		err = lock(f)
	}
	if err == nil {
		err = os.Link(name, l.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		// Our unique name is gone: another process got the lock and tidied up. Try
		// again.
		err = fs.ErrExist
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	l.tidy(name)
	return f, nil
}

// release removes the lock, unless another process has broken it and the name is now
// the lock of that process.
func (l lockAttempt) release(f *os.File) {
	if isAt(f, l.path) {
		os.Remove(l.path)
	}
	f.Close()
}

// tidy removes the unique names that killed processes left next to the lock. If a
// live process loses its name this way, its link fails with fs.ErrNotExist and it
// tries again.
func (l lockAttempt) tidy(keep string) {
	// Errors are ignored: the next owner tidies again.
	there, _ := os.ReadDir(filepath.Dir(l.path))
	for _, e := range there[:min(len(there), maxTidied)] {
		if strings.HasPrefix(e.Name(), lockName+".") && e.Name() != filepath.Base(keep) {
			os.Remove(filepath.Join(filepath.Dir(l.path), e.Name()))
		}
	}
}

// breakStale removes the lock if its owner is gone, or with force in any case. It
// returns the owner if there is one. mayQuery allows a query of the batch system. Unless
// force is set, the process that removes the lock holds the kernel's lock on it, so
// that no two processes remove it.
func (l lockAttempt) breakStale(force, mayQuery bool) (broken bool, o Owner, err error) {
	// Open for writing: an NFS server may delegate a file that a client only reads,
	// and the client then keeps using its own copy and does not notice that the file
	// was removed.
	f, err := OpenOurs(l.path, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE) {
		// Released in the meantime; the next attempt takes it.
		return false, o, nil
	}
	if err != nil {
		return false, o, err
	}
	defer f.Close()
	text := make([]byte, 4096)
	// A lock that cannot be read or parsed names no owner. Nothing tells whether its
	// owner is alive, so only Break removes it.
	n, _ := f.Read(text)
	if json.Unmarshal(text[:n], &o) != nil || o.PID == 0 {
		o = unreadable
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if alive := err != nil; alive && !force {
		return false, o, nil
	}
	if !force && o.Host != l.me.Host && !(mayQuery && l.me.seesGone(o)) {
		// The lock of another host. That we got the kernel's lock proves nothing,
		// because the file system may not pass locks between hosts, so the owner
		// counts as alive unless Slurm says otherwise.
		return false, o, nil
	}
	if !isAt(f, l.path) {
		// Another process broke the lock after we opened it, and the name may be a
		// new lock by now.
		return false, o, nil
	}
	return true, o, os.Remove(l.path)
}
