package hdf5

/*
#cgo pkg-config: hdf5-serial libdeflate
// The wheel links HDF5 statically. Go's build cache tells the two by this flag, since it does not see pkg-config's output.
#cgo wheel LDFLAGS: -static-libgcc
#cgo CFLAGS: -O2 -Wall
#include <stdlib.h>
#include "lib.h"
#include <hdf5.h>
#include <libdeflate.h>
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strconv"
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

// description is the description of one HDF5 data set, by libhdf5 or, if that cannot
// open it, by describe.
type description struct {
	name  string
	class int
	// isBytes is set for sequences of variable length of unsigned bytes, of which
	// references into the global heap are stored.
	isBytes          bool
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

// listing is everything that libhdf5 reports about a group of an open file.
type listing struct {
	superblock
	// id is the open group, or the open file for its root group.
	id C.hid_t
	// own reads the file for data sets that libhdf5 cannot open.
	own  *cursor
	sets []description
	// groups has the addresses of the object headers of the groups in this one.
	groups map[string]uint64
	attrs  map[string]string
	// numbers has the attributes that are single numbers.
	numbers map[string]string
	// nonColumns has the entries that are not data sets, and attributes that are not
	// strings, with what they are.
	nonColumns map[string]string
}

// openListing opens a file with libhdf5 and lists its root group, of up to most
// entries. own reads the same file, from its superblock on.
func openListing(path string, s superblock, own *cursor, most int) (*listing, error) {
	l := &listing{superblock: s, own: own}
	err := withLib(func() error {
		p := C.CString(path)
		defer C.free(unsafe.Pointer(p))
		if l.id = C.sw_open(p); l.id < 0 {
			return libError()
		}
		err := l.fill(most)
		if err != nil {
			C.sw_close(l.id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// openGroup opens and lists a group of the same file by the address of its header. The
// caller has verified its metadata.
func (l *listing) openGroup(header uint64, most int) (*listing, error) {
	g := &listing{superblock: l.superblock, own: l.own}
	err := withLib(func() error {
		if g.id = C.sw_group(l.id, C.ulonglong(header)); g.id < 0 {
			return libError()
		}
		err := g.fill(most)
		if err != nil {
			g.release()
		}
		return err
	})
	return g, err
}

// contents lists groups and data sets for messages, the first dozen of each.
func (l *listing) contents() string {
	var groups, sets []string
	for _, name := range slices.Sorted(maps.Keys(l.groups)) {
		groups = append(groups, Quoted(name)+"/")
	}
	for _, d := range l.sets {
		text := Quoted(d.name)
		if d.fault() == "" {
			text += fmt.Sprintf(" %s %v", cmp.Or(d.dtype(), "bytes"), d.dims)
		}
		sets = append(sets, text)
	}
	const most = 12
	for _, list := range []*[]string{&groups, &sets} {
		if n := len(*list); n > most {
			*list = append((*list)[:most], fmt.Sprintf("%d more", n-most))
		}
	}
	if groups == nil && sets == nil {
		return "nothing"
	}
	return strings.Join(append(groups, sets...), ", ")
}

// Quoted returns a name for messages. One that no column can have is quoted.
func Quoted(name string) string {
	if NameFault(name) != "" {
		return strconv.Quote(name)
	}
	return name
}

// release closes a group and its data sets. The caller holds the lock.
func (l *listing) release() {
	for _, d := range l.sets {
		if d.id >= 0 {
			C.sw_close_dataset(d.id)
		}
	}
	C.sw_close_group(l.id)
}

// maxName is the longest name of a column, in bytes.
const maxName = 255

// maxSets bounds the entries of a root group. Published files have fewer than 50.
const maxSets = 4096

// names returns the names of the entries of a group, in alphabetical order. The caller
// holds the lock.
func (l *listing) names(most int) ([]string, error) {
	var list *C.char
	n := int(C.sw_names(l.id, C.longlong(most), &list))
	defer C.free(unsafe.Pointer(list))
	if n < 0 {
		return nil, fmt.Errorf("listing a group of at most %d entries: %w", most, libError())
	}
	names, at := make([]string, n), unsafe.Pointer(list)
	for i := range names {
		names[i] = C.GoString((*C.char)(at))
		at = unsafe.Add(at, len(names[i])+1)
	}
	return names, nil
}

// fill lists the data sets, groups and attributes of a group. The caller holds the
// lock.
func (l *listing) fill(most int) error {
	l.attrs, l.numbers, l.nonColumns, l.groups = map[string]string{}, map[string]string{}, map[string]string{}, map[string]uint64{}
	names, err := l.names(most)
	if err != nil {
		return err
	}
	for i, name := range names {
		if len(name) > maxName {
			l.nonColumns[fmt.Sprintf("%s (entry %d)", name[:maxName], i)] = "an entry with a name of 256 bytes or more"
			continue
		}
		if err := l.describe(name); err != nil {
			return err
		}
	}
	return l.fillAttributes()
}

// describe adds an entry of the group. The caller holds the lock.
func (l *listing) describe(name string) error {
	var d C.sw_dataset
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	switch rc := C.sw_describe(l.id, c, &d); {
	case rc == 1:
		g := goDescribed(name, &d)
		if g.offset != undefAddr {
			// libhdf5 reports the position in the file, and ours count from the
			// superblock.
			g.offset -= uint64(l.base)
		}
		l.sets = append(l.sets, g)
	case rc == 0:
		l.nonColumns[name] = C.GoString(d.other)
		if d.group != 0 {
			l.groups[name] = uint64(d.header)
		}
	// libhdf5 failed before it knew where the object is, or our parser does not
	// apply.
	case d.header == 0 || !l.parsable:
		return libError()
	default:
		why := libError()
		own, err := describe(l.own, name, uint64(d.header))
		if errors.Is(err, errChecksum) {
			return fmt.Errorf("column %s: %w", name, err)
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, why)
		}
		l.sets = append(l.sets, own)
	}
	return nil
}

// fillAttributes lists the attributes of the group. The caller holds the lock.
func (l *listing) fillAttributes() error {
	n := int(C.sw_attrs(l.id))
	if n < 0 {
		return libError()
	}
	for i := range n {
		var name [256]C.char
		var value *C.char
		rc := C.sw_attr(l.id, C.int(i), &name[0], C.int(len(name)), &value)
		text := C.GoString(value)
		C.free(unsafe.Pointer(value))
		switch {
		case rc == 1:
			l.attrs[C.GoString(&name[0])] = text
		case rc == 2:
			l.numbers[C.GoString(&name[0])] = text
			fallthrough
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
func goDescribed(name string, d *C.sw_dataset) description {
	g := description{
		name: name, class: int(d.kind), isBytes: d.is_bytes != 0, isBool: d.is_bool != 0, signed: d.is_signed != 0,
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
		if C.sw_close(l.id) < 0 {
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
