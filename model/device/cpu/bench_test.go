package cpu_test

import (
	"fmt"
	"syscall"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// products are GEMMs of the small and nano models, M x N x K: forward passes (NT),
// gradients of inputs (NN) and of weights (TN).
var products = []struct {
	op      device.Op
	m, n, k int
}{
	{device.NT, 8320, 768, 192}, {device.NT, 8320, 192, 768}, {device.NT, 8320, 576, 192},
	{device.NN, 8320, 192, 768}, {device.TN, 768, 192, 8320}, {device.TN, 192, 768, 8320},
	{device.NT, 4352, 384, 96}, {device.NT, 4352, 96, 384}, {device.NT, 4352, 96, 96},
	{device.TN, 96, 384, 4352}, {device.TN, 96, 96, 4352}, {device.NT, 256, 48, 96}, {device.NT, 900, 3072, 192},
}

// BenchmarkGemm reports the share of one thread's measured peak.
func BenchmarkGemm(b *testing.B) {
	ops := []string{"NN", "NT", "TN"}
	for _, p := range []device.Precision{device.FP32, device.BF16} {
		for _, s := range products {
			b.Run(fmt.Sprintf("%s/%s/%dx%dx%d", p, ops[s.op], s.m, s.n, s.k), func(b *testing.B) {
				d := benchDevice(b, p)
				shape := map[device.Op][4]int{
					device.NN: {s.m, s.k, s.k, s.n}, device.NT: {s.m, s.k, s.n, s.k}, device.TN: {s.k, s.m, s.k, s.n},
				}[s.op]
				x, y := activations(d, shape[0], shape[1]), randomMat(d, shape[2], shape[3])
				if s.op == device.TN {
					y = activations(d, shape[2], shape[3])
				}
				dst := device.NewMat(d, s.m, s.n)
				begin := busy()
				for b.Loop() {
					d.Gemm(s.op, dst, x, y, device.Epilogue{})
				}
				flops := 2 * float64(s.m) * float64(s.n) * float64(s.k) * float64(b.N)
				reportRate(b, p, begin, flops)
			})
		}
	}
}

// BenchmarkEpilogue reports the share of one thread's measured peak that the GEMMs of
// an MLP reach with their epilogues.
func BenchmarkEpilogue(b *testing.B) {
	for _, p := range []device.Precision{device.FP32, device.BF16} {
		d := benchDevice(b, p)
		mats := func(m, n, k int) (dst, x, w device.Mat) {
			return device.NewActivations(d, m, n), activations(d, m, k), randomMat(d, n, k)
		}
		run := func(name string, op device.Op, m, n, k int, ep device.Epilogue) {
			b.Run(fmt.Sprintf("%s/%s/%dx%dx%d", p, name, m, n, k), func(b *testing.B) {
				dst, x, w := mats(m, n, k)
				if op == device.NN {
					w = randomMat(d, k, n)
				}
				begin := busy()
				for b.Loop() {
					d.Gemm(op, dst, x, w, ep)
				}
				reportRate(b, p, begin, 2*float64(m)*float64(n)*float64(k)*float64(b.N))
			})
		}
		bias := randomMat(d, 1, 768)
		run("bias", device.NT, 8320, 768, 192, device.Epilogue{Bias: bias})
		run("GELU", device.NT, 8320, 768, 192, device.Epilogue{Bias: bias, Act: device.GELU, Pre: device.NewActivations(d, 8320, 768)})
		run("GELUGrad", device.NN, 8320, 768, 192, device.Epilogue{Act: device.GELU, Grad: activations(d, 8320, 768)})
		run("plan", device.NT, 300, 2048, 192, device.Epilogue{Bias: randomMat(d, 1, 2048), Act: device.GELU})
	}
}

func benchDevice(b *testing.B, p device.Precision) device.Device {
	d, err := cpu.New(cpu.Options{Precision: p, Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	return d
}

func randomMat(d device.Device, rows, cols int) device.Mat {
	m := device.NewMat(d, rows, cols)
	d.Normal(m, []uint64{uint64(rows*cols + 1)}, 0)
	return m
}

// activations is randomMat in the storage format of activations.
func activations(d device.Device, rows, cols int) device.Mat {
	from := randomMat(d, rows, cols)
	values := make([]float32, from.Len())
	d.Download(values, from)
	m := device.NewActivations(d, rows, cols)
	d.Upload(m, values)
	d.Free(from.Buf)
	return m
}

// busy returns the processor time that this process has used, in nanoseconds. Unlike
// wall time it excludes other programs' time slices.
func busy() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(syscall.TimevalToNsec(u.Utime) + syscall.TimevalToNsec(u.Stime))
}

// reportRate relates the work done since `begin` to the machine's peak, measured
// right afterwards, and reports the peak rates, which show whether the machine was
// disturbed.
func reportRate(b *testing.B, p device.Precision, begin, flops float64) {
	rate := flops / (busy() - begin)
	machine, err := cpu.Measure(p, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(rate, "GFLOP/s")
	b.ReportMetric(rate/machine.Products, "of-peak")
	b.ReportMetric(machine.FMA, "fma-GFLOP/s")
	b.ReportMetric(machine.Read, "read-GB/s")
}

// BenchmarkAttention reports the share of the peak, counting only matrix products:
// two of q k^T's size in the forward pass and five in the backward pass.
func BenchmarkAttention(b *testing.B) {
	for _, p := range []device.Precision{device.FP32, device.BF16} {
		for _, h := range []device.Heads{
			{Seqs: 128, Len: 65, Heads: 3, Dim: 64}, {Seqs: 256, Len: 17, Heads: 3, Dim: 32}, {Seqs: 300, Len: 3, Heads: 16, Dim: 64, Block: 1},
		} {
			d := benchDevice(b, p)
			inner := h.Heads * h.Dim
			qkv, dqkv := activations(d, h.Seqs*h.Len, 3*inner), activations(d, h.Seqs*h.Len, 3*inner)
			out, dout, lse := activations(d, h.Seqs*h.Len, inner), activations(d, h.Seqs*h.Len, inner), randomMat(d, h.Seqs*h.Heads, h.Len)
			q, k, v := qkv.Columns(0, inner), qkv.Columns(inner, inner), qkv.Columns(2*inner, inner)
			pair := 2 * float64(h.Seqs*h.Heads*h.Len*h.Len*h.Dim)
			b.Run(fmt.Sprintf("%s/forward/%dx%dx%d", p, h.Len, h.Heads, h.Dim), func(b *testing.B) {
				begin := busy()
				for b.Loop() {
					d.Attention(out, lse, q, k, v, h)
				}
				reportRate(b, p, begin, 2*pair*float64(b.N))
			})
			b.Run(fmt.Sprintf("%s/backward/%dx%dx%d", p, h.Len, h.Heads, h.Dim), func(b *testing.B) {
				begin := busy()
				for b.Loop() {
					d.AttentionGrad(dqkv.Columns(0, inner), dqkv.Columns(inner, inner), dqkv.Columns(2*inner, inner), dout, lse, q, k, v, h)
				}
				reportRate(b, p, begin, 5*pair*float64(b.N))
			})
		}
	}
}

// BenchmarkOthers reports the time of other kernels relative to a copy of the same
// matrix.
func BenchmarkOthers(b *testing.B) {
	const rows, cols = 8320, 192
	d := benchDevice(b, device.FP32)
	x, y, z, g := randomMat(d, rows, cols), randomMat(d, rows, cols), randomMat(d, rows, cols), randomMat(d, rows, cols)
	one, two, rstd, loss := randomMat(d, 1, cols), randomMat(d, 1, cols), randomMat(d, rows, 1), device.NewMat(d, 1, 1)
	u, du := randomMat(d, 512, 1024), randomMat(d, 512, 1024)
	bn := device.BatchNorm{Gamma: one, Beta: two, Mean: randomMat(d, 1, cols), Var: randomMat(d, 1, cols), Momentum: 0.1, Eps: 1e-5}
	var none device.Mat
	list := []struct {
		name string
		run  func()
	}{
		{"Copy", func() { d.Copy(y, x) }},
		{"LayerNorm", func() { d.LayerNorm(y, z, rstd, x, one, two, 1e-5) }},
		{"LayerNormGrad", func() { d.LayerNormGrad(y, one, two, g, z, rstd, one, true) }},
		{"BatchNorm", func() { d.BatchNorm(y, z, one, x, bn) }},
		{"GELU", func() { d.Activate(y, x, device.GELU) }},
		{"GELUGrad", func() { d.ActivateGrad(y, g, x, device.GELU) }},
		{"Dropout", func() { d.DropoutApply(y, x, device.Dropout{P: 0.1, Key: 1}) }},
		{"Normal", func() { d.Normal(y, []uint64{1}, 0) }},
		{"SumTable", func() { d.SumTable(one, x) }},
		{"MSE", func() { d.MSE(loss, y, none, x, g, 1) }},
		{"SIGReg", func() { d.SIGReg(loss, du, u, 4, 1) }},
		{"AdamW", func() {
			d.AdamW(x.Reshape(1, rows*cols), g.Reshape(1, rows*cols), y.Reshape(1, rows*cols), z.Reshape(1, rows*cols), loss,
				device.AdamW{LR: 1e-9, Beta1: 0.9, Beta2: 0.99, Eps: 1, Step: 1})
		}},
	}
	var copying float64 // time of Copy, the unit of the others
	for _, l := range list {
		b.Run(l.name, func(b *testing.B) {
			begin := busy()
			for b.Loop() {
				l.run()
			}
			each := (busy() - begin) / float64(b.N)
			if l.name == "Copy" {
				copying = each
			}
			b.ReportMetric(each/1e3, "busy-us")
			b.ReportMetric(each/copying, "copies")
		})
	}
}
