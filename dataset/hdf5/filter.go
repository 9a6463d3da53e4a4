package hdf5

/*
#include <libdeflate.h>
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/klauspost/compress/zstd"
)

// maxChunk bounds a chunk in bytes, stored or decoded. Published files have
// chunks of 15 MB (100 frames).
const maxChunk = 512 << 20

var errDamaged = errors.New("damaged data")

// pipeline undoes the filters that a chunk went through.
type pipeline struct {
	stages []filterInfo
	elem   int
}

// check says at opening whether every stage is known here.
func (p pipeline) check() error {
	for _, f := range p.stages {
		switch f.id {
		case filterDeflate, filterShuffle, filterFletcher, filterLZF, filterBlosc, filterZstd:
		default:
			return fmt.Errorf("it uses HDF5 filter %d, which is not built in (hint: rewrite it with `h5repack -f GZIP=6`)", f.id)
		}
	}
	return nil
}

// decode fills dst, a whole chunk, from its stored bytes; bit i of mask skips stage i.
func (p pipeline) decode(dst, src []byte, mask uint32) error {
	b := src
	for i := len(p.stages) - 1; i >= 0; i-- {
		if mask&(1<<i) != 0 {
			continue
		}
		// The last stage to be undone writes straight into dst.
		var out []byte
		if !p.anyBefore(i, mask) {
			out = dst
		}
		var err error
		if b, err = p.undo(p.stages[i], out, b, len(dst)); err != nil {
			return fmt.Errorf("%s: %w", filterName(p.stages[i].id), err)
		}
	}
	if len(b) != len(dst) {
		return fmt.Errorf("%w: a chunk of %d bytes instead of %d", errDamaged, len(b), len(dst))
	}
	if len(b) > 0 && &b[0] != &dst[0] {
		copy(dst, b)
	}
	return nil
}

// anyBefore says whether a stage below i still has to be undone after it.
func (p pipeline) anyBefore(i int, mask uint32) bool {
	return ^mask&(1<<i-1) != 0
}

func filterName(id int) string {
	names := map[int]string{filterDeflate: "deflate", filterShuffle: "shuffle", filterFletcher: "fletcher32",
		filterLZF: "lzf", filterBlosc: "Blosc", filterZstd: "zstd"}
	return names[id]
}

// undo reverses one stage. It writes into out when that is the chunk itself,
// else into a new buffer of at most a little more than the chunk's size.
func (p pipeline) undo(f filterInfo, out, src []byte, size int) ([]byte, error) {
	if f.id == filterFletcher {
		return stripFletcher(src)
	}
	if out == nil {
		out = make([]byte, size+4) // fletcher32 adds 4 bytes
	}
	switch f.id {
	case filterDeflate:
		return inflate(out, src)
	case filterShuffle:
		return unshuffleFilter(out, src, p.elem)
	case filterLZF:
		return lzfDecode(out, src)
	case filterZstd:
		return zstdDecode(out, src)
	default:
		return bloscDecode(out, src)
	}
}

func unshuffleFilter(out, src []byte, elem int) ([]byte, error) {
	if len(src) > len(out) {
		return nil, errDamaged
	}
	out = out[:len(src)]
	unshuffle(out, src, elem)
	return out, nil
}

// unshuffle gathers the bytes of each element, which were stored plane by
// plane; a tail shorter than an element stays where it is.
func unshuffle(dst, src []byte, elem int) {
	n := 0
	if elem > 0 {
		n = len(src) / elem
	}
	for b := range elem {
		plane := src[b*n : (b+1)*n]
		for i, v := range plane {
			dst[i*elem+b] = v
		}
	}
	copy(dst[n*elem:], src[n*elem:])
}

// stripFletcher verifies and removes the checksum that ends a chunk.
func stripFletcher(src []byte) ([]byte, error) {
	if len(src) < 4 {
		return nil, errDamaged
	}
	body, want := src[:len(src)-4], binary.LittleEndian.Uint32(src[len(src)-4:])
	sum := fletcher32(body)
	// Files of before 1.6.3 hold the sum with its bytes swapped in pairs.
	swapped := sum>>8&0x00ff00ff | sum<<8&0xff00ff00
	if sum != want && swapped != want {
		return nil, fmt.Errorf("%w: the checksum differs", errDamaged)
	}
	return body, nil
}

// fletcher32 sums big-endian 16-bit words, and the sums after each word, modulo
// 65535; a sum is 0 only where all words are. Four words are taken at a time, two
// in each half of a uint64, and up to 256 times before the halves could overflow.
func fletcher32(b []byte) uint32 {
	const halves = 0x0000ffff_0000ffff
	var s1, s2 uint64
	for len(b) >= 8 {
		n := min(len(b)/8, 256)
		var even, odd, evens, odds uint64 // sums of words 0 and 2, of 1 and 3, and the sums of those
		for i := 0; i < 8*n; i += 8 {
			v := binary.BigEndian.Uint64(b[i:])
			evens, odds = evens+even, odds+odd
			even, odd = even+(v>>16&halves), odd+(v&halves)
		}
		b = b[8*n:]
		w0, w1, w2, w3 := even>>32, odd>>32, even&0xffffffff, odd&0xffffffff
		all := evens>>32 + odds>>32 + evens&0xffffffff + odds&0xffffffff
		s2 = fold(s2 + 4*(uint64(n)*s1+all) + 4*w0 + 3*w1 + 2*w2 + w3)
		s1 = fold(s1 + w0 + w1 + w2 + w3)
	}
	for ; len(b) > 0; b = b[min(2, len(b)):] {
		s1 += uint64(b[0]) << 8
		if len(b) > 1 {
			s1 += uint64(b[1])
		}
		s2 += s1
	}
	return uint32(fold(s2)<<16 | fold(s1))
}

// fold is congruent to s modulo 65535, and 0 only where s is.
func fold(s uint64) uint64 {
	for s > 0xffff {
		s = s&0xffff + s>>16
	}
	return s
}

// zstdDecoder is safe for many goroutines; output is bounded by the buffer handed in.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxChunk))
})

func zstdDecode(out, src []byte) ([]byte, error) {
	d, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	b, err := d.DecodeAll(src, out[:0:len(out)])
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errDamaged, err)
	}
	return b, nil
}

// lzfDecode undoes LibLZF, h5py's own fast filter.
func lzfDecode(out, src []byte) ([]byte, error) {
	n := 0
	for i := 0; i < len(src); {
		ctrl := int(src[i])
		i++
		if ctrl < 32 { // literals
			ctrl++
			if i+ctrl > len(src) || n+ctrl > len(out) {
				return nil, errDamaged
			}
			copy(out[n:], src[i:i+ctrl])
			i, n = i+ctrl, n+ctrl
			continue
		}
		length, need := ctrl>>5, 1
		if length == 7 {
			need = 2
		}
		if i+need > len(src) {
			return nil, errDamaged
		}
		if length == 7 {
			length += int(src[i])
			i++
		}
		back := (ctrl&0x1f)<<8 | int(src[i])
		i++
		if !copyBack(out, n, back+1, length+2) {
			return nil, errDamaged
		}
		n += length + 2
	}
	return out[:n], nil
}

// copyBack repeats length bytes from back bytes before n; the stretches may overlap.
func copyBack(out []byte, n, back, length int) bool {
	if back > n || n+length > len(out) {
		return false
	}
	if back >= length {
		copy(out[n:n+length], out[n-back:])
		return true
	}
	for i := n; i < n+length; i++ {
		out[i] = out[i-back]
	}
	return true
}

// Filter is how our files store frames.
type Filter string

// The filters of our files. Deflate, the default, opens everywhere; zstd is
// twice as fast to write and needs a plug-in in Python; none is for measuring.
const (
	Deflate Filter = "deflate"
	Zstd    Filter = "zstd"
	None    Filter = "none"
)

// ParseFilter reads a filter's name; "" is Deflate.
func ParseFilter(s string) (Filter, error) {
	switch f := Filter(s); f {
	case "":
		return Deflate, nil
	case Deflate, Zstd, None:
		return f, nil
	}
	return "", fmt.Errorf("no filter named %q (hint: deflate, zstd or none)", s)
}

// pipeline is the filter's number and parameter in HDF5.
func (f Filter) pipeline() (id, level int) {
	switch f {
	case Zstd:
		return filterZstd, 3
	case None:
		return 0, 0
	}
	return filterDeflate, deflateLevel
}

var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault))
})

// Encode appends frame as the stored bytes of one chunk to dst. It may be
// called from many goroutines; the bytes depend on the frame alone.
func (f Filter) Encode(dst, frame []byte) []byte {
	switch f {
	case Zstd:
		e, err := zstdEncoder()
		if err != nil {
			panic("hdf5: zstd encoder with fixed options: " + err.Error())
		}
		return e.EncodeAll(frame, dst)
	case None:
		return append(dst, frame...)
	}
	return deflate(dst, frame)
}

// inflater and deflater hold libdeflate's state; the pools hand one to each
// goroutine and the collector's cleanup frees it.
type inflater struct {
	c *C.struct_libdeflate_decompressor
}
type deflater struct {
	c   *C.struct_libdeflate_compressor
	buf []byte // as long as the worst case, so that results can be stored tightly
}

var inflaters = sync.Pool{New: func() any {
	z := &inflater{C.libdeflate_alloc_decompressor()}
	runtime.AddCleanup(z, func(c *C.struct_libdeflate_decompressor) { C.libdeflate_free_decompressor(c) }, z.c)
	return z
}}

// deflateLevel is the level of our files: the size of zlib's 6 at twice its speed.
const deflateLevel = 6

var deflaters = sync.Pool{New: func() any {
	z := &deflater{c: C.libdeflate_alloc_compressor(deflateLevel)}
	runtime.AddCleanup(z, func(c *C.struct_libdeflate_compressor) { C.libdeflate_free_compressor(c) }, z.c)
	return z
}}

// inflate decodes a zlib stream into out and returns what it filled.
func inflate(out, src []byte) ([]byte, error) {
	if len(src) == 0 || len(out) == 0 {
		return nil, errDamaged
	}
	z := inflaters.Get().(*inflater)
	defer inflaters.Put(z)
	var n C.size_t
	rc := C.libdeflate_zlib_decompress(z.c, unsafe.Pointer(&src[0]), C.size_t(len(src)), unsafe.Pointer(&out[0]), C.size_t(len(out)), &n)
	if rc != C.LIBDEFLATE_SUCCESS {
		return nil, fmt.Errorf("%w (code %d)", errDamaged, int(rc))
	}
	return out[:n], nil
}

// deflate appends src as a zlib stream to dst. The bytes depend on src alone.
func deflate(dst, src []byte) []byte {
	z := deflaters.Get().(*deflater)
	defer deflaters.Put(z)
	bound := int(C.libdeflate_zlib_compress_bound(z.c, C.size_t(len(src))))
	if len(z.buf) < bound {
		z.buf = make([]byte, bound)
	}
	n := C.libdeflate_zlib_compress(z.c, unsafe.Pointer(unsafe.SliceData(src)), C.size_t(len(src)), unsafe.Pointer(&z.buf[0]), C.size_t(bound))
	if n == 0 {
		panic("hdf5: deflate did not fit its own bound")
	}
	return append(dst, z.buf[:n]...)
}
