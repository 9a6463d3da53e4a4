package cuda

import "scalewm/model/device"

// tileMost is the shared memory that a block has without giving up neighbours on its multiprocessor.
const tileMost = 48 << 10

func (e *engine) Patches(dst device.Mat, px device.Bytes, f device.Frames) {
	args := patchArgs{dst: view(dst), px: px.(*bytes).p, frames: int64(px.Len() / f.Bytes()), size: int64(f.Size), patch: int64(f.Patch)}
	if f.List != nil {
		args.list, args.fault = e.indices(f.List), e.fault.p
	}
	for ch := range 3 {
		args.scale[ch] = 1 / (255 * f.Std[ch])
		args.shift[ch] = -f.Mean[ch] / f.Std[ch]
	}
	if shared, ok := strips(dst, f); ok {
		launch(e, kPatchesBF16, f.Count*(f.Size/f.Patch), threads, shared, &args)
		return
	}
	launch(e, kPatches, dst.Rows, threads, 0, &args)
}

// strips says whether patches_bf16 can cut the frames, and the shared memory that it wants.
func strips(dst device.Mat, f device.Frames) (shared int, ok bool) {
	shared = f.Size / f.Patch * ceil(dst.Cols, 8) * 16
	return shared, dst.BF16() && f.Patch%2 == 0 && f.Size%4 == 0 && dst.Off%8 == 0 && dst.Stride%8 == 0 && shared <= tileMost
}
