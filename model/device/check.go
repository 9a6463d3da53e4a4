package device

import "fmt"

// Checked is d with every argument looked at before its kernel runs: shapes
// that fit, views that stay inside their buffers, options in range. Backends
// hand out checked devices, so that their kernels hold no checks and all of
// them refuse the same calls with the same text.
func Checked(d Device) Device { return checked{d} }

type checked struct{ Device }

// inside panics unless every given view lies within its buffer.
func inside(kernel string, ms ...Mat) {
	for _, m := range ms {
		if !m.Given() {
			continue
		}
		last := m.Off + (m.Rows-1)*m.Stride + m.Cols
		if m.Rows < 0 || m.Cols < 0 || m.Off < 0 || (m.Rows > 1 && m.Stride < m.Cols) ||
			(m.Len() > 0 && last > m.Buf.Len()) {
			panic(fmt.Sprintf("device: %s: view %s at %d of a buffer of %d", kernel, m, m.Off, m.Buf.Len()))
		}
	}
}

// need panics unless ok and all are stored as whole numbers; the shapes say why.
func need(ok bool, kernel string, ms ...Mat) {
	for _, m := range ms {
		ok = ok && !m.Half()
	}
	needAny(ok, kernel, ms...)
}

// needAny is need where matrices may be stored as bf16.
func needAny(ok bool, kernel string, ms ...Mat) {
	if ok {
		inside(kernel, ms...)
		return
	}
	text := "device: " + kernel + ": arguments do not fit:"
	for _, m := range ms {
		text += " " + m.String()
	}
	panic(text)
}

// like says whether every m that is given has the shape of want, which must be given.
func like(want Mat, ms ...Mat) bool {
	for _, m := range ms {
		if m.Given() && (m.Rows != want.Rows || m.Cols != want.Cols) {
			return false
		}
	}
	return want.Given()
}

// given says whether all are.
func given(ms ...Mat) bool {
	for _, m := range ms {
		if !m.Given() {
			return false
		}
	}
	return true
}

// shaped says whether every m that is given is rows x cols.
func shaped(rows, cols int, ms ...Mat) bool {
	for _, m := range ms {
		if m.Given() && (m.Rows != rows || m.Cols != cols) {
			return false
		}
	}
	return true
}

func (c checked) Upload(dst Mat, src []float32) {
	needAny(len(src) == dst.Len(), "Upload", dst)
	c.Device.Upload(dst, src)
}

func (c checked) Download(dst []float32, src Mat) {
	needAny(len(dst) == src.Len(), "Download", src)
	c.Device.Download(dst, src)
}

func (c checked) Upload64(dst Mat, src []float64) {
	needAny(len(src) == dst.Len(), "Upload64", dst)
	c.Device.Upload64(dst, src)
}

func (c checked) Download64(dst []float64, src Mat) {
	needAny(len(dst) == src.Len(), "Download64", src)
	c.Device.Download64(dst, src)
}

func (c checked) UploadInts(dst Ints, src []int32) {
	need(len(src) == dst.Len(), "UploadInts")
	c.Device.UploadInts(dst, src)
}

func (c checked) DownloadInts(dst []int32, src Ints) {
	need(len(dst) == src.Len(), "DownloadInts")
	c.Device.DownloadInts(dst, src)
}

func (c checked) UploadBytes(dst Bytes, src []byte) {
	need(len(src) <= dst.Len(), "UploadBytes")
	c.Device.UploadBytes(dst, src)
}

func (c checked) SendBytes(dst Bytes, at int, src []byte) {
	need(at >= 0 && at+len(src) <= dst.Len(), "SendBytes")
	c.Device.SendBytes(dst, at, src)
}

func (c checked) Fill(dst Mat, v float64) {
	need(dst.Given(), "Fill", dst)
	c.Device.Fill(dst, v)
}

func (c checked) Copy(dst, src Mat) {
	need(like(dst, src) && src.Given(), "Copy", dst, src)
	c.Device.Copy(dst, src)
}

func (c checked) CopyBlocks(dst Mat, dstBlock int, src Mat, srcBlock, rows int, add bool) {
	need(given(dst, src) && dst.Cols == src.Cols && rows > 0 && dstBlock >= rows && srcBlock >= 0,
		"CopyBlocks", dst, src)
	c.Device.CopyBlocks(dst, dstBlock, src, srcBlock, rows, add)
}

// Blocks is how many blocks CopyBlocks copies: block i needs rows
// [i*block, i*block+rows) on both sides; srcBlock 0 repeats the same rows.
func Blocks(dst Mat, dstBlock int, src Mat, srcBlock, rows int) int {
	if dst.Rows < rows || src.Rows < rows {
		return 0
	}
	n := (dst.Rows-rows)/dstBlock + 1
	if srcBlock > 0 {
		n = min(n, (src.Rows-rows)/srcBlock+1)
	}
	return n
}

// Dims are M, N and K of a product.
func (op Op) Dims(a, b Mat) (m, n, k int) {
	m, k, n = a.Rows, a.Cols, b.Cols
	if op == TN {
		m, k = a.Cols, a.Rows
	}
	if op == NT {
		n = b.Rows
	}
	return m, n, k
}

func (c checked) Gemm(op Op, dst, a, b Mat, ep Epilogue) {
	m, n, k := op.Dims(a, b)
	inner := b.Rows
	if op == NT {
		inner = b.Cols
	}
	ok := op >= NN && op <= TN && ep.Act >= Identity && ep.Act <= ReLU && given(dst, a, b) && k == inner
	ok = ok && shaped(m, n, dst, ep.Pre, ep.Grad, ep.Gate, ep.Ungated) && shaped(1, n, ep.Scale, ep.Bias) &&
		!(ep.Add && dst.Half()) && ep.Drop.fits() && (!ep.SumA.Given() || op == TN) && shaped(1, m, ep.SumA)
	need(ok, "Gemm", ep.Scale, ep.Bias, ep.Ungated, ep.SumA)
	needAny(ok, "Gemm", dst, a, b, ep.Pre, ep.Grad, ep.Gate)
	c.Device.Gemm(op, dst, a, b, ep)
}

func (c checked) Activate(dst, x Mat, act Act) {
	need(given(x) && like(dst, x) && act >= Identity && act <= ReLU, "Activate", dst, x)
	c.Device.Activate(dst, x, act)
}

func (c checked) ActivateGrad(dx, dy, pre Mat, act Act) {
	need(given(dy, pre) && like(dx, dy, pre) && act >= Identity && act <= ReLU, "ActivateGrad", dx, dy, pre)
	c.Device.ActivateGrad(dx, dy, pre, act)
}

func (c checked) Axpy(dst Mat, alpha float64, x Mat) {
	need(given(x) && like(dst, x), "Axpy", dst, x)
	c.Device.Axpy(dst, alpha, x)
}

func (c checked) GateGrad(dy, dgate, dout, gate, y Mat) {
	need(given(dgate, dout, gate, y) && like(dy, dgate, dout, gate, y), "GateGrad", dy, dgate, dout, gate, y)
	c.Device.GateGrad(dy, dgate, dout, gate, y)
}

func (c checked) ModulateGrad(dx, dscale, dshift, dy, x, scale Mat) {
	need(given(dscale, dshift, dy, x, scale) && like(dx, dscale, dshift, dy, x, scale),
		"ModulateGrad", dx, dscale, dshift, dy, x, scale)
	c.Device.ModulateGrad(dx, dscale, dshift, dy, x, scale)
}

func (c checked) Tokens(dst, first, table, rows Mat) {
	n := table.Rows
	need(given(dst, first, table, rows) && n > 1 && dst.Rows%n == 0 && rows.Rows == dst.Rows/n*(n-1) && first.Rows == 1 &&
		first.Cols == dst.Cols && table.Cols == dst.Cols && rows.Cols == dst.Cols, "Tokens", dst, first, table, rows)
	c.Device.Tokens(dst, first, table, rows)
}

func (c checked) AddRepeated(dst, a, b Mat) {
	fills := func(m Mat) bool { return m.Rows > 0 && m.Cols == dst.Cols && dst.Rows%m.Rows == 0 }
	need(given(dst, a, b) && fills(a) && fills(b), "AddRepeated", dst, a, b)
	c.Device.AddRepeated(dst, a, b)
}

func (c checked) SumTable(table, src Mat) {
	needAny(given(table, src) && src.Cols == table.Cols && table.Rows > 0 && !table.Half(), "SumTable", table, src)
	c.Device.SumTable(table, src)
}

func (c checked) DropoutApply(dst, x Mat, d Dropout) {
	needAny(given(x) && like(dst, x) && d.fits(), "DropoutApply", dst, x)
	c.Device.DropoutApply(dst, x, d)
}

func (d Dropout) fits() bool { return d.P >= 0 && d.P < 1 }

func (c checked) NormalizeColumns(dst, src Mat) {
	need(given(src) && like(dst, src), "NormalizeColumns", dst, src)
	c.Device.NormalizeColumns(dst, src)
}
