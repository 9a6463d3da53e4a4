// vision.cu: uint8 RGB frames to patch rows: dst = byte scale[channel] + shift[channel], columns (channel, y, x).
//
// Idea: a frame's bytes are pixel by pixel and a patch's numbers channel by channel. patches reads a byte for each
// number it writes; patches_bf16 reads whole words, puts the patches of a strip together in shared
// memory (3 numbers for each of its pixels), and writes them 16 bytes at a time.
// Memory traffic: each byte of a patch is read once and one number is written for it, 2 bytes of bf16 or 4.
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

// Spot is where a pair of pixels goes: a patch of the strip, and a pair of its line.
struct Spot {
	u32 across, x;
};

// cut puts 4 pixels, the words w, into patches that begin at `to`, rows of `pitch`
// words: 2 pairs, the first at `spot`, that lie in one patch each.
DEVICE void cut(u32 *to, u32 pitch, u32 patch, u32 side, const Tones &t, Spot spot, const u32 *w) {
	UNROLL for (u32 k = 0; k < 2; k++) {
		u32 *pair = to + spot.across * pitch + spot.x;
		UNROLL for (u32 ch = 0; ch < 3; ch++) {
			u32 first = 6 * k + ch, second = first + 3;
			float lo = tone(t, ch, w[first / 4] >> first % 4 * 8 & 255), hi = tone(t, ch, w[second / 4] >> second % 4 * 8 & 255);
			if (spot.across < side) pair[ch * (patch * patch / 2)] = pack_bf16(lo, hi); // beyond is the edge that belongs to no patch
		}
		if (++spot.x == patch / 2) spot = {spot.across + 1, 0};
	}
}

// A block is a strip: its patches are put together in shared memory, from where
// they leave 16 bytes at a time. For bf16, patches of even size, lines of a multiple
// of 4 pixels and rows that begin at a multiple of 16 bytes. A warp takes two lines
// at once, a lane two groups of 4 pixels of each, all of which it asks for first.
KERNEL(patches_bf16, PatchArgs, THREADS) {
	SHARED(u32, tile);
	u32 size = (u32)a.size, patch = (u32)a.patch, side = size / patch, frame = blockIdx.x / side, quads = size / 4;
	u32 words = 3 * patch * patch / 2, pitch = (words + 3) / 4 * 4;
	const u32 *px = (const u32 *)strip(a, frame, blockIdx.x % side);
	if (!px) return;
	Tones t = tones(a);
	for (u32 q0 = lane(); q0 < quads; q0 += 2 * WARP) {
		u32 q[2] = {q0, q0 + WARP};
		Spot spot[2];
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
					if (y[j] < patch && q[i] < quads) cut(tile + y[j] * (patch / 2), pitch, patch, side, t, spot[i], w[j][i]);
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
