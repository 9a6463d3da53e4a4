package export

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"scalewm/dataset/parallel"
	"scalewm/dataset/safefile"
)

// chunkBytes is the size of a chunk before compression, or of a row if that is larger.
// diffusion_policy's buffers have 2 MB too.
const chunkBytes = 2 << 20

// zarr writes a replay buffer of diffusion_policy as Zarr of version 2, which every
// release of zarr-python reads: data/img, data/COLUMN, meta/episode_ends.
type zarr struct {
	dir string
	// arrays are the columns, the frames if there are any, and the ends of episodes.
	arrays  []*zarrArray
	encoder *zstd.Encoder
}

// zarrArray is an array of which rows are appended.
type zarrArray struct {
	dir, dtype string
	// shape is that of the complete array.
	shape []int
	// row is the size of a row in bytes, and chunk that of a chunk in rows.
	row, chunk int
	// chunks is the number of written chunks, and rest has the rows after them.
	chunks int
	rest   []byte
}

func createZarr(dir string, s *set) (writer, error) {
	z := &zarr{dir: dir}
	for _, group := range []string{"", "data", "meta"} {
		if err := writeJSON(filepath.Join(dir, group, ".zgroup"), map[string]int{"zarr_format": 2}); err != nil {
			return nil, err
		}
	}
	for _, c := range s.columns {
		z.add("data/"+c.theirs, c.DType, append([]int{s.rows}, c.shape()...))
	}
	if s.edge > 0 {
		z.add("data/"+s.pixels, "uint8", []int{s.rows, s.edge, s.edge, 3})
	}
	z.add("meta/episode_ends", "int64", []int{s.episodes})
	for _, a := range z.arrays {
		if err := a.describe(); err != nil {
			return nil, err
		}
	}
	// A single segment always has its size, which numcodecs before 0.16 needs.
	var err error
	z.encoder, err = zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	return z, err
}

func (z *zarr) add(name, dtype string, shape []int) {
	a := &zarrArray{dir: filepath.Join(z.dir, name), dtype: dtype, shape: shape, row: sizes[dtype]}
	for _, n := range shape[1:] {
		a.row *= n
	}
	a.chunk = max(1, min(chunkBytes/a.row, shape[0]))
	z.arrays = append(z.arrays, a)
}

// describe writes the metadata of an array
// (https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html).
func (a *zarrArray) describe() error {
	return writeJSON(filepath.Join(a.dir, ".zarray"), map[string]any{
		"zarr_format": 2,
		"shape":       a.shape,
		"chunks":      append([]int{a.chunk}, a.shape[1:]...),
		"dtype":       descr(a.dtype),
		"compressor":  map[string]any{"id": "zstd", "level": 3},
		"fill_value":  0,
		"order":       "C",
		"filters":     nil,
	})
}

func (z *zarr) append(ctx context.Context, e *episode) error {
	rows := append(e.values[:len(e.values):len(e.values)], e.frames)
	if e.frames == nil {
		rows = e.values
	}
	rows = append(rows, binary.LittleEndian.AppendUint64(nil, uint64(e.first+e.rows)))
	for i, a := range z.arrays {
		a.rest = append(a.rest, rows[i]...)
		if err := z.flush(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the complete chunks of an array.
func (z *zarr) flush(ctx context.Context, a *zarrArray) error {
	size := a.chunk * a.row
	n := len(a.rest) / size
	err := parallel.For(ctx, 0, n, func(_, i int) error {
		name := fmt.Sprint(a.chunks+i) + strings.Repeat(".0", len(a.shape)-1)
		return os.WriteFile(filepath.Join(a.dir, name), z.encoder.EncodeAll(a.rest[i*size:(i+1)*size], nil), 0o666)
	})
	a.chunks += n
	a.rest = append(a.rest[:0], a.rest[n*size:]...)
	return err
}

// close writes the last chunks, which have the size of the others.
func (z *zarr) close() error {
	for _, a := range z.arrays {
		if len(a.rest) == 0 {
			continue
		}
		a.rest = append(a.rest, make([]byte, a.chunk*a.row-len(a.rest))...)
		if err := z.flush(context.Background(), a); err != nil {
			return err
		}
	}
	return nil
}

func (z *zarr) abort() {}

// writeJSON writes a file of metadata, and its folder.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "    ")
	if err == nil {
		err = safefile.MakeFolder(filepath.Dir(path))
	}
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o666)
	}
	return err
}
