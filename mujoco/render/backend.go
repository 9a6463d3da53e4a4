package render

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"

	"scalewm/mujoco/internal/mjc"
)

// The environment variables, which MuJoCo's Python package reads too.
const (
	backendVariable = "MUJOCO_GL"
	deviceVariable  = "MUJOCO_EGL_DEVICE_ID"
)

// ErrNoOpenGL is wrapped by the error of New if no OpenGL implementation works.
var ErrNoOpenGL = errors.New("render: no off-screen OpenGL")

// attempt is one backend to try. device is an EGL device index, or -1 for the first
// that works.
type attempt struct {
	name    string
	backend mjc.Backend
	device  int
}

// attempts returns the backends to try, in order, according to the environment. Tests
// pass their own getenv.
func attempts(getenv func(string) string) ([]attempt, error) {
	device := -1
	if s := getenv(deviceVariable); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%w: %s=%s is not a device index (hint: 0 is the first; if unset, the first that works is used)", ErrNoOpenGL, deviceVariable, s)
		}
		device = n
	}
	egl, osmesa := attempt{"EGL", mjc.EGL, device}, attempt{"OSMesa", mjc.OSMesa, -1}
	switch s := getenv(backendVariable); s {
	case "":
		return []attempt{egl, osmesa}, nil
	case "egl":
		return []attempt{egl}, nil
	case "osmesa":
		return []attempt{osmesa}, nil
	default:
		return nil, fmt.Errorf("%w: %s=%s is not supported (hint: egl, osmesa, or unset)", ErrNoOpenGL, backendVariable, s)
	}
}

// choose opens the first backend that works and returns its name. If none works, the
// error contains the reason for each.
func choose(list []attempt, open func(mjc.Backend, int) error) (string, error) {
	text := ""
	for _, a := range list {
		err := open(a.backend, a.device)
		if err == nil {
			return a.name, nil
		}
		text += fmt.Sprintf("; %s: %v", a.name, err)
	}
	hint := "apt-get install -y libegl1 libgl1-mesa-dri, or libosmesa6; scalewm doctor lists what is installed"
	if len(list) == 1 {
		hint = "unset " + backendVariable + " to try EGL and OSMesa; " + hint
	}
	return "", fmt.Errorf("%w%s (hint: %s)", ErrNoOpenGL, text, hint)
}

// backend selects the backend of the process on first use.
var backend = sync.OnceValues(func() (string, error) {
	list, err := attempts(os.Getenv)
	if err != nil {
		return "", err
	}
	// Opening a backend makes a test context current, which is a property of the OS thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return choose(list, mjc.OpenGL)
})
