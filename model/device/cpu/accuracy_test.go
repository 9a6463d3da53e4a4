package cpu_test

import (
	"math"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/device/ref"
)

// sweep returns n numbers evenly spaced over [-limit, limit], rounded to float32, on
// a device.
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

// TestActivationAccuracy compares activations and their derivatives with ref over the
// range in which they are not trivial. The error of a value is measured relative to
// |x|: 3e-7 is five half units in the last place. The error of a derivative is
// absolute, at most 1e-6.
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
					t.Fatalf("derivative of act %d at %g: %.9g, want %.9g", act, x, got[i], want[i])
				}
			}
		}
	})
}

// TestStoredActivationAccuracy: GELU and its derivative in the epilogue of a GEMM
// with a bf16 result are off by at most half a unit in the last place of bf16, plus
// the approximation errors that vecmath_bf16.h states. The expected values are those
// of math.Erfc.
func TestStoredActivationAccuracy(t *testing.T) {
	const n, width, limit = 1 << 12, 80, 8 // 80 columns: a full block, and a remainder of one vector
	every(t, func(t *testing.T, p device.Precision) {
		d := open(p)(t, 1)
		defer d.Close()
		x, one, w := device.NewMat(d, n, 1), device.NewMat(d, n, 1), device.NewMat(d, width, 1)
		d.Fill(one, 1)
		d.Fill(w, 1)
		at := values(d, sweep(d, n, limit))
		for i, v := range at {
			at[i] = float64(math.Float32frombits(math.Float32bits(float32(v)) &^ 0xffff)) // representable in bf16
		}
		d.Upload64(x, at)
		pre, y, slope := device.NewActivations(d, n, width), device.NewActivations(d, n, width), device.NewActivations(d, n, width)
		d.Gemm(device.NT, pre, x, w, device.Epilogue{})
		d.Gemm(device.NT, y, x, w, device.Epilogue{Act: device.GELU})
		d.Gemm(device.NT, slope, one, w, device.Epilogue{Act: device.GELU, Grad: pre})
		check := func(what string, m device.Mat, allowed float64, f func(x float64) float64) {
			got := values(d, m)
			for i, v := range got {
				want := f(at[i/width])
				if e := math.Abs(v - want); e > allowed+math.Abs(want)/256 {
					t.Fatalf("%s at %g, column %d: %.9g, want %.9g", what, at[i/width], i%width, v, want)
				}
			}
		}
		phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
		check("GELU", y, 7e-6, func(x float64) float64 { return x * phi(x) })
		check("derivative", slope, 3.1e-5, func(x float64) float64 {
			return phi(x) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
		})
	})
}

// TestMeasure: any machine of the last thirty years does 0.1 GFLOP/s and 0.1 GB/s,
// and for fp32 the rate of products is that of multiply-adds.
func TestMeasure(t *testing.T) {
	every(t, func(t *testing.T, p device.Precision) {
		r, err := cpu.Measure(p, 1)
		if err != nil || !(r.FMA > 0.1 && r.Products > 0.1 && r.Read > 0.1) {
			t.Fatalf("%+v, %v", r, err)
		}
		if p == device.FP32 && r.Products != r.FMA {
			t.Errorf("fp32 products at %g GFLOP/s, multiply-adds at %g", r.Products, r.FMA)
		}
	})
}
