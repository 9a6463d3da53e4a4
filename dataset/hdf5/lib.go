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

// lib is held during every call of libhdf5, which is not thread-safe as packaged.
var (
	lib     sync.Mutex
	libInit sync.Once
)

// withLib runs f with the lock of libhdf5, on one operating-system thread, since
// builds with thread support keep the last error per thread.
func withLib(f func() error) error {
	lib.Lock()
	defer lib.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	libInit.Do(func() { C.sw_init() })
	C.sw_quiet()
	return f()
}

// libError returns libhdf5's reason for the failure of the last call. It must be
// called under the same lock.
func libError() error {
	var buf [512]C.char
	C.sw_error(&buf[0], C.int(len(buf)))
	s := C.GoString(&buf[0])
	if s == "" {
		return errors.New("libhdf5 gives no reason")
	}
	// For a failed system call, the message of the operating system is enough.
	if m := systemError.FindStringSubmatch(s); m != nil {
		return errors.New(m[1])
	}
	return errors.New(strings.Join(strings.Fields(s), " "))
}

// systemError finds the operating system's message in one of libhdf5.
var systemError = regexp.MustCompile(`error message = '([^']*)'`)

// filterInfo is one stage of a data set's filter pipeline.
type filterInfo struct {
	id     int
	params []uint32
}

// description is the description of one HDF5 data set of the root group, by libhdf5 or,
// if that cannot open it, by describe.
type description struct {
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
	// compact has the data themselves, if describe found them in the header.
	compact []byte
	// id is the open data set of libhdf5, or -1 if that could not open it.
	id C.hid_t
}

const (
	// Classes of elements.
	classInteger = int(C.H5T_INTEGER)
	classFloat   = int(C.H5T_FLOAT)
	// Layouts of data: in the object header, in one block, in chunks.
	layoutCompact = int(C.H5D_COMPACT)
	layoutContig  = int(C.H5D_CONTIGUOUS)
	layoutChunked = int(C.H5D_CHUNKED)
	// undefAddr is the address of what does not exist.
	undefAddr = ^uint64(0)
	// Ids of filters. Those below 256 belong to HDF5, and others are registered with
	// the HDF Group.
	filterDeflate  = 1
	filterShuffle  = 2
	filterFletcher = 3
	filterLZF      = 32000
	filterBlosc    = 32001
	filterZstd     = 32015
)

// listing is everything that libhdf5 reports about an open file.
type listing struct {
	superblock
	file C.hid_t
	// own reads the file for data sets that libhdf5 cannot open.
	own   *cursor
	sets  []description
	attrs map[string]string
	// nonColumns has the entries that are not data sets, and attributes that are not
	// strings, with what they are.
	nonColumns map[string]string
}

// openListing opens a file with libhdf5 and lists its root group. own reads the same
// file, from its superblock on.
func openListing(path string, s superblock, own *cursor) (*listing, error) {
	l := &listing{superblock: s, attrs: map[string]string{}, nonColumns: map[string]string{}, own: own}
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

// maxName is the longest name of a column, in bytes.
const maxName = C.SW_MAX_NAME - 1

// maxSets bounds the entries of a root group. Published files have fewer than 50.
const maxSets = 4096

// fill lists the data sets and the attributes of the root group. The caller holds the
// lock.
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
				// libhdf5 reports the position in the file, and ours count from the
				// superblock.
				g.offset -= uint64(l.base)
			}
			l.sets = append(l.sets, g)
		case rc == 0:
			name := C.GoString(&d.name[0])
			// The name may have been truncated, and two truncated names may be equal.
			if len(name) == maxName {
				name = fmt.Sprintf("%s (entry %d)", name, i)
			}
			l.nonColumns[name] = C.GoString(d.other)
		// libhdf5 failed before it knew where the object is, or our parser does not
		// apply.
		case rc < 0 && (d.header == 0 || !l.parsable):
			return libError()
		case rc < 0:
			why, name := libError(), C.GoString(&d.name[0])
			own, err := describe(l.own, name, uint64(d.header))
			if errors.Is(err, errChecksum) {
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
			l.nonColumns["attribute "+C.GoString(&name[0])] = "not a single string"
		case rc < 0:
			// If metadata have checksums, they were verified before, so a type that
			// libhdf5 does not know is newer than the library and not damage. The
			// attribute is left out.
			if err := libError(); rc == C.SW_UNREADABLE || !l.hasChecksums {
				return fmt.Errorf("attribute %d of %d: %w", i, n, err)
			}
		}
	}
	return nil
}

// goDescribed converts a description from C.
func goDescribed(d *C.sw_dataset) description {
	g := description{
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

// close closes the file and everything that is open in it.
func (l *listing) close() error {
	return withLib(func() error {
		if C.sw_close(l.file) < 0 {
			return libError()
		}
		return nil
	})
}

// readRawChunk reads the stored bytes of the chunk that begins at element at, for
// files whose chunk index our parser does not know. raw is nil if the chunk was never
// written.
func readRawChunk(id C.hid_t, at []uint64) (raw []byte, mask uint32, err error) {
	var o [C.SW_MAX_DIMS]C.ulonglong
	for i, v := range at {
		o[i] = C.ulonglong(v)
	}
	err = withLib(func() error {
		n := int64(C.sw_chunk_size(id, &o[0], C.int(len(at))))
		if n < 0 {
			// libhdf5 1.10 returns this error for a chunk that was never written.
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

// readAll reads all data of a small HDF5 data set through libhdf5.
func readAll(id C.hid_t, dst []byte) error {
	return withLib(func() error {
		if len(dst) > 0 && C.sw_read_all(id, unsafe.Pointer(&dst[0])) < 0 {
			return libError()
		}
		return nil
	})
}

// LibraryVersions returns the versions of libhdf5, as loaded, and of libdeflate, as
// compiled against.
func LibraryVersions() (hdf5, deflate string, err error) {
	err = withLib(func() error {
		var major, minor, release C.uint
		if C.H5get_libversion(&major, &minor, &release) < 0 {
			return fmt.Errorf("reading the version of libhdf5: %w", libError())
		}
		hdf5 = fmt.Sprintf("%d.%d.%d", major, minor, release)
		return nil
	})
	return hdf5, C.LIBDEFLATE_VERSION_STRING, err
}
