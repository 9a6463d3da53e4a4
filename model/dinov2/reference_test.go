package dinov2

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/hdf5/hdf5test"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
	"scalewm/model/nn"
)

// committed is the folder that testdata/dinov2.py writes.
const committed = "testdata/reference"

// TestReference reads backbones as they are published and compares with the results
// of transformers: the cases written by testdata/dinov2.py and those in
// SCALEWM_REFERENCE_DIR.
func TestReference(t *testing.T) {
	eachCase(t, func(t *testing.T, c *refCase) {
		t.Run("ref", func(t *testing.T) { c.run(t, ref.New(), singleTolerance) })
		for _, isa := range cpu.Paths() {
			for p, tol := range map[device.Precision]float64{device.FP32: singleTolerance, device.BF16: bf16Tolerance} {
				t.Run(fmt.Sprintf("cpu/%s/%s", isa, p), func(t *testing.T) {
					t.Setenv(cpu.ISAVariable, isa)
					dev, err := cpu.New(cpu.Options{Precision: p, Threads: 2})
					if err != nil {
						t.Fatal(err)
					}
					defer dev.Close()
					c.run(t, dev, tol)
				})
			}
		}
	})
}

// Tolerances (docs/sources.md#reference-tolerances) of tokens and of the position
// table. The table is always resampled in float32, so that its tolerance is the same
// in float64.
const (
	singleTolerance = 5e-5
	bf16Tolerance   = 1e-1
	tableTolerance  = 3e-6
)

// refCase is a folder of one case.
type refCase struct {
	file *File
	tree *hdf5test.Tree
}

func eachCase(t *testing.T, check func(t *testing.T, c *refCase)) {
	for _, dir := range []string{committed, os.Getenv("SCALEWM_REFERENCE_DIR")} {
		if dir == "" {
			continue
		}
		paths, err := filepath.Glob(filepath.Join(dir, "dinov2*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			t.Run(filepath.Base(path), func(t *testing.T) { check(t, openCase(t, path)) })
		}
	}
}

func openCase(t *testing.T, path string) *refCase {
	t.Helper()
	c := &refCase{tree: hdf5test.Open(t, filepath.Join(path, "reference.h5"))}
	if hub := filepath.Join(path, "weights.pth"); exists(hub) {
		path = hub
	}
	var err error
	if c.file, err = Read(path); err != nil {
		t.Fatal(err)
	}
	return c
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func (c *refCase) run(t *testing.T, dev device.Device, tol float64) {
	for _, name := range c.tree.Names() {
		group, tokens := filepath.Split(name)
		if !strings.HasPrefix(group, "px") || !strings.HasPrefix(tokens, "patch_tokens") {
			continue
		}
		rule := ""
		if strings.HasSuffix(strings.Trim(group, "/"), "_hub") || strings.HasSuffix(tokens, "_hub") {
			rule = Hub
		}
		t.Run(strings.ReplaceAll(name, "/", "."), func(t *testing.T) {
			c.group(t, dev, rule, group, strings.TrimPrefix(tokens, "patch_tokens"), tol)
		})
	}
}

// group compares the frames of a group, whose results have names that end in suffix.
func (c *refCase) group(t *testing.T, dev device.Device, rule, group, suffix string, tol float64) {
	px, shape, err := c.tree.Read(group + "pixels")
	if err != nil || len(shape) != 4 || shape[1] != shape[2] || shape[3] != 3 {
		t.Fatalf("pixels of shape %v, %v", shape, err)
	}
	cfg := c.file.Config
	cfg.FrameSize, cfg.Resample = shape[1], rule
	e, p := ready(t, dev, cfg, c.file)
	frames := upload(dev, px)
	n := shape[0]
	dst := device.NewMat(dev, n*cfg.Patches(), cfg.Width)
	e.Into(p, dst, frames, nil, n)
	c.close(t, group+"patch_tokens"+suffix, download(dev, dst), tol)
	if cls := group + "cls" + suffix; c.tree.Has(cls) {
		c.close(t, cls, download(dev, e.vit.Forward(p, e.vit.Patches(p, frames, nil, 0, n))), tol)
	}
	if table := group + "position_table" + suffix; c.tree.Has(table) {
		used := e.table
		if !used.IsSet() {
			used = e.vit.Positions().Value
		}
		c.close(t, table, download(dev, used), tableTolerance)
	}
}

// ready returns an encoder with the file's values, or with random ones if there is no
// file.
func ready(t testing.TB, dev device.Device, c Config, f *File) (*Encoder, *nn.Pass) {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	var set nn.Set
	e := New(&set, "backbone", c)
	set.Alloc(dev, false)
	p := &nn.Pass{Dev: dev, Arena: device.NewArena(dev)}
	t.Cleanup(func() { e.Free(dev); set.Free(dev); p.Free() })
	if f == nil {
		set.Init(dev, stream)
		e.Prepare(dev)
	} else {
		f.Set(dev, e)
	}
	dev.Freeze(set.Value.Buf)
	return e, p
}

func upload(dev device.Device, px []float64) device.Bytes {
	b := make([]byte, len(px))
	for i, x := range px {
		b[i] = byte(x)
	}
	d := dev.AllocBytes(len(b))
	dev.UploadBytes(d, b)
	return d
}

func download(dev device.Device, m device.Mat) []float64 {
	v := make([]float64, m.Len())
	dev.Download64(v, m)
	return v
}

func (c *refCase) close(t *testing.T, name string, got []float64, tol float64) {
	t.Helper()
	want, _, err := c.tree.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || slices.ContainsFunc(want, math.IsNaN) {
		t.Errorf("%s: %d numbers, want %d", name, len(got), len(want))
		return
	}
	worst, at := 0.0, 0
	for i := range want {
		if d := math.Abs(got[i] - want[i]); !(d <= worst) {
			worst, at = d, i
		}
	}
	if !(worst <= tol) {
		t.Errorf("%s: off by %g at %d, allowed %g", name, worst, at, tol)
	}
}
