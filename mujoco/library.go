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

// Version is the only version of MuJoCo that this package works with: layouts of
// its structs, and the colours of its floors, change between versions.
const Version = "3.11.0"

// Variable is the environment variable that names the library, or its folder.
const Variable = "SCALEWM_MUJOCO"

// file is the library's name in the official package.
const file = "libmujoco.so." + Version

// ErrNoLibrary is wrapped by Open's error where there is no library to open, or no
// headers to have been built with.
var ErrNoLibrary = errors.New("mujoco: library not found")

// Open finds and opens the library; loading a model does so too. It is looked for
// where [Variable] says, beside the executable, and in third_party of the checkout
// that holds the executable or the working folder. The outcome of the first call is
// that of all.
func Open() error { return open() }

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

// builtWith says why a build with these headers cannot open any library.
func builtWith(headers int) error {
	switch headers {
	case mjc.Version:
		return nil
	case 0:
		return fmt.Errorf("%w: built without its headers (hint: make setup, then build again)", ErrNoLibrary)
	}
	return fmt.Errorf("%w: built with headers of version %d, needs %d (hint: make setup, then build again)", ErrNoLibrary, headers, mjc.Version)
}

// find returns the first candidate that is a file.
func find() (string, error) {
	variable := os.Getenv(Variable)
	paths := thirdparty.Places(variable, "mujoco", file)
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return p, nil
		}
	}
	hint := "make setup in a checkout, or " + Variable + "=FILE"
	if variable != "" {
		hint = "correct or unset " + Variable
	}
	return "", fmt.Errorf("%w in %s (hint: %s)", ErrNoLibrary, strings.Join(paths, ", "), hint)
}
