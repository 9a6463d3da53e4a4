package amortised

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/hdf5/hdf5test"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
	"scalewm/model/nn"
)

// TestReference compares with the networks of the reference implementations, whose
// results testdata/policies.py recorded in float64. Our sinusoids are float32.
func TestReference(t *testing.T) {
	eachReference(t, ref.New(), 1e-6)
	for _, isa := range cpu.Paths() {
		for precision, tolerance := range tolerances {
			t.Run(fmt.Sprintf("%s/%s", isa, precision), func(t *testing.T) {
				t.Setenv(cpu.ISAVariable, isa)
				dev, err := cpu.New(cpu.Options{Precision: precision, Threads: 2})
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Close()
				eachReference(t, dev, tolerance)
			})
		}
	}
}

// tolerances are relative to the largest number of a tensor. bf16 has 8 bits, and sums as
// short as these do not average its errors.
var tolerances = map[device.Precision]float64{device.FP32: 1e-5, device.BF16: 0.1}

func eachReference(t *testing.T, dev device.Device, tolerance float64) {
	for name := range networks {
		t.Run(name, func(t *testing.T) {
			c := &reference{T: t, tree: hdf5test.Open(t, "testdata/reference/"+name+".h5"), dev: dev, tolerance: tolerance}
			c.run(policy(t, dev, networks[name], single, true))
		})
	}
}

// reference is a file of results, compared on one device.
type reference struct {
	*testing.T
	tree      *hdf5test.Tree
	dev       device.Device
	tolerance float64
}

func (c *reference) array(name string) []float64 {
	c.Helper()
	v, _, err := c.tree.Read(name)
	if err != nil {
		c.Fatal(err)
	}
	return v
}

// compare fails unless all numbers of got are within the tolerance of those recorded.
func (c *reference) compare(name string, got []float64) {
	c.Helper()
	want := c.array(name)
	if len(got) != len(want) {
		c.Fatalf("%s has %d numbers, want %d", name, len(got), len(want))
	}
	largest, worst := 0.0, 0.0
	for i, w := range want {
		largest, worst = max(largest, math.Abs(w)), max(worst, math.Abs(got[i]-w))
	}
	if !(worst <= c.tolerance*max(largest, 1e-3)) {
		c.Errorf("%s is off by %g, its largest number is %g", name, worst, largest)
	}
}

// batch returns batch n of the file.
func (c *reference) batch(n int) model.Batch {
	part := func(name string, cols int) device.Mat {
		v := c.array("input/" + name)
		size := len(v) / 3
		return upload(c.dev, v[n*size:][:size], cols)
	}
	b := model.Batch{Features: part("features", 6), Actions: part("action", 2), Left: part("left", 1)}
	b.B = b.Left.Rows
	return b
}

// run compares the first forward and backward pass, three optimiser steps and the actions
// from a single frame.
func (c *reference) run(m *Model) {
	var names []string
	for _, name := range c.tree.Names() {
		if rest, ok := strings.CutPrefix(name, "weights/"); ok {
			names = append(names, policyPrefix+rest)
		}
	}
	var ours []string
	for _, p := range m.Set.Params {
		c.dev.Upload64(p.Value, c.array("weights/"+strings.TrimPrefix(p.Name, policyPrefix)))
		ours = append(ours, p.Name)
	}
	if slices.Sort(ours); !slices.Equal(ours, names) {
		c.Fatalf("tensors %q, want %q", ours, names)
	}
	c.act(m)
	losses, norms := make([]float64, 3), make([]float64, 3)
	adamM, adamV := device.NewMat(c.dev, 1, m.Set.Len()), device.NewMat(c.dev, 1, m.Set.Len())
	for n := range losses {
		c.dev.Fill(m.Set.Grad, 0)
		p := &nn.Pass{Dev: c.dev, Arena: device.NewArena(c.dev), Train: true}
		out := m.Forward(p, c.batch(n))
		loss, norm, dpred := p.Mat(1, 1), p.Mat(1, 1), p.Zero(out.Pred.Rows, out.Pred.Cols)
		c.dev.MSE(loss, dpred, device.Mat{}, out.Pred, out.Target, 1)
		if n == 0 {
			c.compare("f64/pred", download(c.dev, out.Pred))
		}
		m.PredictorGrad(p, device.Mat{}, dpred, device.Mat{})
		if n == 0 {
			for _, q := range m.Set.Params {
				c.compare("f64/grad/"+strings.TrimPrefix(q.Name, policyPrefix), download(c.dev, q.Grad))
			}
		}
		c.dev.SumSquares(norm, m.Set.Grad)
		c.dev.AdamW(m.Set.Value, m.Set.Grad, adamM, adamV, norm, device.AdamW{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 1e-4, MaxNorm: 1, Step: n + 1})
		losses[n], norms[n] = download(c.dev, loss)[0], math.Sqrt(download(c.dev, norm)[0])
		p.Free()
	}
	c.compare("f64/loss", losses)
	c.compare("f64/grad_norm", norms)
	for _, p := range m.Set.Params {
		c.compare("f64/final/"+strings.TrimPrefix(p.Name, policyPrefix), download(c.dev, p.Value))
	}
}

// act compares actions in evaluation mode, from the first frame of each clip.
func (c *reference) act(m *Model) {
	w, err := m.World()
	if err != nil {
		c.Fatal(err)
	}
	b, h := c.batch(0), m.Info().History
	got := device.NewMat(c.dev, b.B, 2)
	w.(model.Actor).Act(got, b.Features.Every(0, h+1), b.Features.Every(h, h+1), b.Left)
	c.compare("f64/act", download(c.dev, got))
}
