package pusht

import (
	"bytes"
	"math"
	"testing"

	"scalewm/envs"
	"scalewm/envs/raster"
)

func frame(t *testing.T, e *env) []byte {
	t.Helper()
	dst := make([]byte, envs.FrameBytes)
	if err := e.Frame(dst); err != nil {
		t.Fatal(err)
	}
	return dst
}

// Pixels at given positions, with the colours of docs/sources.md#push-t-drawing. dataset/replay
// compares frames with the reference implementation's byte for byte.
func TestColours(t *testing.T) {
	f := frame(t, at(t, nil, 100, 110, 380, 120, 0, 0, 0))
	for _, c := range []struct {
		what string
		x, y float64 // in the window of 512
		want raster.Color
	}{
		{"table", 60, 300, raster.RGB(255, 255, 255)},
		{"agent", 100, 110, raster.RGB(78, 126, 255)}, {"agent's rim", 100, 110 - 13, raster.RGB(65, 105, 225)},
		{"bar", 350, 135, raster.RGB(143, 163, 184)}, {"stem", 380, 200, raster.RGB(143, 163, 184)},
		{"edge of the bar", 340, 120, raster.RGB(119, 136, 153)}, {"edge between bar and stem", 380, 150, raster.RGB(119, 136, 153)},
		{"drawn goal", 246, 270, raster.RGB(144, 238, 144)}, {"foot of its stem", 256 - 115*math.Sqrt2/2, 256 + 115*math.Sqrt2/2, raster.RGB(144, 238, 144)},
		{"left wall", 5, 250, wallColor}, {"bottom wall", 250, 506, wallColor},
	} {
		x, y := int(c.x*envs.FrameSize/window), int(c.y*envs.FrameSize/window)
		o := (y*envs.FrameSize + x) * 3
		if got := raster.RGB(f[o], f[o+1], f[o+2]); got != c.want {
			t.Errorf("%s is %06x, want %06x", c.what, got, c.want)
		}
	}
}

// red counts the pixels coloured by contact marks.
func red(f []byte) (n int) {
	for i := 0; i < len(f); i += 3 {
		if int(f[i]) > int(f[i+1])+30 && int(f[i]) > int(f[i+2])+30 {
			n++
		}
	}
	return n
}

func TestContactMarks(t *testing.T) {
	if n := red(frame(t, at(t, nil, 100, 100, 256, 256, 0, 0, 0))); n != 0 {
		t.Errorf("%d red pixels without contact", n)
	}
	// Marks are thin: the resize loses some (docs/sources.md#push-t-drawing).
	marked := 0
	for k := range 20 {
		if red(frame(t, at(t, nil, 256+float64(k), 262, 256, 256, 0.1*float64(k), 0, 0))) > 0 {
			marked++
		}
	}
	if marked < 5 {
		t.Errorf("%d of 20 frames show a contact", marked)
	}
}

// A frame does not depend on the frames drawn before it.
func TestFrameHasNoMemory(t *testing.T) {
	used := at(t, nil, 100, 100, 256, 256, 0, 0, 0)
	for k := range 40 {
		v := vector{15 * float64(k), 500 - 14*float64(k), 13 * float64(k), 40 + 9*float64(k), 0.5 * float64(k)}
		if err := used.SetState(envs.Row{"state": v[:]}); err != nil {
			t.Fatal(err)
		}
		fresh := made(t, nil)
		if err := fresh.Restore(used.Snapshot()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(frame(t, used), frame(t, fresh)) {
			t.Errorf("state %d", k)
		}
	}
}

// Bodies outside the table are not drawn.
func TestOutside(t *testing.T) {
	f := frame(t, at(t, nil, -3000, 1e9, 1e7, -4000, 2, 0, 0))
	if !bytes.Equal(f, plainScenery().frame) {
		t.Error("something is there")
	}
}
