package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pierrec/lz4/v4"
)

// The format of Blosc-1 buffers, which filter 32001 stores: a header of 16 bytes, the
// starts of the blocks, and in each block one or more compressed streams. A stream is
// the size of its data and the data.
const (
	bloscHeader  = 16
	bloscShuffle = 0x01
	bloscMemcpy  = 0x02
	bloscBits    = 0x04
	bloscNoSplit = 0x10
	// A block is split into one stream per byte of an element only if elements have
	// at most bloscMaxSplit bytes and the streams would have at least bloscMinSplit.
	bloscMaxSplit = 16
	bloscMinSplit = 128
)

// Codecs, in the top three bits of the header's flags.
const (
	codecBloscLZ = 0
	// LZ4HC compresses better and writes the same format.
	codecLZ4  = 1
	codecZlib = 3
	codecZstd = 4
)

// errOtherBlosc is wrapped by errors about buffers that only other versions of Blosc
// decode.
var errOtherBlosc = errors.New("this Blosc buffer cannot be decoded")

// bloscDecode decodes a buffer of filter 32001 into out.
func bloscDecode(out, src []byte) ([]byte, error) {
	b, err := decodeBlosc(out, src)
	if errors.Is(err, errOtherBlosc) {
		err = fmt.Errorf("%w (hint: rewrite the file with `h5repack -f GZIP=6`)", err)
	}
	return b, err
}

// Decompress decodes src into out and returns the part of out that it filled. The
// codec is blosc, lz4 (a block without a header), zlib or zstd; ok is false for any
// other. Decompress does not write beyond out and may be called from several
// goroutines at once. Errors have no hint.
func Decompress(codec string, out, src []byte) (b []byte, ok bool, err error) {
	switch codec {
	case "blosc":
		b, err = decodeBlosc(out, src)
	case "lz4":
		b, err = lz4Decode(out, src)
	case "zlib":
		b, err = inflate(out, src)
	case "zstd":
		b, err = zstdDecode(out, src)
	default:
		return nil, false, nil
	}
	return b, true, err
}

// lz4Decode decodes an LZ4 block into out and returns the part that it filled.
func lz4Decode(out, src []byte) ([]byte, error) {
	n, err := lz4.UncompressBlock(src, out)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errDamaged, err)
	}
	return out[:n], nil
}

// decodeBlosc decodes a Blosc buffer into out.
func decodeBlosc(out, src []byte) ([]byte, error) {
	if len(src) < bloscHeader {
		return nil, errDamaged
	}
	flags, elem := src[2], int(src[3])
	size, blockSize := binary.LittleEndian.Uint32(src[4:]), binary.LittleEndian.Uint32(src[8:])
	if uint64(size) > uint64(len(out)) || binary.LittleEndian.Uint32(src[12:]) > uint32(len(src)) {
		return nil, errDamaged
	}
	// Blosc-2 has higher format versions, or marks itself by both shuffles at once.
	if src[0] > 2 || flags&(bloscShuffle|bloscBits) == bloscShuffle|bloscBits {
		return nil, fmt.Errorf("%w: it is of Blosc-2", errOtherBlosc)
	}
	out = out[:size]
	if flags&bloscMemcpy != 0 {
		if len(src)-bloscHeader < len(out) {
			return nil, errDamaged
		}
		copy(out, src[bloscHeader:])
		return out, nil
	}
	if blockSize == 0 || elem == 0 || uint64(blockSize) > maxChunk {
		return nil, errDamaged
	}
	b := bloscBlocks{src: src, flags: flags, elem: elem, size: int(blockSize)}
	return out, b.decode(out)
}

// bloscBlocks is the state for decoding the blocks of a buffer.
type bloscBlocks struct {
	src   []byte
	flags byte
	elem  int
	// size is the number of decoded bytes of a full block.
	size int
}

// decode decodes all blocks into out. Shuffled blocks are decoded to a temporary
// buffer first.
func (b bloscBlocks) decode(out []byte) error {
	starts := b.src[bloscHeader:]
	shuffled := b.elem > 1 && b.flags&bloscShuffle != 0 || b.flags&bloscBits != 0
	var planes []byte
	if shuffled {
		planes = make([]byte, min(b.size, len(out)))
	}
	for i := 0; len(out) > 0; i++ {
		if len(starts) < 4*(i+1) {
			return errDamaged
		}
		n := min(b.size, len(out))
		to := out[:n]
		if shuffled {
			to = planes[:n]
		}
		if err := b.block(to, binary.LittleEndian.Uint32(starts[4*i:]), n == b.size); err != nil {
			return err
		}
		switch {
		case b.flags&bloscBits != 0:
			unshuffleBits(out[:n], to, b.elem)
		case shuffled:
			unshuffle(out[:n], to, b.elem)
		}
		out = out[n:]
	}
	return nil
}

// block decodes the streams of one block. The last block is never split if it is
// shorter than the others.
func (b bloscBlocks) block(dst []byte, start uint32, full bool) error {
	if uint64(start) > uint64(len(b.src)) {
		return errDamaged
	}
	src, streams := b.src[start:], 1
	if full && b.flags&bloscNoSplit == 0 && b.elem <= bloscMaxSplit && len(dst)/b.elem >= bloscMinSplit {
		streams = b.elem
	}
	each := len(dst) / streams
	for range streams {
		if len(src) < 4 {
			return errDamaged
		}
		n := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return errDamaged
		}
		if err := bloscStream(dst[:each], src[:n], int(b.flags>>5)); err != nil {
			return err
		}
		src, dst = src[n:], dst[each:]
	}
	if len(dst) != 0 {
		return errDamaged
	}
	return nil
}

// bloscStream decodes one stream. One that is as long as its output is stored
// uncompressed.
func bloscStream(dst, src []byte, codec int) error {
	if len(src) == len(dst) {
		copy(dst, src)
		return nil
	}
	var got []byte
	var err error
	switch codec {
	case codecBloscLZ:
		got, err = bloscLZDecode(dst, src)
	case codecLZ4:
		got, err = lz4Decode(dst, src)
	case codecZlib:
		got, err = inflate(dst, src)
	case codecZstd:
		got, err = zstdDecode(dst, src)
	default:
		return fmt.Errorf("%w: its codec %d is not built in", errOtherBlosc, codec)
	}
	if err != nil || len(got) != len(dst) {
		return errDamaged
	}
	return nil
}

// bloscLZDecode decodes BloscLZ, a variant of FastLZ: runs of up to 32 literals, and
// matches up to 8191 bytes back, or farther with two more bytes. All lengths are
// checked, since the stream is from a file.
func bloscLZDecode(out, src []byte) ([]byte, error) {
	const far = 8191
	n, i := 0, 0
	next := func() int {
		if i >= len(src) {
			// Past the end; the caller checks for i > len(src).
			i = len(src) + 1
			return 0
		}
		i++
		return int(src[i-1])
	}
	// A stream begins with literals.
	ctrl := next() & 31
	for i <= len(src) {
		if ctrl < 32 {
			ctrl++
			if i+ctrl > len(src) || n+ctrl > len(out) {
				return nil, errDamaged
			}
			copy(out[n:], src[i:i+ctrl])
			i, n = i+ctrl, n+ctrl
		} else {
			length, back := ctrl>>5-1, ctrl&31<<8
			code := 255
			if length == 6 {
				for code == 255 && i <= len(src) {
					code = next()
					length += code
				}
			}
			code = next()
			if code == 255 && back == 31<<8 {
				back = next() << 8
				back += next() + far
			} else {
				back += code
			}
			if i > len(src) || !copyBack(out, n, back+1, length+3) {
				return nil, errDamaged
			}
			n += length + 3
		}
		if i >= len(src) {
			return out[:n], nil
		}
		ctrl = next()
	}
	return nil, errDamaged
}

// unshuffleBits reverses Blosc's bit shuffle, which stores one plane for every bit of
// an element, with that bit of all elements. Blocks whose number of elements is not a
// multiple of 8 are not shuffled.
func unshuffleBits(dst, src []byte, elem int) {
	n := len(src) / elem
	if n%8 != 0 {
		copy(dst, src)
		return
	}
	plane := n / 8
	for b := range elem {
		for g := range plane {
			var bits uint64
			for k := range 8 {
				bits |= uint64(src[(b*8+k)*plane+g]) << (8 * k)
			}
			bits = transpose8(bits)
			for j := range 8 {
				dst[(g*8+j)*elem+b] = byte(bits >> (8 * j))
			}
		}
	}
	copy(dst[n*elem:], src[n*elem:])
}

// transpose8 transposes a matrix of 8 by 8 bits, in three steps that swap blocks of
// 1, 2 and 4 bits.
func transpose8(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00AA00AA00AA00AA
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000CCCC0000CCCC
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000F0F0F0F0
	return x ^ t ^ t<<28
}
