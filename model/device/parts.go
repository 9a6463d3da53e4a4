package device

// TokensByParts is Pointwise.Tokens made of other kernels, for a backend without one of its own.
func TokensByParts(d Device, dst, first, table, rows Mat) {
	n := table.Rows
	d.CopyBlocks(dst.RowRange(1, dst.Rows-1), n, rows, n-1, n-1, false)
	d.CopyBlocks(dst, n, first, 0, 1, false)
	d.CopyBlocks(dst, n, table, 0, n, true)
}
