package tensorfile

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
)

// maxHeader is the limit of the format on the size of a header.
const maxHeader = 100 << 20

// Write writes tensors in the given order as a safetensors file. meta, which may be
// nil, becomes its metadata. Equal arguments give equal bytes.
//
// The file is the size of the header, 8 bytes; the header, a JSON object, padded with
// spaces to a multiple of 8 bytes so that the data is aligned; and the numbers of all
// tensors, little-endian.
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
	head, err := json.Marshal(header) // sorts the keys
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

// entry is the description of a tensor in a header.
type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets []int  `json:"data_offsets"` // begin and end, relative to the end of the header
}

// Parse parses a safetensors file. It checks that every tensor's range lies within
// the file and fits its shape, and that the ranges cover all data without
// overlapping.
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

// headerEnd returns the offset of the end of the header that begins b, or 8 if its
// size exceeds maxHeader, which parseHeader then reports.
func headerEnd(b []byte) int64 {
	if n := binary.LittleEndian.Uint64(b); n <= maxHeader {
		return 8 + int64(n)
	}
	return 8
}

// parseHeader parses the header that begins b and checks it against the size of the
// file. b need not contain the data.
func parseHeader(b []byte, size int64) (entries map[string]entry, meta map[string]string, err error) {
	const hint = "(hint: the file is torn or not safetensors)"
	if len(b) < 8 {
		return nil, nil, fmt.Errorf("%d bytes are too few for a safetensors file %s", len(b), hint)
	}
	n := binary.LittleEndian.Uint64(b)
	if n > maxHeader || n > uint64(len(b)-8) {
		return nil, nil, fmt.Errorf("the header claims %d bytes of a file of %d %s", n, size, hint)
	}
	// The values are decoded one by one, since the metadata has another type than the
	// tensors.
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
	// Ranges that do not overlap and add up to the size of the data cover all of it:
	// no bytes are hidden from the reader.
	for _, e := range entries {
		used += e.Offsets[1] - e.Offsets[0]
	}
	if err = overlap(entries); err == nil && used != data {
		err = fmt.Errorf("its tensors fill %d of its %d bytes of data %s", used, data, hint)
	}
	return entries, meta, err
}

// check returns an error unless the entry's range lies within total bytes of data and
// fits its shape. n > total is checked before the product, which could overflow.
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

// overlap returns an error if two tensors share bytes. It sorts the ranges by their
// begin and compares each with the largest end so far.
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
