package replay

import (
	"fmt"

	"scalewm/dataset"
	"scalewm/envs"
)

// memory is a data set in memory.
type memory struct {
	episodes []dataset.Episode
	columns  []envs.Column
	data     map[string][]float64
	frames   [][]byte
	attrs    map[string]string
}

func (m *memory) Rows() int {
	n := 0
	for _, e := range m.episodes {
		n += e.Len
	}
	return n
}
func (m *memory) Episodes() []dataset.Episode { return m.episodes }
func (m *memory) Columns() []envs.Column      { return m.columns }
func (m *memory) FrameSize() int {
	if m.frames == nil {
		return 0
	}
	return envs.FrameSize
}
func (m *memory) Close() error { return nil }

func (m *memory) Read(column string, from, to int) ([]float64, error) {
	for _, c := range m.columns {
		if c.Name == column {
			return m.data[column][from*c.Width : to*c.Width], nil
		}
	}
	return nil, fmt.Errorf("no column %q", column)
}

func (m *memory) Frame(row int, dst []byte) error {
	copy(dst, m.frames[row])
	return nil
}

func (m *memory) Attr(name string) (string, bool) {
	v, ok := m.attrs[name]
	return v, ok
}

func (m *memory) Fingerprint() (string, error) { return "memory", nil }
