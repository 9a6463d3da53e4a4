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

// sampledFrames is how many frames enter the fingerprint: all frames of a
// published file are 100 GB to hash, and numeric columns differ wherever
// episodes do.
const sampledFrames = 256

type fingerprint struct {
	once sync.Once
	hex  string
	err  error
}

// Fingerprint implements dataset.Source: SHA-256 over the number of rows, the
// episodes' offsets and lengths, every numeric column but the episode and step
// indices (name, width and all values as float64), and the decoded bytes of 256
// frames spread evenly over the rows. It does not depend on chunks, filters,
// integer widths or the order of columns.
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

// hashColumn hashes in blocks, so that a long column is never whole in memory.
func (h *File) hashColumn(sum interface{ Write([]byte) (int, error) }, name string) error {
	rows := max(1, 1<<20/max(1, h.sets[name].rowBytes))
	var b []byte
	for from := 0; from < h.rows; from += rows {
		v, err := h.Read(name, from, min(from+rows, h.rows))
		if err != nil && !errors.Is(err, dataset.ErrInexact) { // rounded integers are hashed as float64 too
			return err
		}
		b = b[:0]
		for _, x := range v {
			if x != x {
				x = math.NaN() // one pattern for every NaN
			}
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		sum.Write(b)
	}
	return nil
}

// sampleRows spreads up to sampledFrames rows evenly, first and last included.
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

// IsIndex says whether a column only numbers episodes or steps.
func IsIndex(name string) bool {
	return name == indexName || name == "episode_idx" || name == stepName
}
