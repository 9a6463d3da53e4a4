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

// The environment variables, the same as MuJoCo's Python package reads.
const (
	backendVariable = "MUJOCO_GL"
	deviceVariable  = "MUJOCO_EGL_DEVICE_ID"
)

// ErrNoOpenGL is wrapped by New's error where nothing can draw.
var ErrNoOpenGL = errors.New("render: no off-screen OpenGL")

// attempt is one backend to try.
type attempt struct {
	name    string
	backend mjc.Backend
	device  int
}

// attempts reads the environment; getenv is os.Getenv outside tests.
func attempts(getenv func(string) string) ([]attempt, error) {
	device := -1
	if s := getenv(deviceVariable); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%w: %s=%s is no device number (hint: 0 is the first, unset takes what works)", ErrNoOpenGL, deviceVariable, s)
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

// choose opens the first backend that works and gives its name.
func choose(list []attempt, open func(mjc.Backend, int) error) (string, error) {
	text := ""
	for _, a := range list {
		err := open(a.backend, a.device)
		if err == nil {
			return a.name, nil
		}
		text += fmt.Sprintf("; %s: %v", a.name, err)
	}
	hint := "apt-get install -y libegl1 libgl1-mesa-dri, or libosmesa6; scalewm doctor shows what is there"
	if len(list) == 1 {
		hint = "unset " + backendVariable + " to try EGL and OSMesa; " + hint
	}
	return "", fmt.Errorf("%w%s (hint: %s)", ErrNoOpenGL, text, hint)
}

// backend chooses once for the process.
var backend = sync.OnceValues(func() (string, error) {
	list, err := attempts(os.Getenv)
	if err != nil {
		return "", err
	}
	runtime.LockOSThread() // a context is tried, and belongs to a thread
	defer runtime.UnlockOSThread()
	return choose(list, mjc.OpenGL)
})
