package hdf5

/*
#include <libdeflate.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

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
