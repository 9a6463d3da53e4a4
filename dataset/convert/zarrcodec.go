package convert

import (
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"scalewm/dataset/hdf5"
)

// errZarrCodec is the error for a codec that is not built in.
func errZarrCodec(name string) error {
	return fmt.Errorf("it uses the codec %.60q, which is not built in (hint: read it with `zarr.open(PATH)` in Python and write it again with Blosc or zstd, or leave it out with --drop)", name)
}

// pipeline takes the codecs of version 3: those that reorder axes, one that makes
// bytes, and those that compress. If outer is set, the latter may be a shard.
func (a *zarrArray) pipeline(codecs []zarrCodec, outer bool) error {
	if a.order == nil {
		for i := range a.shape {
			a.order = append(a.order, i)
		}
	}
	made := false
	for i, c := range codecs {
		c.Name = strings.TrimPrefix(c.Name, "numcodecs.")
		switch {
		case c.Name == "transpose" && !made:
			if err := a.transpose(c); err != nil {
				return err
			}
		case c.Name == "bytes" && !made:
			var p struct{ Endian string }
			if err := c.configure(&p); err != nil {
				return err
			}
			a.t.bigEndian, made = p.Endian == "big", true
		case c.Name == "sharding_indexed" && outer && len(codecs) == 1:
			return a.sharded(c)
		case !made:
			a.fault = errZarrCodec(codecs[i].Name)
			return nil
		default:
			a.compressed(c)
		}
	}
	if !made {
		return errors.New("its codecs make no bytes")
	}
	return nil
}

// transpose applies a codec that reorders the axes of chunks.
func (a *zarrArray) transpose(c zarrCodec) error {
	var p struct{ Order []int }
	if err := c.configure(&p); err != nil {
		return err
	}
	// A permutation of the axes is, when sorted, the axes in their order.
	if !slices.Equal(sorted(p.Order), sorted(a.order)) {
		return fmt.Errorf("its axes are reordered by %v", p.Order)
	}
	order := make([]int, len(a.order))
	for k, axis := range p.Order {
		order[k] = a.order[axis]
	}
	a.order = order
	return nil
}

// compressed adds a codec that compresses bytes.
func (a *zarrArray) compressed(c zarrCodec) {
	if a.codecs = append(a.codecs, c); !slices.Contains(zarrCodecs, c.Name) {
		a.fault = errZarrCodec(c.Name)
	}
}

// zarrCodecs are the codecs of compressed bytes.
var zarrCodecs = []string{"blosc", "bz2", "crc32c", "gzip", "lz4", "zlib", "zstd"}

// decode decodes a stored chunk. It may use the memory of src.
func (a *zarrArray) decode(src []byte) ([]byte, error) {
	want := a.t.size
	for _, n := range a.chunk {
		want *= n
	}
	for i := len(a.codecs) - 1; i >= 0; i-- {
		// Only the last step has a known size. A codec enlarges data by less than this.
		size := want
		if i > 0 {
			size = maxZarrStored(want)
		}
		var err error
		if src, err = zarrDecode(a.codecs[i].Name, src, size); err != nil {
			return nil, fmt.Errorf("%s: %w", a.codecs[i].Name, err)
		}
	}
	if len(src) != want {
		return nil, fmt.Errorf("%w: it has %d bytes instead of %d", errZarrDamaged, len(src), want)
	}
	return src, nil
}

// maxZarrStored is the largest number of bytes in which a codec stores n bytes.
func maxZarrStored(n int) int { return n + n/4 + 1<<16 }

// zarrDecode decodes what one codec stored, of at most size bytes.
func zarrDecode(codec string, src []byte, size int) ([]byte, error) {
	switch codec {
	case "crc32c":
		return stripCRC32C(src)
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return nil, err
		}
		return readUpTo(r, size)
	case "bz2":
		return readUpTo(bzip2.NewReader(bytes.NewReader(src)), size)
	case "lz4":
		// numcodecs stores the size before the block.
		if len(src) < 4 || binary.LittleEndian.Uint32(src) > uint32(size) {
			return nil, errZarrDamaged
		}
		size, src = int(binary.LittleEndian.Uint32(src)), src[4:]
	}
	b, ok, err := hdf5.Decompress(codec, make([]byte, size), src)
	if !ok {
		return nil, errZarrCodec(codec)
	}
	return b, err
}

// readUpTo reads a stream of at most size bytes to its end.
func readUpTo(r io.Reader, size int) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := b.ReadFrom(io.LimitReader(r, int64(size)+1))
	if err == nil && b.Len() > size {
		err = fmt.Errorf("%w: it decodes to more than %d bytes", errZarrDamaged, size)
	}
	return b.Bytes(), err
}

// stripCRC32C verifies the checksum behind the bytes and removes it.
func stripCRC32C(src []byte) ([]byte, error) {
	n := len(src) - 4
	if n < 0 || crc32.Checksum(src[:n], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(src[n:]) {
		return nil, fmt.Errorf("%w: the checksum differs", errZarrDamaged)
	}
	return src[:n], nil
}
