package hdf5

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"scalewm/dataset"
	"scalewm/envs"
)

// sampledFrames is the number of frames that are hashed into the fingerprint. Hashing
// all frames of a published file would read 100 GB, and the numeric columns, which
// are hashed completely, differ wherever episodes do.
const sampledFrames = 256

// fingerprint is computed once per open file.
type fingerprint struct {
	once sync.Once
	hex  string
	err  error
}

// Fingerprint implements dataset.Source. It is the SHA-256 of the number of rows, the
// offsets and lengths of the episodes, every numeric column except indices of
// episodes and steps (name, width and all values as float64), and the decoded bytes
// of 256 frames spread evenly over the rows. It does not depend on chunks, filters,
// integer widths or the order of columns. Splits and ids of cells depend on it, so
// the definition must not change.
func (h *File) Fingerprint() (string, error) {
	h.print.once.Do(func() { h.print.hex, h.print.err = h.computePrint() })
	return h.print.hex, h.print.err
}

func (h *File) computePrint() (string, error) {
	sum := sha256.New()
	put := func(v ...int) {
		for _, x := range v {
			binary.Write(sum, binary.LittleEndian, int64(x))
		}
	}
	put(h.rows, len(h.episodes))
	for _, e := range h.episodes {
		put(e.Offset, e.Len)
	}
	cols := slices.Clone(h.columns)
	slices.SortFunc(cols, func(a, b envs.Column) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range cols {
		if IsIndex(c.Name) {
			continue
		}
		fmt.Fprintf(sum, "%s\n", c.Name)
		put(c.Width)
		if err := h.hashColumn(sum, c.Name); err != nil {
			return "", err
		}
	}
	if h.FrameSize() == 0 {
		return hex.EncodeToString(sum.Sum(nil)), nil
	}
	frame := make([]byte, frameBytes(h.FrameSize()))
	for _, row := range sampleRows(h.rows) {
		if err := h.Frame(row, frame); err != nil {
			return "", err
		}
		put(row)
		sum.Write(frame)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// hashColumn hashes a column in blocks of about 1 MiB, so that a long column is never
// in memory completely.
func (h *File) hashColumn(sum interface{ Write([]byte) (int, error) }, name string) error {
	rows := max(1, 1<<20/max(1, h.sets[name].rowBytes))
	var b []byte
	for from := 0; from < h.rows; from += rows {
		v, err := h.Read(name, from, min(from+rows, h.rows))
		// Integers that float64 cannot represent are hashed as their rounded values.
		if err != nil && !errors.Is(err, dataset.ErrInexact) {
			return err
		}
		b = b[:0]
		for _, x := range v {
			if x != x {
				// NaN has many bit patterns, which mean the same.
				x = math.NaN()
			}
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		sum.Write(b)
	}
	return nil
}

// sampleRows returns up to sampledFrames rows, spread evenly, including the first and
// the last.
func sampleRows(rows int) []int {
	n := min(rows, sampledFrames)
	out := make([]int, n)
	for i := range out {
		out[i] = i
		if n < rows {
			out[i] = i * (rows - 1) / (n - 1)
		}
	}
	return out
}

// IsIndex reports whether a column only numbers episodes or steps.
func IsIndex(name string) bool {
	return name == indexName || name == "episode_idx" || name == stepName
}
