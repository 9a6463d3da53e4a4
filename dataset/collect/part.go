package collect

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"scalewm/dataset/safefile"
	"scalewm/envs"
)

// partMagic begins the file of a part. Then follow the length of a JSON header
// (uint32), the header, and for each episode its columns as float64, the stored sizes
// of its frames (uint32) and the frames. The CRC-32C of everything before is at the
// end. All numbers are little-endian.
const partMagic = "SWPART1\n"

// castagnoli is the table of CRC-32C, which processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errPart means that a part is torn, damaged or of another version. It is recorded
// again.
var errPart = errors.New("the part is damaged")

// partHeader is the JSON header: the columns, and the number of rows of each episode.
type partHeader struct {
	Columns []envs.Column
	Lens    []int
}

// contents is a part that was read from its file.
type contents struct {
	partHeader
	episodes []episode
}

// fits reports whether the part has these columns and n episodes.
func (p *contents) fits(columns []envs.Column, n int) bool {
	return len(p.episodes) == n && slices.EqualFunc(p.Columns, columns, func(a, b envs.Column) bool {
		return a.Name == b.Name && a.DType == b.DType && a.Width == b.Width
	})
}

// writePart writes a complete part atomically: a part that exists is finished.
func writePart(path string, columns []envs.Column, eps []episode) error {
	return safefile.Write(path, func(w io.Writer) error {
		sum := crc32.New(castagnoli)
		if err := encodePart(io.MultiWriter(w, sum), columns, eps); err != nil {
			return err
		}
		return binary.Write(w, binary.LittleEndian, sum.Sum32())
	})
}

// encodePart writes everything but the checksum.
func encodePart(w io.Writer, columns []envs.Column, eps []episode) error {
	h := partHeader{Columns: columns}
	for _, e := range eps {
		h.Lens = append(h.Lens, e.rows)
	}
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	b := append([]byte(partMagic), binary.LittleEndian.AppendUint32(nil, uint32(len(head)))...)
	if _, err := w.Write(append(b, head...)); err != nil {
		return err
	}
	for _, e := range eps {
		b = b[:0]
		for _, c := range columns {
			for _, v := range e.columns[c.Name] {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			}
		}
		for _, f := range e.frames {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(f)))
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		for _, f := range e.frames {
			if _, err := w.Write(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// readPart reads and verifies the file of a part.
func readPart(path string) (*contents, error) {
	b, err := safefile.Read(path, safefile.MaxPart)
	if err != nil {
		return nil, err
	}
	p, err := decodePart(b)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w (hint: run the same command again)", path, err)
	}
	return p, nil
}

// decodePart verifies the checksum before it parses anything. Frames of the result
// share b's memory.
func decodePart(b []byte) (*contents, error) {
	if len(b) < len(partMagic)+8 || !bytes.HasPrefix(b, []byte(partMagic)) {
		return nil, errPart
	}
	body, want := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != want {
		return nil, errPart
	}
	return parsePart(body[len(partMagic):])
}

// parsePart parses a part without magic and checksum. Every length is checked against
// the remaining bytes before memory is allocated.
func parsePart(b []byte) (*contents, error) {
	n := binary.LittleEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return nil, errPart
	}
	p := &contents{}
	if err := json.Unmarshal(b[:n], &p.partHeader); err != nil {
		return nil, errPart
	}
	b = b[n:]
	for _, rows := range p.Lens {
		e := episode{rows: rows, columns: map[string][]float64{}}
		if rows < 1 || rows > len(b) {
			return nil, errPart
		}
		for _, c := range p.Columns {
			if c.Width < 1 || c.Width > len(b)/8/rows {
				return nil, errPart
			}
			v := make([]float64, rows*c.Width)
			for i := range v {
				v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
			}
			e.columns[c.Name], b = v, b[8*len(v):]
		}
		if rows > len(b)/4 {
			return nil, errPart
		}
		sizes := b[:4*rows]
		b = b[4*rows:]
		for i := range rows {
			n := binary.LittleEndian.Uint32(sizes[4*i:])
			if n == 0 || uint64(n) > uint64(len(b)) {
				return nil, errPart
			}
			e.frames, b = append(e.frames, b[:n]), b[n:]
		}
		p.episodes = append(p.episodes, e)
	}
	if len(b) != 0 {
		return nil, errPart
	}
	return p, nil
}
