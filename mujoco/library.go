package mujoco

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"scalewm/mujoco/internal/mjc"
	thirdparty "scalewm/third_party"
)

// Version is the only version of MuJoCo that this package accepts. The layouts of the C
// structs change between versions, and so do rendered colours, which would change data
// sets.
const Version = "3.11.0"

// Variable is the environment variable that gives the path of the library or of the
// folder that contains it.
const Variable = "SCALEWM_MUJOCO"

// file is the name of the library file in the official MuJoCo release.
const file = "libmujoco.so." + Version

// ErrNoLibrary is wrapped by the error of Open if the library was not found, or if this
// program was built without MuJoCo's headers.
var ErrNoLibrary = errors.New("mujoco: library not found")

// Open finds and opens the library. Loading a model calls it. It searches the path in
// [Variable], the folder of the executable, and third_party of the checkout that
// contains the executable or the working folder. Only the first call does this work;
// later calls return its result.
func Open() error { return open() }

// open is Open's implementation. The library is never unloaded, since C handles that
// point into it may exist at any time.
var open = sync.OnceValue(func() error {
	if err := builtWith(mjc.Headers()); err != nil {
		return err
	}
	path, err := find()
	if err != nil {
		return err
	}
	if err := mjc.Open(path); err != nil {
		return fmt.Errorf("mujoco: opening the library: %w (hint: %s must name version %s; make setup fetches it)", err, Variable, Version)
	}
	return nil
})

// builtWith returns an error unless the program was built with the pinned headers.
// Struct offsets are compiled in, so other headers would address the wrong memory.
func builtWith(headers int) error {
	switch headers {
	case mjc.Version:
		return nil
	case 0:
		return fmt.Errorf("%w: built without its headers (hint: make setup, then build again)", ErrNoLibrary)
	}
	return fmt.Errorf("%w: built with headers of version %d, needs %d (hint: make setup, then build again)", ErrNoLibrary, headers, mjc.Version)
}

// find returns the first candidate path that is a regular file.
func find() (string, error) {
	paths := thirdparty.Places(os.Getenv(Variable), "mujoco", file)
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return p, nil
		}
	}
	return "", fmt.Errorf("%w in %s (hint: %s)", ErrNoLibrary, strings.Join(paths, ", "), thirdparty.Hint(Variable, "FILE"))
}
