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
	lockName   = ".lock"
	lockEvery  = 500 * time.Millisecond // how often a taken lock is tried again
	askEvery   = 60                     // tries after which the batch system is asked again whether the owner's job is there
	maxWaiting = 1000                   // distinct names beside a lock, far more than processes that wait
)

// LockOptions say what to do about a lock that another process has.
type LockOptions struct {
	Break bool              // it is taken away: the caller knows that its owner is gone
	Note  func(text string) // where set, is told once who is waited for
}

// Lock makes a folder and takes it for this process until release is called. It waits
// while another one has it. The lock is the file .lock, which names its owner:
// host, process and, under Slurm, job. It holds on network file systems too, where
// locks of folders do not. A lock whose owner is gone is taken over: a process of this
// host that ended, however it ended; one of another host if Slurm says that its job does
// not run, or if it was this very job before it was put back into the queue; and any with Break.
func Lock(ctx context.Context, dir string, o LockOptions) (release func(), err error) {
	if err := MakeFolder(dir); err != nil {
		return nil, err
	}
	l, said := locking{path: filepath.Join(dir, lockName), me: Self()}, false
	for try := 0; ; try++ {
		f, err := l.take()
		if err == nil {
			return func() { l.release(f) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("locking the folder %s: %w", dir, Explain(err))
		}
		broken, owner, err := l.breakStale(o.Break, try%askEvery == 0)
		if err != nil {
			return nil, fmt.Errorf("locking the folder %s: %w", dir, Explain(err))
		}
		if broken {
			o.Break = false // of the one that was there, and not of who comes next
			continue
		}
		if owner != (Owner{}) && o.Note != nil && !said {
			said = true
			o.Note(fmt.Sprintf("%s is taken by %s, which is waited for (hint: if that is gone, --break-lock)", dir, owner))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockEvery):
		}
	}
}

// locking is one attempt to get a lock.
type locking struct {
	path string
	me   Owner
}

var lockings atomic.Int64 // of this process, for names

// take makes the lock, fs.ErrExist where there is one. It is written under a name of
// its own first, so that nobody sees it without its owner, and stays open: the
// kernel's lock of the open file is what tells other processes of this host that it is alive.
func (l locking) take() (*os.File, error) {
	name := fmt.Sprintf("%s.%s-%d-%d", l.path, l.me.Host, l.me.PID, lockings.Add(1))
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
		err = fs.ErrExist // who has the lock tidied
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	l.tidy(name)
	return f, nil
}

// release removes the lock, unless another process broke it and has its own there.
func (l locking) release(f *os.File) {
	if isAt(f, l.path) {
		os.Remove(l.path)
	}
	f.Close()
}

// tidy removes the names that killed processes left beside the lock. A live one that
// loses its name so finds no link to make, and tries again.
func (l locking) tidy(but string) {
	there, _ := os.ReadDir(filepath.Dir(l.path)) // what is left lies there till next time
	for _, e := range there[:min(len(there), maxWaiting)] {
		if strings.HasPrefix(e.Name(), lockName+".") && e.Name() != filepath.Base(but) {
			os.Remove(filepath.Join(filepath.Dir(l.path), e.Name()))
		}
	}
}

// breakStale removes the lock if its owner is gone. Who removes it has the kernel's
// lock of it, so that no two do.
func (l locking) breakStale(anyway, ask bool) (broken bool, o Owner, err error) {
	// For writing, since an NFS server may delegate a file to a client that reads it, and the
	// client then looks at its own copy and does not see that it was removed.
	f, err := OpenOurs(l.path, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE) {
		return false, o, nil // released meanwhile
	}
	if err != nil {
		return false, o, err
	}
	defer f.Close()
	text := make([]byte, 4096)
	n, _ := f.Read(text)                                   // whatever cannot be read names no owner
	if json.Unmarshal(text[:n], &o) != nil || o.PID == 0 { // and only Break helps
		o = nobody
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if alive := err != nil; alive && !anyway {
		return false, o, nil
	}
	if !anyway && o.Host != l.me.Host && !(ask && l.me.succeeds(o)) {
		return false, o, nil // where a file system does not pass locks on, it may be alive
	}
	if !isAt(f, l.path) {
		return false, o, nil // broken by another one
	}
	return true, o, os.Remove(l.path)
}
