package weights

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
)

// maxHeader bounds a header; the format's own limit.
const maxHeader = 100 << 20

// Write writes tensors in the given order as one safetensors file, with meta as
// its string metadata.
func Write(w io.Writer, meta map[string]string, tensors []Tensor) error {
	header := map[string]any{}
	if len(meta) > 0 {
		header["__metadata__"] = meta
	}
	at := 0
	for _, t := range tensors {
		dtype, size, n := t.layout()
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		header[t.Name] = entry{DType: dtype, Shape: shape, Offsets: []int{at, at + n*size}}
		at += n * size
	}
	head, err := json.Marshal(header) // keys sorted: equal tensors give equal bytes
	if err != nil {
		return fmt.Errorf("writing a safetensors header: %w", err)
	}
	for len(head)%8 != 0 {
		head = append(head, ' ')
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(len(head))); err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}

// entry is a tensor in a header.
type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets []int  `json:"data_offsets"` // begin and end in the data part
}

// Parse checks the bytes of a file: every tensor's range lies inside, fits its
// shape and shares no byte with another, and no byte is outside of all.
func Parse(b []byte) (*File, error) {
	entries, meta, err := parseHeader(b, int64(len(b)))
	if err != nil {
		return nil, err
	}
	f, data := &File{Meta: meta, views: map[string]view{}}, b[headerEnd(b):]
	for name, e := range entries {
		f.views[name] = view{dtype: e.DType, shape: e.Shape, data: data[e.Offsets[0]:e.Offsets[1]]}
	}
	return f, nil
}

// headerEnd is where the header that b begins with ends, 8 of one that is too long.
func headerEnd(b []byte) int64 {
	if n := binary.LittleEndian.Uint64(b); n <= maxHeader {
		return 8 + int64(n)
	}
	return 8
}

// parseHeader checks the header that b begins with against the file's size.
func parseHeader(b []byte, size int64) (entries map[string]entry, meta map[string]string, err error) {
	const hint = "(hint: the file is torn or not safetensors)"
	if len(b) < 8 {
		return nil, nil, fmt.Errorf("%d bytes are no safetensors file %s", len(b), hint)
	}
	n := binary.LittleEndian.Uint64(b)
	if n > maxHeader || n > uint64(len(b)-8) {
		return nil, nil, fmt.Errorf("the header claims %d bytes of a file of %d %s", n, size, hint)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &raw); err != nil {
		return nil, nil, fmt.Errorf("the header is not JSON: %v %s", err, hint)
	}
	entries = map[string]entry{}
	data, used := int(size)-8-int(n), 0
	for name, text := range raw {
		if name == "__metadata__" {
			err = json.Unmarshal(text, &meta)
		} else {
			var e entry
			if err = json.Unmarshal(text, &e); err == nil {
				err = e.check(data)
			}
			entries[name] = e
		}
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %v %s", name, err, hint)
		}
	}
	for _, e := range entries {
		used += e.Offsets[1] - e.Offsets[0]
	}
	if err = overlap(entries); err == nil && used != data {
		err = fmt.Errorf("its tensors fill %d of its %d bytes of data %s", used, data, hint)
	}
	return entries, meta, err
}

func (e entry) check(total int) error {
	d, ok := dtypes[e.DType]
	if !ok {
		return fmt.Errorf("dtype %q is not known", e.DType)
	}
	if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > total {
		return fmt.Errorf("offsets %v lie outside %d bytes of data", e.Offsets, total)
	}
	n, ok := elements(e.Shape)
	if !ok || n > total || n*d.size != e.Offsets[1]-e.Offsets[0] {
		return fmt.Errorf("shape %v of %s does not fill %d bytes", e.Shape, e.DType, e.Offsets[1]-e.Offsets[0])
	}
	return nil
}

func overlap(entries map[string]entry) error {
	names := slices.Sorted(maps.Keys(entries))
	sort.SliceStable(names, func(i, j int) bool { return entries[names[i]].Offsets[0] < entries[names[j]].Offsets[0] })
	end, last := 0, ""
	for _, n := range names {
		o := entries[n].Offsets
		if o[0] < end && o[1] > o[0] {
			return fmt.Errorf("tensors %q and %q share bytes (hint: the file is torn or not safetensors)", last, n)
		}
		if o[1] > end {
			end, last = o[1], n
		}
	}
	return nil
}
