// vision.cu: uint8 RGB frames to rows of patches: dst = byte * scale[channel] +
// shift[channel], with columns in the order (channel, y, x) of a convolution's weights.
//
// A frame is stored pixel by pixel, a patch channel by channel. patches reads one byte
// for each number that it writes. patches_bf16 reads 32-bit words, assembles the
// patches of a strip in shared memory, and writes them 16 bytes at a time.
//
// Memory traffic: each byte of a patch is read once, and one number written for it, of
// 2 bytes (bf16) or 4.
#include "args.cuh"

// Scaling is the conversion of a byte to a number, by channel, in registers.
struct Scaling {
	float scale[3], shift[3];
};

DEVICE Scaling scaling(const PatchArgs &a) {
	Scaling t;
	UNROLL for (int ch = 0; ch < 3; ch++) {
		t.scale[ch] = (float)a.scale[ch];
		t.shift[ch] = (float)a.shift[ch];
	}
	return t;
}

// scaled converts a byte. ch is not known at compile time everywhere; selecting among
// three registers keeps the arrays out of local memory.
DEVICE float scaled(const Scaling &t, u32 ch, u32 byte) {
	float scale = ch == 0 ? t.scale[0] : ch == 1 ? t.scale[1] : t.scale[2];
	float shift = ch == 0 ? t.shift[0] : ch == 1 ? t.shift[1] : t.shift[2];
	return fmaf((float)byte, scale, shift);
}

// strip returns the lines of a frame that make up row `down` of its patches. If the
// list names a frame that does not exist, it sets *fault and returns NULL.
DEVICE const u8 *strip(const PatchArgs &a, u32 frame, u32 down) {
	i64 at = a.list ? (i64)a.list[frame] : (i64)frame;
	if (at < 0 || at >= a.frames) {
		*a.fault = 1;
		return NULL;
	}
	return a.px + (at * a.size + down * a.patch) * a.size * 3;
}

// patches: one block per patch, of any size and layout.
KERNEL(patches, PatchArgs, THREADS) {
	u32 size = (u32)a.size, patch = (u32)a.patch, side = size / patch, area = patch * patch;
	u32 r = blockIdx.x, frame = r / (side * side), down = r / side % side, across = r % side;
	const u8 *px = strip(a, frame, down);
	if (!px) return;
	Scaling t = scaling(a);
	for (u32 c = threadIdx.x; c < 3 * area; c += THREADS) {
		u32 ch = c / area, y = c % area / patch, x = c % patch;
		set(a.dst, r, c, scaled(t, ch, px[(y * size + across * patch + x) * 3 + ch]));
	}
}

// PairPosition is where a pair of adjacent pixels goes: the patch of the strip, and the
// pair within a line of the patch.
struct PairPosition {
	u32 across, x;
};

// store_pixels converts 4 pixels, the 12 bytes of the words w, and stores them as 2
// pairs. The first pair goes to `spot`. Patches begin at `to`, in rows of `pitch`
// words. Patches have an even width, so a pair never straddles two.
DEVICE void store_pixels(u32 *to, u32 pitch, u32 patch, u32 side, const Scaling &t, PairPosition spot, const u32 *w) {
	UNROLL for (u32 k = 0; k < 2; k++) {
		u32 *pair = to + spot.across * pitch + spot.x;
		UNROLL for (u32 ch = 0; ch < 3; ch++) {
			u32 first = 6 * k + ch, second = first + 3;
			float lo = scaled(t, ch, w[first / 4] >> first % 4 * 8 & 255), hi = scaled(t, ch, w[second / 4] >> second % 4 * 8 & 255);
			// Pixels to the right of the last patch belong to none.
			if (spot.across < side) pair[ch * (patch * patch / 2)] = pack_bf16(lo, hi);
		}
		if (++spot.x == patch / 2) spot = {spot.across + 1, 0};
	}
}

// patches_bf16: one block per strip. It requires bf16, patches of even size, frame
// lines of a multiple of 4 pixels, and rows that begin at multiples of 16 bytes (strips
// in pointwise.go).
//
// A warp processes two lines of the strip at once, and a lane two groups of 4 pixels of
// each. It first issues the loads of all 12 words. Lines and groups beyond the end are
// replaced by the first ones, so that loads need no branches, and not stored.
KERNEL(patches_bf16, PatchArgs, THREADS) {
	SHARED(u32, tile);
	u32 size = (u32)a.size, patch = (u32)a.patch, side = size / patch, frame = blockIdx.x / side, quads = size / 4;
	u32 words = 3 * patch * patch / 2, pitch = (words + 3) / 4 * 4;
	const u32 *px = (const u32 *)strip(a, frame, blockIdx.x % side);
	if (!px) return;
	Scaling t = scaling(a);
	for (u32 q0 = lane(); q0 < quads; q0 += 2 * WARP) {
		u32 q[2] = {q0, q0 + WARP};
		PairPosition spot[2];
		UNROLL for (int i = 0; i < 2; i++) spot[i] = {2 * q[i] / (patch / 2), 2 * q[i] % (patch / 2)};
		for (u32 y0 = warp(); y0 < patch; y0 += 2 * WARPS) {
			u32 y[2] = {y0, y0 + WARPS}, w[2][2][3];
			UNROLL for (int j = 0; j < 2; j++) {
				UNROLL for (int i = 0; i < 2; i++) {
					const u32 *from = px + ((y[j] < patch ? y[j] : y0) * quads + (q[i] < quads ? q[i] : q0)) * 3;
					UNROLL for (int b = 0; b < 3; b++) w[j][i][b] = from[b];
				}
			}
			UNROLL for (int j = 0; j < 2; j++) {
				UNROLL for (int i = 0; i < 2; i++) {
					if (y[j] < patch && q[i] < quads) store_pixels(tile + y[j] * (patch / 2), pitch, patch, side, t, spot[i], w[j][i]);
				}
			}
		}
	}
	__syncthreads();
	u32 *out = (u32 *)a.dst.p + (i64)blockIdx.x * side * (a.dst.stride / 2);
	for (u32 r = warp(); r < side; r += WARPS) {
		u32 *to = out + r * (u32)(a.dst.stride / 2), *from = tile + r * pitch;
		for (u32 c = 4 * lane(); c + 4 <= words; c += 4 * WARP) *(uint4 *)(to + c) = *(const uint4 *)(from + c);
		u32 rest = words / 4 * 4 + lane();
		if (rest < words) to[rest] = from[rest];
	}
}
