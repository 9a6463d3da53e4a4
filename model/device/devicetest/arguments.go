package devicetest

import (
	"fmt"
	"strings"
	"testing"

	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// call is a call of a kernel: the shapes of its matrices, in the order of
// device.Arguments, and a function that calls it with such matrices.
type call struct {
	shapes [][2]int
	run    func(d device.Device, m []device.Mat)
}

// shapesOf parses "4x5 1x5 ...".
func shapesOf(list string) (out [][2]int) {
	for _, f := range strings.Fields(list) {
		var s [2]int
		fmt.Sscanf(f, "%dx%d", &s[0], &s[1])
		out = append(out, s)
	}
	return out
}

// calls returns one call of every kernel that takes matrices, with all optional
// matrices given.
func calls() map[string]call {
	heads := device.Heads{Seqs: 2, Len: 3, Heads: 2, Dim: 4, Block: 1}
	frames := device.Frames{Count: 2, Size: 4, Patch: 2, Std: [3]float64{1, 1, 1}}
	bn := func(m []device.Mat) device.BatchNorm {
		return device.BatchNorm{Gamma: m[0], Beta: m[1], Mean: m[2], Var: m[3], Momentum: 0.1, Eps: 1e-5}
	}
	list := map[string]call{}
	// Index lists are not in the table of arguments: run allocates them, and they are
	// all zero, a valid index everywhere.
	add := func(kernel, shapes string, run func(d device.Device, m []device.Mat)) {
		list[kernel] = call{shapesOf(shapes), run}
	}
	add("Upload", "4x5", func(d device.Device, m []device.Mat) { d.Upload(m[0], make([]float32, 20)) })
	add("Upload64", "4x5", func(d device.Device, m []device.Mat) { d.Upload64(m[0], make([]float64, 20)) })
	add("Download", "4x5", func(d device.Device, m []device.Mat) { d.Download(make([]float32, 20), m[0]) })
	add("Download64", "4x5", func(d device.Device, m []device.Mat) { d.Download64(make([]float64, 20), m[0]) })
	add("Fill", "4x5", func(d device.Device, m []device.Mat) { d.Fill(m[0], 2) })
	add("Copy", "4x5 4x5", func(d device.Device, m []device.Mat) { d.Copy(m[0], m[1]) })
	add("CopyBlocks", "6x5 4x5", func(d device.Device, m []device.Mat) { d.CopyBlocks(m[0], 3, m[1], 2, 2, true) })
	// TN, since only TN accepts SumA.
	add("Gemm", "4x5 6x4 6x5 1x5 1x5 4x5 4x5 4x5 4x5 1x4", func(d device.Device, m []device.Mat) {
		d.Gemm(device.TN, m[0], m[1], m[2], device.Epilogue{Scale: m[3], Bias: m[4], Pre: m[5], Grad: m[6], Act: device.GELU,
			Gate: m[7], Ungated: m[8], SumA: m[9]})
	})
	add("Activate", "4x5 4x5", func(d device.Device, m []device.Mat) { d.Activate(m[0], m[1], device.GELU) })
	add("ActivateGrad", "4x5 4x5 4x5", func(d device.Device, m []device.Mat) { d.ActivateGrad(m[0], m[1], m[2], device.GELU) })
	add("Axpy", "4x5 4x5", func(d device.Device, m []device.Mat) { d.Axpy(m[0], 2, m[1]) })
	add("Lerp", "4x5 4x5", func(d device.Device, m []device.Mat) { d.Lerp(m[0], m[1], 0.5) })
	add("GateGrad", "4x5 4x5 4x5 4x5 4x5", func(d device.Device, m []device.Mat) { d.GateGrad(m[0], m[1], m[2], m[3], m[4]) })
	add("ModulateGrad", "4x5 4x5 4x5 4x5 4x5 4x5", func(d device.Device, m []device.Mat) { d.ModulateGrad(m[0], m[1], m[2], m[3], m[4], m[5]) })
	add("Tokens", "6x5 1x5 3x5 4x5", func(d device.Device, m []device.Mat) { d.Tokens(m[0], m[1], m[2], m[3]) })
	add("AddRepeated", "6x5 2x5 3x5", func(d device.Device, m []device.Mat) { d.AddRepeated(m[0], m[1], m[2]) })
	add("SumTable", "2x5 6x5", func(d device.Device, m []device.Mat) { d.SumTable(m[0], m[1]) })
	add("DropoutApply", "4x5 4x5", func(d device.Device, m []device.Mat) { d.DropoutApply(m[0], m[1], device.Dropout{P: 0.5, Key: 3}) })
	add("NormalizeColumns", "4x5 4x5", func(d device.Device, m []device.Mat) { d.NormalizeColumns(m[0], m[1]) })
	add("LayerNorm", "4x5 4x5 4x1 4x5 1x5 1x5", func(d device.Device, m []device.Mat) { d.LayerNorm(m[0], m[1], m[2], m[3], m[4], m[5], 1e-5) })
	add("AdaLN", "4x5 4x5 4x5 4x5 1x5 1x5 4x5 4x1 4x5 4x1", func(d device.Device, m []device.Mat) {
		d.AdaLN(m[0], m[1], device.AdaLN{Scale: m[2], Shift: m[3], Gamma: m[4], Beta: m[5], OuterEps: 1e-6, InnerEps: 1e-5,
			Outer: m[6], OuterInv: m[7], Inner: m[8], InnerInv: m[9]})
	})
	add("LayerNormGrad", "4x5 1x5 1x5 4x5 4x5 4x1 1x5", func(d device.Device, m []device.Mat) {
		d.LayerNormGrad(m[0], m[1], m[2], m[3], m[4], m[5], m[6], true)
	})
	add("BatchNorm", "4x5 4x5 1x5 4x5 1x5 1x5 1x5 1x5", func(d device.Device, m []device.Mat) { d.BatchNorm(m[0], m[1], m[2], m[3], bn(m[4:])) })
	add("BatchNormEval", "4x5 4x5 1x5 1x5 1x5 1x5", func(d device.Device, m []device.Mat) { d.BatchNormEval(m[0], m[1], bn(m[2:])) })
	add("BatchNormGrad", "4x5 1x5 1x5 4x5 4x5 1x5 1x5", func(d device.Device, m []device.Mat) {
		d.BatchNormGrad(m[0], m[1], m[2], m[3], m[4], m[5], m[6])
	})
	add("Attention", "6x8 4x3 6x8 6x8 6x8", func(d device.Device, m []device.Mat) { d.Attention(m[0], m[1], m[2], m[3], m[4], heads) })
	add("AttentionGrad", "6x8 6x8 6x8 6x8 4x3 6x8 6x8 6x8", func(d device.Device, m []device.Mat) {
		d.AttentionGrad(m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], heads)
	})
	add("Patches", "8x12", func(d device.Device, m []device.Mat) {
		px := d.AllocBytes(frames.Count * frames.Bytes())
		d.UploadBytes(px, []byte(strings.Repeat("\x03\x60\xff", frames.Count*16)))
		d.Patches(m[0], px, frames)
	})
	add("MSE", "1x1 4x5 4x5 4x5 4x5", func(d device.Device, m []device.Mat) { d.MSE(m[0], m[1], m[2], m[3], m[4], 1) })
	add("SIGReg", "1x1 4x5 4x5", func(d device.Device, m []device.Mat) { d.SIGReg(m[0], m[1], m[2], 2, 1) })
	add("PairDistance", "1x3 4x5", func(d device.Device, m []device.Mat) { d.PairDistance(m[0], m[1], d.AllocInts(6)) })
	add("PairDistanceGrad", "4x5 1x3 4x5", func(d device.Device, m []device.Mat) { d.PairDistanceGrad(m[0], m[1], m[2], d.AllocInts(6)) })
	add("Correlation", "1x2 1x5 1x5 1x5", func(d device.Device, m []device.Mat) { d.Correlation(m[0], m[1], m[2], m[3], device.Authors, 1) })
	add("LatentCost", "2x3 6x5 2x5", func(d device.Device, m []device.Mat) { d.LatentCost(m[0], m[1], m[2], true) })
	add("SumSquares", "1x1 4x5", func(d device.Device, m []device.Mat) { d.SumSquares(m[0], m[1]) })
	add("AdamW", "1x5 1x5 1x5 1x5 1x1", func(d device.Device, m []device.Mat) { d.AdamW(m[0], m[1], m[2], m[3], m[4], device.AdamW{Step: 1}) })
	add("Normal", "4x5", func(d device.Device, m []device.Mat) { d.Normal(m[0], []uint64{1, 2}, 0) })
	add("Color", "4x6 4x6 1x3", func(d device.Device, m []device.Mat) { d.Color(m[0], m[1], m[2]) })
	add("Candidates", "4x5 2x5 2x5 4x5", func(d device.Device, m []device.Mat) { d.Candidates(m[0], m[1], m[2], m[3]) })
	add("Clip", "4x5 1x5 1x5", func(d device.Device, m []device.Mat) { d.Clip(m[0], m[1], m[2]) })
	add("NaNToInf", "4x5 4x1", func(d device.Device, m []device.Mat) { d.NaNToInf(m[0], m[1]) })
	add("SmallestK", "2x5", func(d device.Device, m []device.Mat) { d.SmallestK(d.AllocInts(4), m[0], 2) })
	add("Moments", "2x5 2x5 6x5", func(d device.Device, m []device.Mat) { d.Moments(m[0], m[1], m[2], d.AllocInts(4), 2) })
	add("Softmin", "2x2 2x3", func(d device.Device, m []device.Mat) { d.Softmin(m[0], m[1], d.AllocInts(4), 1) })
	add("WeightedMean", "2x5 6x5 2x2", func(d device.Device, m []device.Mat) { d.WeightedMean(m[0], m[1], m[2], d.AllocInts(4)) })
	add("Gather", "2x5 6x5", func(d device.Device, m []device.Mat) { d.Gather(m[0], m[1], d.AllocInts(4), 2) })
	return list
}

// fakeBF16 is a buffer of float32 that claims to store bf16. It must be used only
// where the call is rejected, before a kernel looks inside.
type fakeBF16 struct{ device.Buffer }

func (fakeBF16) Elem() device.Elem { return device.BFloat16 }

// zeros returns zero matrices for a call. Those in bf16 claim to store bf16.
func (c call) zeros(d device.Device, bf16 map[int]bool) (list []device.Mat) {
	for i, s := range c.shapes {
		m := device.NewMat(d, s[0], s[1])
		if bf16[i] {
			m.Buf = fakeBF16{m.Buf}
		}
		list = append(list, m)
	}
	return list
}

// arguments checks the table device.Arguments. With an argument stored as bf16 where
// the table allows it, a kernel must compute what the reference does; where the table
// does not allow it, the call must panic. Arguments that must be stored alike
// (Together) are tested together, and must panic alone.
func arguments(t *testing.T, d device.Device) {
	all := calls()
	for kernel, args := range device.Arguments() {
		c, ok := all[kernel]
		if len(args) == 0 {
			continue
		}
		if !ok || len(c.shapes) != len(args) {
			t.Errorf("%s has %d matrices in the table and %d in its test", kernel, len(args), len(c.shapes))
			continue
		}
		c.run(d, c.zeros(d, nil)) // Float32 is always accepted
		// Arguments that must be stored alike are tested as a group.
		together := map[int]bool{}
		for i, a := range args {
			if a.Together {
				together[i] = true
			}
		}
		for i, a := range args {
			alone := map[int]bool{i: true}
			if a.BF16 && !a.Together {
				computed(t, d, kernel, c, alone)
			} else {
				rejected(t, d, kernel, c, alone)
			}
		}
		if len(together) > 0 {
			computed(t, d, kernel, c, together)
		}
	}
}

// computed compares a call with the reference, with the chosen arguments in the
// device's storage format for activations. Inputs are representable in bf16, and the
// tolerance is two units of its last bit, since results may be stored as bf16 too.
func computed(t *testing.T, d device.Device, kernel string, c call, bf16 map[int]bool) {
	t.Helper()
	name := fmt.Sprint(kernel, " with bf16 in ", bf16)
	run := testCase{name, func(k *kit) {
		var list []device.Mat
		// k.short on both devices gives numbers that survive the storage as bf16.
		for i, s := range c.shapes {
			m := k.short(s[0], s[1])
			if bf16[i] {
				stored := k.matIn(device.NewActivations, s[0], s[1], func(int, int) float64 { return 0 })
				k.Upload64(stored, k.values(m))
				m = stored
			}
			list = append(list, m)
		}
		c.run(k.Device, list)
		for i, m := range list {
			// Inputs are recorded too: a kernel must not change them.
			k.keep(fmt.Sprintf("%s: argument %d", name, i), m, false, 2*bf16Factor)
		}
	}}
	compare(t, run.results(t, d, setting{}), run.results(t, ref.New(), setting{}))
}

// rejected checks that a call with the chosen arguments as bf16 panics with the
// kernel's name.
func rejected(t *testing.T, d device.Device, kernel string, c call, bf16 map[int]bool) {
	t.Helper()
	defer func() {
		if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "device: "+kernel+": arguments do not fit") {
			t.Errorf("%s with bf16 in %v: panicked with %q", kernel, bf16, text)
		}
	}()
	c.run(d, c.zeros(d, bf16))
}
