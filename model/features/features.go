// Package features hands out what a frozen encoder makes of the frames of a data set:
// from a cache on the disk that is filled once, or computed as they are needed where
// the cache would not fit. The numbers are the same either way, since all of them
// are rounded to bf16. It knows no encoder and no model.
package features

import (
	"context"
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

// Source hands out features.
type Source interface {
	// Features writes those of rows to dst, Patches*Width numbers in bf16 a row.
	Features(ctx context.Context, rows []int32, dst []uint16) error
	Close() error
}

// Key is what features depend on. Those of another key are never taken for them.
type Key struct {
	Data      string `json:"data"`     // the data set's fingerprint
	Backbone  string `json:"backbone"` // SHA-256 of the encoder's file, or what else names its values
	FrameSize int    `json:"frame_size"`
	Resample  string `json:"resample"` // rule of the position table
	Device    string `json:"device"`   // the kind that computes them
	Patches   int    `json:"patches"`  // of a frame
	Width     int    `json:"width"`    // numbers of a patch
}

// numbers is how many a row has.
func (k Key) numbers() int { return k.Patches * k.Width }

// Options says what to make and where it may be kept.
type Options struct {
	Data   dataset.Source
	Frames dataset.FrameReader // of the size that the encoder sees
	Path   string              // of the data set; the cache is the folder Path + ".features"
	Key    Key                 // Data and FrameSize are set by Open
	// Encode writes the features of frames, one after another, to dst (model.Encoder.Latents). It
	// is called by one goroutine at a time.
	Encode   func(ctx context.Context, dst []float32, frames []byte) error
	Limit    Limit
	Workers  int // goroutines that read; 0: one a core
	Progress func(done, total int64, note string)
}

// Limit is how many bytes a cache may take.
type Limit int64

const (
	Off  Limit = 0
	Auto Limit = -1 // what the disk can spare, at most AutoMost
)

// AutoMost bounds a cache that nobody gave a size.
const AutoMost Limit = 64e9

// autoShare is how much of a disk's free space such a cache may take.
const autoShare = 0.75

// ParseLimit reads "auto", "off" or a size such as 500MB, 40GB or 1.5TB.
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
	return Off, fmt.Errorf("%q is no size of a feature cache (hint: auto, off, or a size such as 40GB)", text)
}

func (l Limit) String() string {
	switch l {
	case Auto:
		return "auto"
	case Off:
		return "off"
	}
	return size(int64(l))
}

// size is a number of bytes for people.
func size(bytes int64) string {
	if bytes < 1e9 {
		return fmt.Sprintf("%.3g MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.4g GB", float64(bytes)/1e9)
}

// Open is the cache of a data set's features where it fits into the limit, filled to the last row, else a
// source that computes them again and again. note says which and why in one line.
func Open(ctx context.Context, o Options) (s Source, note string, err error) {
	if o.Key.Data, err = o.Data.Fingerprint(); err != nil {
		return nil, "", err
	}
	o.Key.FrameSize = o.Frames.Size()
	c, err := newCache(o)
	if err != nil {
		return nil, "", err
	}
	why, err := c.refusal()
	if err != nil {
		return nil, "", err
	}
	if why != "" {
		return newRing(o), "features are computed as they are needed: " + why, nil
	}
	made, err := c.fill(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("filling the feature cache: %w", err)
	}
	note = fmt.Sprintf("features come from the cache %s of %s (%d of %d shards were there)", c.dir, size(c.bytes()), len(c.shards)-made, len(c.shards))
	if c.replaced > 0 {
		note += fmt.Sprintf("; %d were torn or of an earlier version and are computed again", c.replaced)
	}
	return c, note + c.others(), nil
}

// refusal is why there is to be no cache. An error is what only the user can
// resolve: a size was given and the disk has not so much.
func (c *cache) refusal() (why string, err error) {
	if c.Limit == Off {
		return "the feature cache is off", nil
	}
	missing, err := c.missing()
	if err != nil {
		return "", err
	}
	have := c.bytes()
	for _, s := range missing {
		have -= s.bytes(c)
	}
	disk, err := safefile.Free(filepath.Dir(c.Path))
	if err != nil {
		return "", fmt.Errorf("looking for space for the feature cache %s: %w (hint: --feature-cache off does without it)", c.dir, err)
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
	if err := c.describe(); err != nil {
		if c.Limit == Auto && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
			return fmt.Sprintf("nothing can be written beside the data set (%v)", err), nil
		}
		return "", err
	}
	return "", nil
}

// bf16 rounds to the nearest bf16, ties to the even one.
func bf16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 1<<6 // a NaN stays one
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// atOnce is how many frames are read and encoded together.
const atOnce = 64

// encode makes the features of rows and hands those of row i to use.
func (o *Options) encode(ctx context.Context, rows []int32, use func(i int, values []uint16) error) error {
	frame, n := 3*o.Key.FrameSize*o.Key.FrameSize, o.Key.numbers()
	most := min(len(rows), atOnce)
	px, dst, values := make([]byte, most*frame), make([]float32, most*n), make([]uint16, n)
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
			for j, v := range dst[i*n:][:n] {
				values[j] = bf16(v)
			}
			if err := use(from+i, values); err != nil {
				return err
			}
		}
	}
	return nil
}
