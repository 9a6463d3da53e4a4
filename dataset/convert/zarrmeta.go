package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"

	"scalewm/dataset/safefile"
)

// zarrArray is an array of a Zarr hierarchy: a grid of chunks of one shape.
type zarrArray struct {
	// name is the path in the store.
	name         string
	shape, chunk []int
	t            numpyType
	// order has, for each axis of a stored chunk, the axis of the array.
	order []int
	// codecs compress the bytes of a chunk, in the order in which they were applied.
	codecs []zarrCodec
	shard  *zarrShard
	// fill is the element, as stored, in chunks that are not stored; nil if that is
	// undefined.
	fill []byte
	// prefix, separator make the names of chunks from their indices.
	prefix, separator string
	// fault says why the array cannot be read. Only its shape is then valid.
	fault error

	zarrCache
}

// zarrCodec is a codec's name and parameters. Version 2 has no field for parameters,
// and nothing here needs them. Version 3 allows the name alone.
type zarrCodec struct {
	ID            string          `json:"id"`
	Name          string          `json:"name"`
	Configuration json.RawMessage `json:"configuration"`
}

func (c *zarrCodec) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &c.Name) == nil {
		return nil
	}
	type plain zarrCodec
	err := json.Unmarshal(b, (*plain)(c))
	c.Name = cmp.Or(c.Name, c.ID)
	return err
}

// configure parses the parameters into v.
func (c zarrCodec) configure(v any) error {
	if len(c.Configuration) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.Configuration, v); err != nil {
		return fmt.Errorf("parameters of the codec %.40q: %w", c.Name, err)
	}
	return nil
}

// zarrMeta is the metadata of a node: .zarray of version 2, zarr.json of version 3.
type zarrMeta struct {
	Format int             `json:"zarr_format"`
	Node   string          `json:"node_type"`
	Shape  []int           `json:"shape"`
	Fill   json.RawMessage `json:"fill_value"`

	Chunks     []int           `json:"chunks"`
	DType      json.RawMessage `json:"dtype"`
	Compressor *zarrCodec      `json:"compressor"`
	Filters    []zarrCodec     `json:"filters"`
	Order      string          `json:"order"`
	Separator  string          `json:"dimension_separator"`

	DataType     json.RawMessage `json:"data_type"`
	Grid         zarrCodec       `json:"chunk_grid"`
	Keys         zarrCodec       `json:"chunk_key_encoding"`
	Codecs       []zarrCodec     `json:"codecs"`
	Transformers []zarrCodec     `json:"storage_transformers"`
}

// bareNumbers matches fill values that JSON does not have but Python's writer makes.
var bareNumbers = regexp.MustCompile(`("fill_value"\s*:\s*)(-?Infinity|NaN)`)

// errNoZarrArray is the error for names that are not arrays.
var errNoZarrArray = errors.New("there is no array of this name")

// array opens an array.
func (s *zarrStore) array(name string) (*zarrArray, error) {
	b, err := s.read(path.Join(name, ".zarray"), int64(safefile.MaxRecord))
	if errors.Is(err, fs.ErrNotExist) {
		b, err = s.read(path.Join(name, "zarr.json"), int64(safefile.MaxRecord))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoZarrArray
	}
	var a *zarrArray
	if err == nil {
		a, err = parseZarr(name, b)
	}
	if err != nil && err != errNoZarrArray {
		err = fmt.Errorf("the array %s: %w (hint: if `zarr.open(PATH)` in Python reads it, write it again there)", name, err)
	}
	return a, err
}

// parseZarr parses the metadata of an array.
func parseZarr(name string, b []byte) (*zarrArray, error) {
	var m zarrMeta
	if err := json.Unmarshal(bareNumbers.ReplaceAll(b, []byte(`$1"$2"`)), &m); err != nil {
		return nil, fmt.Errorf("its metadata: %w", err)
	}
	if m.Node == "group" {
		return nil, errNoZarrArray
	}
	a := &zarrArray{name: name, shape: m.Shape, separator: m.Separator}
	var err error
	switch m.Format {
	case 2:
		err = a.version2(m)
	case 3:
		err = a.version3(m)
	default:
		err = fmt.Errorf("it has version %d of Zarr's format, and versions 2 and 3 are read", m.Format)
	}
	if len(a.shape) > 0 && slices.Min(a.shape) < 0 {
		err = fmt.Errorf("its shape is %v", a.shape)
	}
	if err == nil && a.fault == nil {
		err = a.check()
	}
	return a, err
}

// version2 takes the fields that only version 2 has.
func (a *zarrArray) version2(m zarrMeta) error {
	var descr string
	// Records have a list in place of a name.
	_ = json.Unmarshal(m.DType, &descr)
	if a.t, a.fault = parseNumpyType(descr); a.fault != nil {
		return nil
	}
	a.chunk, a.separator = m.Chunks, cmp.Or(m.Separator, ".")
	for i := range a.shape {
		a.order = append(a.order, i)
	}
	if m.Order == "F" {
		slices.Reverse(a.order)
	}
	if len(m.Filters) > 0 {
		a.fault = errZarrCodec(m.Filters[0].Name)
	}
	if m.Compressor != nil {
		a.compressed(*m.Compressor)
	}
	a.fill = a.t.element(m.Fill)
	return nil
}
