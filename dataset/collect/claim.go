package collect

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// claim makes the shards' folder and locks it, so that two runs never work on
// the same output. A killed run's lock is gone with it.
func (j *Job) claim() error {
	if err := os.MkdirAll(j.parts, 0o777); err != nil {
		return fmt.Errorf("collecting into %s: %w (hint: is its folder writable?)", j.Out, err)
	}
	f, err := os.OpenFile(filepath.Join(j.parts, "lock"), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("collecting into %s: %w", j.Out, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return fmt.Errorf("collecting into %s: another run is at work on it (hint: let it finish)", j.Out)
	}
	j.lock = f
	return nil
}

// Close gives the output free; finished shards stay for the next run.
func (j *Job) Close() error {
	if j.lock == nil {
		return nil
	}
	f := j.lock
	j.lock = nil
	return f.Close()
}
