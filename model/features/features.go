// Package features provides the outputs of a frozen encoder for the frames of a data
// set.
//
// Open returns a Source. It is a cache on disk, which Open fills for all rows first,
// if the cache fits into the limit. Otherwise it computes features when they are
// requested and retains the most recent ones in memory. Both round all numbers to
// bf16, unless Key.Float32 is set, so that a training gives the same bytes with either.
//
// The package does not depend on an encoder or a model: Options.Encode computes the
// features, and Key identifies everything that they depend on.
package features

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"scalewm/dataset"
	"scalewm/dataset/parallel"
	"scalewm/dataset/safefile"
)

// Source provides features by row.
type Source interface {
	// Features writes the features of the given rows to dst, Patches*Width numbers per
	// row. A row may be listed more than once.
	Features(ctx context.Context, rows []int32, dst []float32) error
	Close() error
}

// Key holds everything that features depend on. Its hash names a cache, so that
// features with another key are never used.
type Key struct {
	Data      string `json:"data"`       // fingerprint of the data set
	Backbone  string `json:"backbone"`   // SHA-256 that identifies the encoder's weights
	FrameSize int    `json:"frame_size"` // edge of the encoded frames in pixels
	Resample  string `json:"resample"`   // rule for resampling the position table
	Device    string `json:"device"`     // kind of the device that computes the features
	Patches   int    `json:"patches"`    // P, patches per frame
	Width     int    `json:"width"`      // D, numbers per patch
	// Float32 stores the numbers as they are, in 4 bytes instead of the 2 of bf16.
	Float32 bool `json:"float32,omitempty"`
}

// numbers returns the number of features per row.
func (k Key) numbers() int { return k.Patches * k.Width }

// bytes returns the size of the stored numbers of a row.
func (k Key) bytes() int {
	if k.Float32 {
		return 4 * k.numbers()
	}
	return 2 * k.numbers()
}

// pack appends the numbers of a row to dst as they are stored, little-endian.
func (k Key) pack(dst []byte, values []float32) []byte {
	for _, v := range values {
		if k.Float32 {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
		} else {
			dst = binary.LittleEndian.AppendUint16(dst, bf16(v))
		}
	}
	return dst
}

// unpack is the inverse of pack.
func (k Key) unpack(dst []float32, row []byte) {
	for i := range dst {
		if k.Float32 {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:]))
		} else {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(row[2*i:])) << 16)
		}
	}
}

// Options describes the features to provide and where they may be stored.
type Options struct {
	Data   dataset.Source
	Frames dataset.FrameReader // frames of the size that the encoder takes
	Path   string              // path of the data set; caches are in the folder Path + ".features"
	Key    Key                 // Open sets Data and FrameSize
	// Encode writes the features of frames to dst, in their order
	// (model.Encoder.Latents). It is called by one goroutine at a time.
	Encode   func(ctx context.Context, dst []float32, frames []byte) error
	Limit    Limit
	Workers  int // goroutines that read files, or 0 for one per core
	Progress func(done, total int64, note string)
}

// Limit is the maximum size of a cache in bytes, or Off or Auto.
type Limit int64

const (
	Off  Limit = 0  // no cache
	Auto Limit = -1 // as much as the disk can spare, at most AutoMost
)

// AutoMost is the maximum size of a cache with the limit Auto.
const AutoMost Limit = 64e9

// autoShare is the share of the disk's free space that such a cache may use.
const autoShare = 0.75

// ParseLimit parses "auto", "off" or a size such as 500MB, 40GB or 1.5TB. Units are
// powers of 1000.
func ParseLimit(text string) (Limit, error) {
	switch text {
	case "auto":
		return Auto, nil
	case "off":
		return Off, nil
	}
	for unit, bytes := range map[string]float64{"MB": 1e6, "GB": 1e9, "TB": 1e12} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			if v, err := strconv.ParseFloat(number, 64); err == nil && v > 0 && v*bytes < math.MaxInt64 {
				return Limit(v * bytes), nil
			}
		}
	}
	return Off, fmt.Errorf("%q is not a size of a feature cache (hint: auto, off, or a size such as 40GB)", text)
}

// String returns the limit in a form for messages.
func (l Limit) String() string {
	switch l {
	case Auto:
		return "auto"
	case Off:
		return "off"
	}
	return size(int64(l))
}

// size formats a number of bytes for messages.
func size(bytes int64) string {
	if bytes < 1e9 {
		return fmt.Sprintf("%.3g MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.4g GB", float64(bytes)/1e9)
}

// Open returns a Source for the features of a data set. If a cache fits into the
// limit, Open computes all missing features and returns the cache. Otherwise it
// returns a source that computes features on request. note is one line that says
// which of the two it is, and why.
func Open(ctx context.Context, o Options) (s Source, note string, err error) {
	if o.Key.Data, err = o.Data.Fingerprint(); err != nil {
		return nil, "", err
	}
	o.Key.FrameSize = o.Frames.Size()
	c, err := newCache(o)
	if err != nil {
		return nil, "", err
	}
	why, err := c.reasonAgainst()
	if err != nil {
		return nil, "", err
	}
	if why != "" {
		return newRing(o), "features are computed as they are needed: " + why, nil
	}
	filled, err := c.fill(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("filling the feature cache: %w", err)
	}
	note = fmt.Sprintf("features come from the cache %s of %s (%d of %d shards existed)", c.dir, size(c.bytes()), len(c.shards)-filled, len(c.shards))
	if c.replaced > 0 {
		note += fmt.Sprintf("; %d were damaged or of an older format and are computed again", c.replaced)
	}
	return c, note + c.otherCaches(), nil
}

// reasonAgainst returns why no cache should be used, or "" if one should. Existing
// shards count as space that is available. An error is something that the user must
// resolve: for example, the user gave a size for which the disk does not have the
// space.
func (c *cache) reasonAgainst() (why string, err error) {
	if c.Limit == Off {
		return "the feature cache is off", nil
	}
	missing, err := c.missing()
	if err != nil {
		return "", err
	}
	have := c.bytes() // size of the existing shards
	for _, s := range missing {
		have -= s.bytes(c)
	}
	disk, err := safefile.Free(filepath.Dir(c.Path))
	if err != nil {
		return "", fmt.Errorf("looking for space for the feature cache %s: %w (hint: --feature-cache off disables the cache)", c.dir, err)
	}
	limit := int64(c.Limit)
	if c.Limit == Auto {
		limit = min(int64(AutoMost), have+int64(autoShare*float64(disk)))
	}
	if need := c.bytes(); need > limit {
		return fmt.Sprintf("the cache of all %d frames takes %s, and %s allows %s (hint: --feature-cache takes a size)", c.Data.Rows(), size(need), c.Limit, size(limit)), nil
	}
	if need := c.bytes() - have; need > disk {
		return "", fmt.Errorf("the feature cache %s needs another %s, and its disk has %s free (hint: free some space, or give --feature-cache off or auto)", c.dir, size(need), size(disk))
	}
	if len(missing) == 0 {
		return "", nil
	}
	// Writing the key shows whether the folder is writable, before anything is computed.
	if err := c.describe(); err != nil {
		if c.Limit == Auto && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
			return fmt.Sprintf("cannot write next to the data set (%v)", err), nil
		}
		return "", err
	}
	return "", nil
}

// bf16 rounds v to bf16, to nearest with ties to even. Adding 0x7fff plus the lowest
// retained bit carries into the upper 16 bits exactly if v must be rounded up.
func bf16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 1<<6 // truncation alone could turn a NaN into an infinity
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// atOnce is the number of frames that are read and encoded in one batch.
const atOnce = 64

// encode computes the features of rows and calls use with those of row i as they are
// stored, in order. row is only valid during the call.
func (o *Options) encode(ctx context.Context, rows []int32, use func(i int, row []byte) error) error {
	frame, n := 3*o.Key.FrameSize*o.Key.FrameSize, o.Key.numbers()
	most := min(len(rows), atOnce)
	px, dst, row := make([]byte, most*frame), make([]float32, most*n), make([]byte, 0, o.Key.bytes())
	for from := 0; from < len(rows); from += atOnce {
		piece := rows[from:min(from+atOnce, len(rows))]
		err := parallel.For(ctx, o.Workers, len(piece), func(_, i int) error { return o.Frames.Frame(int(piece[i]), px[i*frame:][:frame]) })
		if err != nil {
			return fmt.Errorf("reading frames: %w", err)
		}
		if err := o.Encode(ctx, dst[:len(piece)*n], px[:len(piece)*frame]); err != nil {
			return fmt.Errorf("encoding frames: %w", err)
		}
		for i := range piece {
			if err := use(from+i, o.Key.pack(row, dst[i*n:][:n])); err != nil {
				return err
			}
		}
	}
	return nil
}
