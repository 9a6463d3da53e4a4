package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// numpyNames has the names that the numeric types of version 3 have in NumPy.
var numpyNames = map[string]string{"bool": "b1", "uint8": "u1", "int8": "i1", "uint16": "u2", "int16": "i2", "uint32": "u4", "int32": "i4",
	"uint64": "u8", "int64": "i8", "float16": "f2", "float32": "f4", "float64": "f8"}

// version3 takes the fields that only version 3 has.
func (a *zarrArray) version3(m zarrMeta) (err error) {
	var name string
	// Types with parameters, such as texts, have an object in place of a name.
	_ = json.Unmarshal(m.DataType, &name)
	if a.t, a.fault = parseNumpyType("<" + numpyNames[name]); a.fault != nil {
		a.fault = fmt.Errorf("it is of the type %.80s: %w", m.DataType, errNotNumeric)
		return nil
	}
	if len(m.Transformers) > 0 {
		return fmt.Errorf("it uses the storage transformer %.40q, which is not built in", m.Transformers[0].Name)
	}
	var grid struct {
		Chunk []int `json:"chunk_shape"`
	}
	var keys struct {
		Separator string `json:"separator"`
	}
	if m.Grid.Name != "regular" {
		return fmt.Errorf("its chunk grid is %.40q, and only regular ones are read", m.Grid.Name)
	}
	if err = m.Grid.configure(&grid); err == nil {
		err = m.Keys.configure(&keys)
	}
	if err != nil {
		return err
	}
	switch m.Keys.Name {
	case "default":
		a.separator = cmp.Or(keys.Separator, "/")
		a.prefix = "c" + a.separator
	case "v2":
		a.separator = cmp.Or(keys.Separator, ".")
	default:
		return fmt.Errorf("the names of its chunks are encoded as %.40q, and default and v2 are read", m.Keys.Name)
	}
	a.chunk = grid.Chunk
	if err := a.pipeline(m.Codecs, true); err != nil {
		return err
	}
	a.fill = a.t.element(m.Fill)
	return nil
}

// check returns an error if shapes are impossible or a chunk is too large for memory.
func (a *zarrArray) check() error {
	if len(a.shape) != len(a.chunk) || len(a.shape) > maxAxes {
		return fmt.Errorf("its shape is %v and that of its chunks %v", a.shape, a.chunk)
	}
	if a.separator != "." && a.separator != "/" {
		return fmt.Errorf("the names of its chunks are separated by %.10q", a.separator)
	}
	// band is the size of the chunks with the same rows.
	size, band := a.t.size, a.t.size
	for i, n := range a.chunk {
		if n < 1 || n > maxZarrChunk/size {
			return fmt.Errorf("its chunks have the shape %v, and chunks have 1 to %d bytes", a.chunk, maxZarrChunk)
		}
		if size *= n; i == 0 {
			band *= n
		} else if a.shape[i] > 0 && band > maxZarrChunk/a.shape[i] {
			return fmt.Errorf("%d rows of its shape %v have more than %d bytes", a.chunk[0], a.shape, maxZarrChunk)
		} else {
			band *= a.shape[i]
		}
	}
	return nil
}

// rowBytes is the size of a row.
func (a *zarrArray) rowBytes() int {
	n := a.t.size
	for _, edge := range a.shape[min(1, len(a.shape)):] {
		n *= edge
	}
	return n
}
