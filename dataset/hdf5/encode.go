package hdf5

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

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
