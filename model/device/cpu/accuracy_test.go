package cpu_test

import (
	"math"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
)

// sweep is n numbers evenly spaced over [-limit, limit], on a device.
func sweep(d device.Device, n int, limit float64) device.Mat {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(float32(limit * (2*float64(i)/float64(n-1) - 1)))
	}
	m := device.NewMat(d, 1, n)
	d.Upload64(m, v)
	return m
}

func values(d device.Device, m device.Mat) []float64 {
	v := make([]float64, m.Len())
	d.Download64(v, m)
	return v
}

// TestActivationAccuracy: the largest error over the whole range that is not
// trivial. Values are judged relative to |x|, slopes absolutely, to 1e-6: 3e-7 is five
// half units in the last place.
func TestActivationAccuracy(t *testing.T) {
	const n, limit, allowed = 1 << 17, 30, 3e-7
	every(t, func(t *testing.T, p device.Precision) {
		if p == device.BF16 {
			t.Skip("activations do not depend on the precision of products")
		}
		d, r := open(p)(t, 1), ref.New()
		defer d.Close()
		for act := device.GELU; act <= device.ReLU; act++ {
			x, rx := sweep(d, n, limit), sweep(r, n, limit)
			y, ry := device.NewMat(d, 1, n), device.NewMat(r, 1, n)
			d.Activate(y, x, act)
			r.Activate(ry, rx, act)
			at, got, want := values(r, rx), values(d, y), values(r, ry)
			for i, x := range at {
				if e := math.Abs(got[i] - want[i]); e > allowed*math.Abs(x) {
					t.Fatalf("act %d at %g: %.9g, want %.9g", act, x, got[i], want[i])
				}
			}
			one, rone := device.NewMat(d, 1, n), device.NewMat(r, 1, n)
			d.Fill(one, 1)
			r.Fill(rone, 1)
			d.ActivateGrad(y, one, x, act)
			r.ActivateGrad(ry, rone, rx, act)
			got, want = values(d, y), values(r, ry)
			for i, x := range at {
				if e := math.Abs(got[i] - want[i]); e > 1e-6 {
					t.Fatalf("slope of act %d at %g: %.9g, want %.9g", act, x, got[i], want[i])
				}
			}
		}
	})
}

// TestPeak: any machine of the last thirty years does a tenth of a GFLOP/s.
func TestPeak(t *testing.T) {
	every(t, func(t *testing.T, p device.Precision) {
		if g, err := cpu.Peak(p, 1); err != nil || !(g > 0.1) {
			t.Fatalf("peak %g GFLOP/s, %v", g, err)
		}
	})
}

// TestShortGELU: where results are stored as bf16 their activation and its derivative may err by what
// vecmath.h says, and by the rounding, 2^-8 of the value.
func TestShortGELU(t *testing.T) {
	const n = 512 // -8 to 8 in steps of 1/32: exact in bf16
	d, r := open(device.BF16)(t, 1), ref.New()
	defer d.Close()
	results := func(d device.Device) (act, slope []float64) {
		x, one := sweep(d, n+1, 8).Reshape(n+1, 1), device.NewMat(d, 1, 1)
		d.Fill(one, 1)
		dst := device.Mat{Buf: d.AllocHalf(n + 1), Rows: n + 1, Cols: 1, Stride: 1}
		d.Gemm(device.NN, dst, x, one, device.Epilogue{Act: device.GELU})
		act = values(d, dst)
		ones := device.NewMat(d, n+1, 1)
		d.Fill(ones, 1)
		d.Gemm(device.NN, dst, ones, one, device.Epilogue{Act: device.GELU, Grad: x})
		return act, values(d, dst)
	}
	act, slope := results(d)
	wantAct, wantSlope := results(r)
	for i := range act {
		x := float64(i-n/2) / 32
		allowed, allowedSlope := 5e-5, 1.8e-4
		if math.Abs(x) > 4 {
			allowed, allowedSlope = 4.3e-5*math.Abs(x), 3e-4
		}
		if e := math.Abs(act[i] - wantAct[i]); e > allowed+0x1p-8*math.Abs(wantAct[i]) {
			t.Errorf("GELU(%g) = %g, want %g", x, act[i], wantAct[i])
		}
		if e := math.Abs(slope[i] - wantSlope[i]); e > allowedSlope+0x1p-8*math.Abs(wantSlope[i]) {
			t.Errorf("GELU'(%g) = %g, want %g", x, slope[i], wantSlope[i])
		}
	}
}
