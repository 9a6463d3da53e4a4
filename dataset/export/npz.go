package export

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zip"
)

// npz writes a NumPy file for each episode, in the layout that package convert reads:
// an array for each column, and pixels. Nothing is changed, so that the same data set
// can be made from the files.
type npz struct {
	dir string
	set *set
}

func createNPZ(dir string, s *set) (writer, error) { return npz{dir, s}, nil }

func (n npz) append(_ context.Context, e *episode) error {
	f, err := os.Create(filepath.Join(n.dir, fmt.Sprintf("episode_%06d.npz", e.index)))
	if err != nil {
		return err
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for i, c := range n.set.columns {
		if err := writeNPY(z, c.theirs, c.DType, append([]int{e.rows}, c.shape()...), e.values[i]); err != nil {
			return err
		}
	}
	if n.set.edge > 0 {
		if err := writeNPY(z, n.set.pixels, "uint8", []int{e.rows, n.set.edge, n.set.edge, 3}, e.frames); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

func (n npz) close() error { return nil }

func (n npz) abort() {}

// writeNPY adds an array to an archive. The header has version 1 and a length that is
// a multiple of 64
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
func writeNPY(z *zip.Writer, name, dtype string, shape []int, data []byte) error {
	var axes strings.Builder
	for _, n := range shape {
		fmt.Fprintf(&axes, "%d, ", n)
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr(dtype), axes.String())
	const lead = len("\x93NUMPY") + 4 // the version, and the length in two bytes
	header += strings.Repeat(" ", 63-(lead+len(header))%64) + "\n"
	w, err := z.Create(name + ".npy")
	if err == nil {
		_, err = w.Write(append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header))), header...))
	}
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}
