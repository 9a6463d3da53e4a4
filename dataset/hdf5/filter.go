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

// maxChunk bounds a chunk in bytes, stored or decoded, and with it the memory for
// one. Published files have chunks of 15 MB (100 frames).
const maxChunk = 512 << 20

// errDamaged is wrapped by errors about raw data that cannot be decoded.
var errDamaged = errors.New("damaged data")

// pipeline decodes chunks of one data set. stages are the filters in the order in
// which they were applied; elem is the element size.
type pipeline struct {
	stages []filterInfo
	elem   int
}

// check returns an error if a filter is not implemented. It is called on opening, so
// that an unreadable column is reported before any work.
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

// decode fills dst, a complete chunk, from its stored bytes. Bit i of mask means that
// stage i was not applied: a writer may skip an optional filter that does not make a
// chunk smaller.
func (p pipeline) decode(dst, src []byte, mask uint32) error {
	b := src
	for i := len(p.stages) - 1; i >= 0; i-- {
		if mask&(1<<i) != 0 {
			continue
		}
		// The last stage to be undone writes directly to dst, which saves a copy of
		// the chunk.
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

// anyBefore reports whether a stage before i was applied, and so still has to be
// undone after it.
func (p pipeline) anyBefore(i int, mask uint32) bool {
	return ^mask&(1<<i-1) != 0
}

// filterName returns the name of a filter for messages.
func filterName(id int) string {
	names := map[int]string{filterDeflate: "deflate", filterShuffle: "shuffle", filterFletcher: "fletcher32",
		filterLZF: "lzf", filterBlosc: "Blosc", filterZstd: "zstd"}
	return names[id]
}

// undo reverses one stage. It writes into out if that is not nil, and otherwise into
// a new buffer that is a little larger than the chunk. A filter cannot produce more
// than that, so a small stored chunk cannot claim much memory.
func (p pipeline) undo(f filterInfo, out, src []byte, size int) ([]byte, error) {
	if f.id == filterFletcher {
		return stripFletcher(src)
	}
	if out == nil {
		// A fletcher32 stage before this one added 4 bytes.
		out = make([]byte, size+4)
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

// unshuffleFilter is unshuffle as a stage of a pipeline.
func unshuffleFilter(out, src []byte, elem int) ([]byte, error) {
	if len(src) > len(out) {
		return nil, errDamaged
	}
	out = out[:len(src)]
	unshuffle(out, src, elem)
	return out, nil
}

// unshuffle reverses the byte shuffle, which stores byte 0 of all elements, then byte
// 1, and so on. A tail shorter than an element is not shuffled.
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

// stripFletcher verifies the checksum at the end of a chunk and returns the bytes
// before it.
func stripFletcher(src []byte) ([]byte, error) {
	if len(src) < 4 {
		return nil, errDamaged
	}
	body, want := src[:len(src)-4], binary.LittleEndian.Uint32(src[len(src)-4:])
	sum := fletcher32(body)
	// Versions of HDF5 before 1.6.3 stored the sum with the bytes of each half
	// swapped.
	swapped := sum>>8&0x00ff00ff | sum<<8&0xff00ff00
	if sum != want && swapped != want {
		return nil, fmt.Errorf("%w: the checksum differs", errDamaged)
	}
	return body, nil
}

// fletcher32 returns HDF5's Fletcher-32: the sum of big-endian 16-bit words, and the
// sum of the sums after each word, both modulo 65535. A sum is 0 only if all words
// are.
//
// It is computed four words at a time, with two words in the halves of each uint64.
// The sums of at most 256 such steps fit into a half, so the reduction is needed only
// once per 256.
func fletcher32(b []byte) uint32 {
	const halves = 0x0000ffff_0000ffff
	var s1, s2 uint64
	for len(b) >= 8 {
		n := min(len(b)/8, 256)
		// even has the sums of words 0 and 2 of each step, odd those of words 1 and
		// 3; evens and odds are the running sums of these.
		var even, odd, evens, odds uint64
		for i := 0; i < 8*n; i += 8 {
			v := binary.BigEndian.Uint64(b[i:])
			evens, odds = evens+even, odds+odd
			even, odd = even+(v>>16&halves), odd+(v&halves)
		}
		b = b[8*n:]
		// A word that is k-th from the end counts k times in the second sum: by steps
		// of four in all, and within its step 4, 3, 2 or 1 times.
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

// fold returns a number congruent to s modulo 65535 and at most 65535. It is 0 only
// if s is.
func fold(s uint64) uint64 {
	for s > 0xffff {
		s = s&0xffff + s>>16
	}
	return s
}

// zstdDecoder may be used by many goroutines. Its output is limited to the capacity
// of the buffer that the caller passes.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxChunk))
})

// zstdDecode decodes a zstd frame into out and returns the part that it filled.
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

// lzfDecode decodes LibLZF, h5py's own fast filter. A control byte below 32 begins a
// run of literals; otherwise it has the length of a match in its top 3 bits (7: one
// more byte follows) and the high bits of the distance.
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

// copyBack appends length bytes, at n, that begin back bytes before n. The ranges may
// overlap: a short distance repeats its bytes, so they must then be copied one at a
// time. It returns false if a range is outside out.
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

// Filter is the compression of frames in files that we write.
type Filter string

// The filters of our files. Deflate, the default, can be read by every HDF5 program.
// Zstd is twice as fast to write but needs a plug-in in Python. None is for
// measurements.
const (
	Deflate Filter = "deflate"
	Zstd    Filter = "zstd"
	None    Filter = "none"
)

// ParseFilter returns the filter of a name; "" is Deflate.
func ParseFilter(s string) (Filter, error) {
	switch f := Filter(s); f {
	case "":
		return Deflate, nil
	case Deflate, Zstd, None:
		return f, nil
	}
	return "", fmt.Errorf("no filter named %q (hint: deflate, zstd or none)", s)
}

// pipeline returns the filter's number in HDF5 and its parameter.
func (f Filter) pipeline() (id, level int) {
	switch f {
	case Zstd:
		return filterZstd, 3
	case None:
		return 0, 0
	}
	return filterDeflate, deflateLevel
}

// zstdEncoder may be used by many goroutines: EncodeAll has no state between calls.
var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault))
})

// Encode appends the stored bytes of a chunk with one frame to dst. It may be called
// from several goroutines at once, and the bytes depend only on the frame.
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

// inflater and deflater have libdeflate's state, which serves one call at a time.
// Pools reuse them, and a cleanup frees the C memory when the garbage collector drops
// one.
type inflater struct {
	c *C.struct_libdeflate_decompressor
}
type deflater struct {
	c *C.struct_libdeflate_compressor
	// buf has the size of the worst case. The result is then copied to a slice of its
	// own size.
	buf []byte
}

var inflaters = sync.Pool{New: func() any {
	z := &inflater{C.libdeflate_alloc_decompressor()}
	runtime.AddCleanup(z, func(c *C.struct_libdeflate_decompressor) { C.libdeflate_free_decompressor(c) }, z.c)
	return z
}}

// deflateLevel is libdeflate's level in our files. The size is that of zlib's level
// 6, at twice its speed.
const deflateLevel = 6

var deflaters = sync.Pool{New: func() any {
	z := &deflater{c: C.libdeflate_alloc_compressor(deflateLevel)}
	runtime.AddCleanup(z, func(c *C.struct_libdeflate_compressor) { C.libdeflate_free_compressor(c) }, z.c)
	return z
}}

// inflate decodes a zlib stream into out and returns the part that it filled.
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

// deflate appends src as a zlib stream to dst. The bytes depend only on src.
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
