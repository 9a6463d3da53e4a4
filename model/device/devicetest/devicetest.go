// Package devicetest holds every backend to the reference: the same kernels on
// the same random inputs, in odd sizes, on dense and strided matrices; and to
// the contract's promise that results depend neither on the number of threads
// nor on what else is computed at the same time.
package devicetest

import (
	"math"
	"testing"

	"scalewm/dataset/rng"
	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// Open makes a device with so many threads.
type Open func(t *testing.T, threads int) device.Device

// fp32Tolerance is the allowed difference from the reference, relative to the
// largest number of a result: 32 roundings of float32.
const fp32Tolerance = 2e-6

// Run is the conformance suite.
func Run(t *testing.T, open Open) {
	one := opened(t, open, 1)
	for _, c := range cases(one.Kind().Precision) {
		t.Run(c.name, func(t *testing.T) {
			compare(t, c.results(t, one, setting{}), c.results(t, ref.New(), setting{}))
		})
	}
	t.Run("invariance", func(t *testing.T) { invariance(t, one, opened(t, open, 2), opened(t, open, 3)) })
	t.Run("edges", func(t *testing.T) { edges(t, opened(t, open, 2)) })
	t.Run("arguments", func(t *testing.T) { arguments(t, one) })
	t.Run("memory", func(t *testing.T) { memory(t, one) })
}

func opened(t *testing.T, open Open, threads int) device.Device {
	d := open(t, threads)
	t.Cleanup(func() { d.Close() })
	return d
}

// invariance compares bits: 1, 2 and 3 threads, strided or not, part of the batch alone.
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

// Unchanged compares bits: all cases as they are and, on the same device, after change, until what that returns is called.
func Unchanged(t *testing.T, d device.Device, change func() (restore func())) {
	for _, c := range cases(d.Kind().Precision) {
		t.Run(c.name, func(t *testing.T) {
			want := c.results(t, d, setting{})
			defer change()()
			same(t, "changed", c.results(t, d, setting{}), want)
		})
	}
}

// A testCase runs kernels on inputs of the kit's and shows their results to it.
type testCase struct {
	name string
	run  func(k *kit)
}

// setting is how a case is run. part: with fewer rows; kit.batch says how many.
type setting struct{ strided, part bool }

// result is what a kernel wrote. rows: each row depends on its own inputs only,
// so that running part of the batch gives the first of them.
type result struct {
	name   string
	values []float64
	rows   bool
	factor float64 // of the tolerance
}

type kit struct {
	setting
	device.Device
	t       *testing.T
	name    string
	inputs  int
	results []result
	views   []view
}

// view is a matrix within a larger buffer, whose other numbers nobody may touch.
type view struct{ m, whole device.Mat }

func (c testCase) results(t *testing.T, d device.Device, s setting) []result {
	t.Helper()
	k := &kit{setting: s, Device: d, t: t, name: c.name}
	c.run(k)
	if err := d.Err(); err != nil {
		t.Fatalf("%s on %s: %v", c.name, d.Kind(), err)
	}
	for _, v := range k.views {
		k.untouched(v)
		d.Free(v.whole.Buf)
	}
	return k.results
}

// batch is n, or less where only a part is run.
func (k *kit) batch(n int) int {
	if k.part {
		return max(1, n*2/3)
	}
	return n
}

const margin = 3 // rows and columns around a strided view

// mat is a rows x cols matrix of f.
func (k *kit) mat(rows, cols int, f func(r, c int) float64) device.Mat {
	return k.matIn(device.NewMat, rows, cols, f)
}

// matIn is mat in memory that alloc gets.
func (k *kit) matIn(alloc func(d device.Device, rows, cols int) device.Mat, rows, cols int, f func(r, c int) float64) device.Mat {
	whole := alloc(k.Device, rows, cols)
	m := whole
	if k.strided {
		whole = alloc(k.Device, rows+margin, cols+2*margin)
		m = whole.RowRange(1, rows).Columns(margin-1, cols)
		nans := make([]float64, whole.Len())
		for i := range nans {
			nans[i] = math.NaN()
		}
		k.Upload64(whole, nans)
	}
	values := make([]float64, 0, rows*cols)
	for r := range rows {
		for c := range cols {
			values = append(values, float64(float32(f(r, c))))
		}
	}
	k.Upload64(m, values)
	k.views = append(k.views, view{m, whole})
	return m
}

// untouched checks that the surroundings of a view are still NaN.
func (k *kit) untouched(v view) {
	k.t.Helper()
	if v.m.Len() == v.whole.Len() {
		return
	}
	all := make([]float64, v.whole.Len())
	k.Download64(all, v.whole)
	for i, x := range all {
		r, c := i/v.whole.Cols-1, i%v.whole.Cols-(margin-1)
		inside := r >= 0 && r < v.m.Rows && c >= 0 && c < v.m.Cols
		if !inside && !math.IsNaN(x) {
			k.t.Errorf("%s: wrote %g outside of a view, at row %d, column %d of %s", k.name, x, r, c, v.m)
			return
		}
	}
}

// number is a random number of a place, with deviation 1: the sum of three
// uniforms of 21 bits from a mixed hash (the finaliser of SplitMix64), which
// takes a tenth of the time of the program's own streams.
func number(key uint64, r, c int) float32 {
	x := key + (uint64(r)<<32|uint64(c))*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	const low = 1<<21 - 1
	return float32(x&low+x>>21&low+x>>42&low)*0x1p-20 - 3
}

func (k *kit) key() uint64 {
	k.inputs++
	return rng.Key("devicetest", k.name, k.inputs)
}

// in is a matrix of random numbers. They depend on the case, on how many
// matrices were made before and on their place, not on the shape.
func (k *kit) in(rows, cols int) device.Mat {
	key := k.key()
	return k.mat(rows, cols, func(r, c int) float64 { return float64(number(key, r, c)) })
}

// short is in with numbers that bf16 holds exactly, so that products of every
// precision can be compared closely.
func (k *kit) short(rows, cols int) device.Mat {
	key := k.key()
	return k.mat(rows, cols, func(r, c int) float64 {
		return float64(math.Float32frombits(math.Float32bits(number(key, r, c)) & 0xffff0000))
	})
}

// bf16 is short as the device stores activations, bf16Out is out so stored.
func (k *kit) bf16(rows, cols int) device.Mat {
	m := k.matIn(device.NewActivations, rows, cols, func(int, int) float64 { return 0 })
	values := k.values(k.short(rows, cols))
	k.Upload64(m, values)
	return m
}

func (k *kit) bf16Out(rows, cols int) device.Mat {
	return k.matIn(device.NewActivations, rows, cols, func(int, int) float64 { return math.NaN() })
}

// out is a matrix for results, full of NaN so that what is not written shows.
func (k *kit) out(rows, cols int) device.Mat {
	return k.mat(rows, cols, func(int, int) float64 { return math.NaN() })
}

func (k *kit) zero(rows, cols int) device.Mat {
	return k.mat(rows, cols, func(int, int) float64 { return 0 })
}

// ints are numbers from [0, below).
func (k *kit) ints(n, below int) device.Ints {
	key := k.key()
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(rng.Philox(key, uint64(i))[0] % uint32(below))
	}
	return device.NewInts(k, list)
}

func (k *kit) keep(name string, m device.Mat, rows bool, factor float64) {
	values := make([]float64, m.Len())
	k.Download64(values, m)
	k.results = append(k.results, result{name, values, rows, factor})
}

// rows shows a result of which each row depends on its own inputs only, all one that depends on all.
func (k *kit) rows(name string, m device.Mat) { k.keep(name, m, true, 1) }
func (k *kit) all(name string, m device.Mat)  { k.keep(name, m, false, 1) }

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
			if d, allowed := math.Abs(g-v), fp32Tolerance*w.factor*size; !(d <= allowed) {
				t.Errorf("%s[%d] = %g, reference %g (difference %.2g of %.3g allowed)", w.name, j, g, v, d, allowed)
				break
			}
		}
	}
}

// same compares bits. Where got has fewer numbers, they are the first rows.
func same(t *testing.T, how string, got, want []result) {
	t.Helper()
	for i, g := range got {
		w := want[i]
		if len(g.values) != len(w.values) && !w.rows {
			continue
		}
		for j, v := range g.values {
			if math.Float64bits(v) != math.Float64bits(w.values[j]) && !(math.IsNaN(v) && math.IsNaN(w.values[j])) {
				if how == "part of the batch" && !w.rows {
					break
				}
				t.Errorf("%s: %s[%d] = %g, alone and on one thread %g", how, w.name, j, v, w.values[j])
				break
			}
		}
	}
}
