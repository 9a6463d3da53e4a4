package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockEvery is how often a taken lock is tried again.
const lockEvery = 500 * time.Millisecond

// Lock makes a folder and takes it for this process until release is called or
// the process ends, however it ends. It waits while another one has it. The
// lock leaves no file behind.
func Lock(ctx context.Context, dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("making the folder %s: %w%s", dir, plain(err), hint(err))
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder %s: %w%s", dir, plain(err), hint(err))
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking the folder %s: %w (hint: its file system has no locks; give each process a folder of its own)", dir, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(lockEvery):
		}
	}
}
