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

// cut puts 4 pixels, the words w of line y, into the patches of a strip: 2 pairs
// that lie in one patch each, rows of `pitch` words.
struct Cut {
	u32 side, line, plane, pitch; // line: pairs of a patch's line, plane: of a channel
};

DEVICE void cut(const Cut &c, const Tones &t, u32 *tile, const u32 *w, u32 y, u32 quad) {
	u32 across = 2 * quad / c.line, x = 2 * quad % c.line;
	UNROLL for (u32 k = 0; k < 2; k++) {
		u32 *to = tile + across * c.pitch + y * c.line + x;
		UNROLL for (u32 ch = 0; ch < 3; ch++) {
			u32 first = 6 * k + ch, second = first + 3;
			float lo = tone(t, ch, w[first / 4] >> first % 4 * 8 & 255), hi = tone(t, ch, w[second / 4] >> second % 4 * 8 & 255);
			if (across < c.side) to[ch * c.plane] = pack_bf16(lo, hi); // beyond is the edge that belongs to no patch
		}
		if (++x == c.line) {
			across++;
			x = 0;
		}
	}
}

// A block is a strip: its patches are put together in shared memory, from where
// they leave 16 bytes at a time. For bf16, patches of even size, lines of a multiple
// of 4 pixels and rows that begin at a multiple of 16 bytes.
KERNEL(patches_half, PatchArgs, THREADS) {
	enum { AHEAD = 4 }; // groups of pixels that a thread asks for at once
	SHARED(u32, tile);
	u32 size = (u32)a.size, patch = (u32)a.patch, side = size / patch, frame = blockIdx.x / side, quads = size / 4;
	u32 words = 3 * patch * patch / 2, pitch = (words + 3) / 4 * 4, groups = patch * quads;
	const u32 *px = (const u32 *)strip(a, frame, blockIdx.x % side);
	if (!px) return;
	Tones t = tones(a);
	Cut c = {side, patch / 2, words / 3, pitch};
	for (u32 i = threadIdx.x; i < groups; i += AHEAD * THREADS) {
		u32 w[AHEAD][3];
		UNROLL for (u32 k = 0; k < AHEAD; k++) {
			u32 from = (u32)least(i + k * THREADS, groups - 1) * 3;
			UNROLL for (u32 b = 0; b < 3; b++) w[k][b] = px[from + b];
		}
		UNROLL for (u32 k = 0; k < AHEAD; k++) {
			u32 at = i + k * THREADS;
			if (at < groups) cut(c, t, tile, w[k], at / quads, at % quads);
		}
	}
	__syncthreads();
	u32 whole = words / 4, rest = words % 4, step = (u32)a.dst.stride / 2;
	u32 *out = (u32 *)a.dst.p + (i64)blockIdx.x * side * step;
	for (u32 i = threadIdx.x; i < side * whole; i += THREADS) {
		u32 r = i / whole, c4 = i % whole * 4;
		*(uint4 *)(out + r * step + c4) = *(const uint4 *)(tile + r * pitch + c4);
	}
	for (u32 i = threadIdx.x; i < side * rest; i += THREADS) {
		u32 r = i / rest, c1 = whole * 4 + i % rest;
		out[r * step + c1] = tile[r * pitch + c1];
	}
}
