// Package devicetest is the conformance suite of device.Device. A backend passes it
// from a test of its own:
//
//	func TestConformance(t *testing.T) { devicetest.Run(t, open) }
//
// Run checks three things:
//
//   - Correctness: every kernel, on random inputs of odd and of typical sizes, agrees with
//     the float64 reference (device/ref) within a tolerance relative to the largest number
//     of the result. Edge cases, where formulas break down, are compared with known values.
//   - Invariance, as package device promises: results have the same bits on 1, 2 and 3
//     threads, for dense and strided matrices, and for part of the batch.
//   - Bounds: kernels write nothing outside of a view, which lies in a buffer full of NaN,
//     and reject arguments in a storage format that they do not support.
//
// A case is a function that creates inputs with a kit, runs kernels and records
// results. The same function runs on the device under test and on the reference; the
// inputs depend on the case's name and their order only, so that both see the same
// numbers.
package devicetest

import (
	"math"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// Open returns a new device with the given number of threads. The suite closes it.
type Open func(t *testing.T, threads int) device.Device

// fp32Tolerance is the allowed difference from the reference, relative to the largest
// number of a result: 32 roundings of float32.
const fp32Tolerance = 2e-6

// Run is the conformance suite. It opens several devices at a time.
func Run(t *testing.T, open Open) {
	// One device runs most checks, one case after the other, as a training run would:
	// a case must not depend on what cases before it left in the device's scratch.
	one := opened(t, open, 1)
	for _, c := range cases(one.Kind().Precision) {
		t.Run(c.name, func(t *testing.T) {
			compare(t, c.results(t, one, setting{}), c.results(t, ref.New(), setting{}))
		})
	}
	if !testing.Short() { // most of the time
		t.Run("invariance", func(t *testing.T) { invariance(t, one, opened(t, open, 2), opened(t, open, 3)) })
	}
	t.Run("edges", func(t *testing.T) { edges(t, opened(t, open, 2)) })
	t.Run("arguments", func(t *testing.T) { arguments(t, one) })
	t.Run("memory", func(t *testing.T) { memory(t, one) })
}

// opened opens a device that is closed at the end of the test.
func opened(t *testing.T, open Open, threads int) device.Device {
	d := open(t, threads)
	t.Cleanup(func() { d.Close() })
	return d
}

// invariance compares bits: on 1, 2 and 3 threads, with dense and strided matrices,
// and with part of the batch.
func invariance(t *testing.T, one, two, three device.Device) {
	for _, c := range cases(one.Kind().Precision) {
		t.Run(c.name, func(t *testing.T) {
			want := c.results(t, one, setting{})
			same(t, "2 threads", c.results(t, two, setting{}), want)
			same(t, "3 threads, strided", c.results(t, three, setting{strided: true}), want)
			same(t, "part of the batch", c.results(t, two, setting{part: true}), want)
		})
	}
}

// Unchanged runs all cases, calls change, runs them again on the same device and
// checks that the bits are the same. The function that change returns is called after
// each case.
func Unchanged(t *testing.T, d device.Device, change func() (restore func())) {
	for _, c := range cases(d.Kind().Precision) {
		t.Run(c.name, func(t *testing.T) {
			want := c.results(t, d, setting{})
			defer change()()
			same(t, "changed", c.results(t, d, setting{}), want)
		})
	}
}

// Equal checks that two devices compute every case to the same bits.
func Equal(t *testing.T, d, other device.Device) {
	for _, c := range cases(d.Kind().Precision) {
		t.Run(c.name, func(t *testing.T) {
			same(t, "the other device", c.results(t, other, setting{}), c.results(t, d, setting{}))
		})
	}
}

// testCase is a sequence of kernel calls whose inputs come from a kit and whose
// results go to it.
type testCase struct {
	name string
	run  func(k *kit)
}

// setting is how a case is run. strided: matrices are views within larger buffers.
// part: the batch has fewer rows (see kit.batch).
type setting struct{ strided, part bool }

// result is what a kernel wrote. rows: each row depends on its own inputs only, so
// that running part of the batch gives the first rows of the result.
type result struct {
	name   string
	values []float64
	rows   bool
	factor float64 // by which the tolerance is multiplied
}

// kit runs one case on one device: it creates inputs and records results.
type kit struct {
	setting
	device.Device
	t       *testing.T
	name    string   // of the case; keys of random inputs depend on it
	inputs  int      // number of random inputs so far
	results []result // in the order of the kernel calls
	views   []view   // all matrices, for untouched
}

// view is a matrix within a larger buffer, whose other numbers no kernel may write.
type view struct{ m, outer device.Mat }

// results runs the case and returns its results, after checking that no kernel wrote
// outside of its views.
func (c testCase) results(t *testing.T, d device.Device, s setting) []result {
	t.Helper()
	k := &kit{setting: s, Device: d, t: t, name: c.name}
	c.run(k)
	if err := d.Err(); err != nil {
		t.Fatalf("%s on %s: %v", c.name, d.Kind(), err)
	}
	for _, v := range k.views {
		k.untouched(v)
		// Many cases run on one device, so their memory is freed early.
		d.Free(v.outer.Buf)
	}
	return k.results
}

// batch returns n, or two thirds of it if part of the batch is run.
func (k *kit) batch(n int) int {
	if k.part {
		return max(1, n*2/3)
	}
	return n
}

// margin sets the surroundings of a strided view: its buffer has margin more rows and
// 2*margin more columns.
const margin = 3 // rows and columns around a strided view

// mat returns a rows x cols matrix of the numbers f(r, c), rounded to float32 so that
// the device and the reference start from the same numbers.
func (k *kit) mat(rows, cols int, f func(r, c int) float64) device.Mat {
	return k.matIn(device.NewMat, rows, cols, f)
}

// matIn is mat in memory from alloc.
func (k *kit) matIn(alloc func(d device.Device, rows, cols int) device.Mat, rows, cols int, f func(r, c int) float64) device.Mat {
	outer := alloc(k.Device, rows, cols)
	m := outer
	if k.strided {
		outer = alloc(k.Device, rows+margin, cols+2*margin)
		// One row above the view, the others below; columns on both sides, not
		// equally many, so that the view's address has no special alignment.
		m = outer.RowRange(1, rows).Columns(margin-1, cols)
		// If a kernel reads outside of the view, NaN spreads to its result.
		nans := make([]float64, outer.Len())
		for i := range nans {
			nans[i] = math.NaN()
		}
		k.Upload64(outer, nans)
	}
	values := make([]float64, 0, rows*cols)
	for r := range rows {
		for c := range cols {
			values = append(values, float64(float32(f(r, c))))
		}
	}
	k.Upload64(m, values)
	k.views = append(k.views, view{m, outer})
	return m
}

// untouched checks that a view's surroundings are still NaN.
func (k *kit) untouched(v view) {
	k.t.Helper()
	if v.m.Len() == v.outer.Len() {
		return
	}
	all := make([]float64, v.outer.Len())
	k.Download64(all, v.outer)
	for i, x := range all {
		r, c := i/v.outer.Cols-1, i%v.outer.Cols-(margin-1)
		inside := r >= 0 && r < v.m.Rows && c >= 0 && c < v.m.Cols
		if !inside && !math.IsNaN(x) {
			k.t.Errorf("%s: wrote %g outside of a view, at row %d, column %d of %s", k.name, x, r, c, v.m)
			return
		}
	}
}

// number returns a random number for position (r, c), with standard deviation 1: the
// sum of three uniforms of 21 bits from a hash (the finaliser of SplitMix64). It
// takes a tenth of the time of the program's random streams.
func number(key uint64, r, c int) float32 {
	x := key + (uint64(r)<<32|uint64(c))*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	const low = 1<<21 - 1
	return float32(x&low+x>>21&low+x>>42&low)*0x1p-20 - 3
}

// key returns the key of the next random input of the case.
func (k *kit) key() uint64 {
	k.inputs++
	return rng.Key("devicetest", k.name, k.inputs)
}

// in returns a matrix of random numbers. They depend on the case, on the number of
// inputs before and on the position, not on the shape, so that part of a batch has
// the first rows of the entire batch.
func (k *kit) in(rows, cols int) device.Mat {
	key := k.key()
	return k.mat(rows, cols, func(r, c int) float64 { return float64(number(key, r, c)) })
}

// short is in with numbers that bf16 represents exactly, so that GEMMs of every
// precision can be compared within the same tolerance.
func (k *kit) short(rows, cols int) device.Mat {
	key := k.key()
	return k.mat(rows, cols, func(r, c int) float64 { return shorten(number(key, r, c)) })
}

// shorten cuts x to the bits of bf16.
func shorten(x float32) float64 {
	return float64(math.Float32frombits(math.Float32bits(x) & 0xffff0000))
}

// bf16 is short in the device's storage format for activations, bf16Out is out in
// that format.
func (k *kit) bf16(rows, cols int) device.Mat {
	m := k.matIn(device.NewActivations, rows, cols, func(int, int) float64 { return 0 })
	values := k.values(k.short(rows, cols))
	k.Upload64(m, values)
	return m
}

func (k *kit) bf16Out(rows, cols int) device.Mat {
	return k.matIn(device.NewActivations, rows, cols, func(int, int) float64 { return math.NaN() })
}

// out returns a matrix for results. It is full of NaN, so that elements that are not
// written show.
func (k *kit) out(rows, cols int) device.Mat {
	return k.mat(rows, cols, func(int, int) float64 { return math.NaN() })
}

// zero returns a matrix of zeros.
func (k *kit) zero(rows, cols int) device.Mat {
	return k.mat(rows, cols, func(int, int) float64 { return 0 })
}

// ints returns n random integers in [0, below).
func (k *kit) ints(n, below int) device.Ints {
	key := k.key()
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(rng.Philox(key, uint64(i))[0] % uint32(below))
	}
	return device.NewInts(k, list)
}

// keep records the contents of m as a result. rows is explained at type result.
func (k *kit) keep(name string, m device.Mat, rows bool, factor float64) {
	values := make([]float64, m.Len())
	k.Download64(values, m)
	k.results = append(k.results, result{name, values, rows, factor})
}

// rows records a result of which each row depends on its own inputs only; all records
// one that depends on all inputs.
func (k *kit) rows(name string, m device.Mat) { k.keep(name, m, true, 1) }
func (k *kit) all(name string, m device.Mat)  { k.keep(name, m, false, 1) }

// compare checks results against the reference. NaN equals NaN. The tolerance is
// relative to the largest finite number of the result, since sums that cancel have no
// relative accuracy.
func compare(t *testing.T, got, want []result) {
	t.Helper()
	for i, w := range want {
		var size float64
		for _, v := range w.values {
			if !math.IsInf(v, 0) && !math.IsNaN(v) {
				size = max(size, math.Abs(v))
			}
		}
		for j, v := range w.values {
			g := got[i].values[j]
			if g == v || math.IsNaN(g) && math.IsNaN(v) {
				continue
			}
			// The comparison is negated so that a NaN fails.
			if d, allowed := math.Abs(g-v), fp32Tolerance*w.factor*size; !(d <= allowed) {
				t.Errorf("%s[%d] = %g, reference %g (difference %.2g of %.3g allowed)", w.name, j, g, v, d, allowed)
				break
			}
		}
	}
}

// same compares bits. If a case was run on part of the batch, results with fewer
// numbers are compared with the first rows, and results that depend on all rows are
// skipped.
func same(t *testing.T, how string, got, want []result) {
	t.Helper()
	for i, g := range got {
		w := want[i]
		if len(g.values) != len(w.values) && !w.rows {
			continue
		}
		for j, v := range g.values {
			if math.Float64bits(v) != math.Float64bits(w.values[j]) && !(math.IsNaN(v) && math.IsNaN(w.values[j])) {
				// A sum over fewer rows of the batch is another number.
				if how == "part of the batch" && !w.rows {
					break
				}
				t.Errorf("%s: %s[%d] = %g, alone and on one thread %g", how, w.name, j, v, w.values[j])
				break
			}
		}
	}
}
