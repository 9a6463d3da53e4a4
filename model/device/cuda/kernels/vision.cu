// vision.cu: uint8 RGB frames to patch rows, columns (channel, y, x).
#include "args.cuh"

// Tones turn a byte into a number, by channel.
struct Tones {
	float scale[3], shift[3];
};

DEVICE Tones tones(const PatchArgs &a) {
	Tones t;
	UNROLL for (int ch = 0; ch < 3; ch++) {
		t.scale[ch] = (float)a.scale[ch];
		t.shift[ch] = (float)a.shift[ch];
	}
	return t;
}

DEVICE float tone(const Tones &t, u32 ch, u32 byte) {
	float scale = ch == 0 ? t.scale[0] : ch == 1 ? t.scale[1] : t.scale[2];
	float shift = ch == 0 ? t.shift[0] : ch == 1 ? t.shift[1] : t.shift[2];
	return fmaf((float)byte, scale, shift);
}

// strip is the lines of a frame that row `down` of its patches is cut from; NULL
// where the list names a frame that is not there.
DEVICE const u8 *strip(const PatchArgs &a, u32 frame, u32 down) {
	i64 at = a.list ? (i64)a.list[frame] : (i64)frame;
	if (at < 0 || at >= a.frames) {
		*a.fault = 1;
		return NULL;
	}
	return a.px + (at * a.size + down * a.patch) * a.size * 3;
}

// A block is a patch of any size, stored in any way.
KERNEL(patches, PatchArgs, THREADS) {
	u32 size = (u32)a.size, patch = (u32)a.patch, side = size / patch, area = patch * patch;
	u32 r = blockIdx.x, frame = r / (side * side), down = r / side % side, across = r % side;
	const u8 *px = strip(a, frame, down);
	if (!px) return;
	Tones t = tones(a);
	for (u32 c = threadIdx.x; c < 3 * area; c += THREADS) {
		u32 ch = c / area, y = c % area / patch, x = c % patch;
		set(a.dst, r, c, tone(t, ch, px[(y * size + across * patch + x) * 3 + ch]));
	}
}

// A block is a strip: its patches are put together in shared memory, from where
// they leave 16 bytes at a time. For bf16, patches of even size, lines of a multiple
// of 4 pixels and rows that begin at a multiple of 16 bytes. A thread takes 4
// pixels, which are 3 words and 2 pairs that lie in one patch each.
KERNEL(patches_half, PatchArgs, THREADS) {
	SHARED(u32, tile); // side rows of `pitch` words: pairs of numbers
	u32 size = (u32)a.size, patch = (u32)a.patch, side = size / patch, frame = blockIdx.x / side, down = blockIdx.x % side;
	u32 words = 3 * patch * patch / 2, plane = words / 3, line = patch / 2, pitch = (words + 3) / 4 * 4, quads = size / 4;
	const u32 *px = (const u32 *)strip(a, frame, down);
	if (!px) return;
	Tones t = tones(a);
	for (u32 i = threadIdx.x; i < patch * quads; i += THREADS) {
		u32 w[3] = {px[3 * i], px[3 * i + 1], px[3 * i + 2]};
		u32 y = i / quads, pair = i % quads * 2;
		UNROLL for (u32 k = 0; k < 2; k++, pair++) {
			u32 across = pair / line, to = across * pitch + y * line + pair % line;
			if (across >= side) break; // of the edge that belongs to no patch
			UNROLL for (u32 ch = 0; ch < 3; ch++) {
				u32 first = 6 * k + ch, second = first + 3;
				tile[to + ch * plane] = pack_bf16(tone(t, ch, w[first / 4] >> first % 4 * 8 & 255), tone(t, ch, w[second / 4] >> second % 4 * 8 & 255));
			}
		}
	}
	__syncthreads();
	u32 whole = words / 4, rest = words % 4, step = (u32)a.dst.stride / 2;
	u32 *out = (u32 *)a.dst.p + (i64)blockIdx.x * side * step;
	for (u32 i = threadIdx.x; i < side * whole; i += THREADS) {
		u32 r = i / whole, c = i % whole * 4;
		*(uint4 *)(out + r * step + c) = *(const uint4 *)(tile + r * pitch + c);
	}
	for (u32 i = threadIdx.x; i < side * rest; i += THREADS) {
		u32 r = i / rest, c = whole * 4 + i % rest;
		out[r * step + c] = tile[r * pitch + c];
	}
}
