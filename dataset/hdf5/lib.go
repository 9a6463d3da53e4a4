package hdf5

/*
#cgo pkg-config: hdf5-serial libdeflate
#cgo CFLAGS: -O2 -Wall
#include <stdlib.h>
#include "lib.h"
#include <hdf5.h>
#include <libdeflate.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// lib is held around every call into libhdf5, which is not thread-safe as packaged.
var (
	lib     sync.Mutex
	libInit sync.Once
)

// withLib runs f under the lock and on one thread, since some builds keep the
// error of a call by thread.
func withLib(f func() error) error {
	lib.Lock()
	defer lib.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	libInit.Do(func() { C.sw_init() })
	C.sw_quiet()
	return f()
}

// libError is the library's own account of the call that just failed.
func libError() error {
	var buf [512]C.char
	C.sw_error(&buf[0], C.int(len(buf)))
	s := C.GoString(&buf[0])
	if s == "" {
		return errors.New("libhdf5 gives no reason")
	}
	// For an input or output error the system's message is enough.
	if m := systemError.FindStringSubmatch(s); m != nil {
		return errors.New(m[1])
	}
	return errors.New(strings.Join(strings.Fields(s), " "))
}

var systemError = regexp.MustCompile(`error message = '([^']*)'`)

// filterInfo is one stage of a data set's filter pipeline.
type filterInfo struct {
	id     int
	params []uint32
}

// described is what the library says of one data set of the root group.
type described struct {
	name             string
	class            int
	isBool, signed   bool
	bigEndian        bool
	elem             int
	dims, max, chunk []uint64
	layout           int
	external         bool
	offset, header   uint64
	filters          []filterInfo
	fill             []byte
	compact          []byte  // the data themselves, when read from the header by us
	id               C.hid_t // -1: the library could not open it
}

const (
	classInteger   = int(C.H5T_INTEGER)
	classFloat     = int(C.H5T_FLOAT)
	layoutCompact  = int(C.H5D_COMPACT)
	layoutContig   = int(C.H5D_CONTIGUOUS)
	layoutChunked  = int(C.H5D_CHUNKED)
	undefAddr      = ^uint64(0)
	filterDeflate  = 1
	filterShuffle  = 2
	filterFletcher = 3
	filterLZF      = 32000
	filterBlosc    = 32001
	filterZstd     = 32015
)

// listing is everything the library is asked when a file is opened.
type listing struct {
	superblock
	file  C.hid_t
	own   *cursor // for data sets that the library cannot open
	sets  []described
	attrs map[string]string
	// others are entries that are no data sets, and attributes that are no texts, with what they are.
	others map[string]string
}

// openListing opens a file; own reads it from its superblock on.
func openListing(path string, s superblock, own *cursor) (*listing, error) {
	l := &listing{superblock: s, attrs: map[string]string{}, others: map[string]string{}, own: own}
	err := withLib(func() error {
		p := C.CString(path)
		defer C.free(unsafe.Pointer(p))
		if l.file = C.sw_open(p); l.file < 0 {
			return libError()
		}
		err := l.fill()
		if err != nil {
			C.sw_close(l.file)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// maxName is the longest name of a column in bytes.
const maxName = C.SW_MAX_NAME - 1

// maxSets bounds the data sets of a root group; published files have below 50.
const maxSets = 4096

func (l *listing) fill() error {
	n := int(C.sw_links(l.file))
	if n < 0 || n > maxSets {
		return fmt.Errorf("the root group has %d entries", n)
	}
	for i := range n {
		var d C.sw_dataset
		switch rc := C.sw_describe(l.file, C.longlong(i), &d); {
		case rc == 1:
			g := goDescribed(&d)
			if g.offset != undefAddr {
				g.offset -= uint64(l.base)
			}
			l.sets = append(l.sets, g)
		case rc == 0:
			name := C.GoString(&d.name[0])
			if len(name) == maxName { // it may be cut off
				name = fmt.Sprintf("%s (entry %d)", name, i)
			}
			l.others[name] = C.GoString(d.other)
		case rc < 0 && (d.header == 0 || !l.simple):
			return libError()
		case rc < 0:
			why, name := libError(), C.GoString(&d.name[0])
			own, err := describe(l.own, name, uint64(d.header))
			if errors.Is(err, errSealed) {
				return fmt.Errorf("column %s: %w", name, err)
			} else if err != nil {
				return fmt.Errorf("%s: %w", name, why)
			}
			l.sets = append(l.sets, own)
		}
	}
	if n = int(C.sw_attrs(l.file)); n < 0 {
		return libError()
	}
	for i := range n {
		var name [256]C.char
		var value *C.char
		switch rc := C.sw_attr(l.file, C.int(i), &name[0], C.int(len(name)), &value); {
		case rc == 1:
			l.attrs[C.GoString(&name[0])] = C.GoString(value)
			C.free(unsafe.Pointer(value))
		case rc == 0:
			l.others["attribute "+C.GoString(&name[0])] = "not one text"
		case rc < 0:
			// In a sealed file, a type that the library does not know is a new one.
			if err := libError(); rc == C.SW_UNREADABLE || !l.sealed {
				return fmt.Errorf("attribute %d of %d: %w", i, n, err)
			}
		}
	}
	return nil
}

func goDescribed(d *C.sw_dataset) described {
	g := described{
		name: C.GoString(&d.name[0]), class: int(d.kind), isBool: d.is_bool != 0, signed: d.is_signed != 0,
		bigEndian: d.big_endian != 0, elem: int(d.elem), layout: int(d.layout), external: d.external != 0,
		offset: uint64(d.offset), header: uint64(d.header), id: d.id,
	}
	for i := range int(d.ndims) {
		g.dims = append(g.dims, uint64(d.dims[i]))
		g.max = append(g.max, uint64(d.maxdims[i]))
		g.chunk = append(g.chunk, uint64(d.chunk[i]))
	}
	for i := range int(d.nfilters) {
		f := filterInfo{id: int(d.filter[i])}
		for j := range int(d.nparams[i]) {
			f.params = append(f.params, uint32(d.params[i][j]))
		}
		g.filters = append(g.filters, f)
	}
	if g.elem > 0 && g.elem <= len(d.fill) {
		g.fill = C.GoBytes(unsafe.Pointer(&d.fill[0]), C.int(g.elem))
	}
	return g
}

func (l *listing) close() error {
	return withLib(func() error {
		if C.sw_close(l.file) < 0 {
			return libError()
		}
		return nil
	})
}

// readRawChunk reads the stored bytes of the chunk that begins at element at,
// for files whose chunk index our parser does not know; nil means unwritten.
func readRawChunk(id C.hid_t, at []uint64) (raw []byte, mask uint32, err error) {
	var o [C.SW_MAX_DIMS]C.ulonglong
	for i, v := range at {
		o[i] = C.ulonglong(v)
	}
	err = withLib(func() error {
		n := int64(C.sw_chunk_size(id, &o[0], C.int(len(at))))
		if n < 0 {
			// Version 1.10 has this error for a chunk that was never written.
			if err := libError(); err.Error() != "chunk storage is not allocated" {
				return err
			}
		}
		if n <= 0 {
			return nil
		}
		if n > maxChunk {
			return fmt.Errorf("a chunk of %d MB is stored", n>>20)
		}
		raw = make([]byte, n)
		var m C.uint
		if C.sw_read_chunk(id, &o[0], &m, unsafe.Pointer(&raw[0])) < 0 {
			return libError()
		}
		mask = uint32(m)
		return nil
	})
	return raw, mask, err
}

// readWhole reads a small data set through the library.
func readWhole(id C.hid_t, dst []byte) error {
	return withLib(func() error {
		if len(dst) > 0 && C.sw_read_all(id, unsafe.Pointer(&dst[0])) < 0 {
			return libError()
		}
		return nil
	})
}

// LibraryVersions names the versions of libhdf5, as loaded, and of libdeflate,
// as compiled against.
func LibraryVersions() (hdf5, deflate string, err error) {
	err = withLib(func() error {
		var major, minor, release C.uint
		if C.H5get_libversion(&major, &minor, &release) < 0 {
			return fmt.Errorf("asking libhdf5 for its version: %w", libError())
		}
		hdf5 = fmt.Sprintf("%d.%d.%d", major, minor, release)
		return nil
	})
	return hdf5, C.LIBDEFLATE_VERSION_STRING, err
}
