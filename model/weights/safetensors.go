// Package weights reads and writes tensors of models in files: safetensors, and
// the JSON sidecar that says what they are. It knows names, shapes and bytes,
// no model.
package weights

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
)

// Tensor is a named array of a file. Exactly one of F32, F64 and I64 is set,
// and holds as many numbers as Shape says, row-major.
type Tensor struct {
	Name  string
	Shape []int // empty: a scalar
	F32   []float32
	F64   []float64
	I64   []int64
}

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
		if want, ok := elements(t.Shape); !ok || want != n {
			panic(fmt.Sprintf("weights: tensor %s has %d numbers for shape %v", t.Name, n, t.Shape))
		}
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

func (t Tensor) layout() (dtype string, size, n int) {
	switch {
	case t.F64 != nil:
		return "F64", 8, len(t.F64)
	case t.I64 != nil:
		return "I64", 8, len(t.I64)
	}
	return "F32", 4, len(t.F32)
}

func (t Tensor) write(w io.Writer) error {
	const batch = 1 << 16
	_, size, n := t.layout()
	b := make([]byte, 0, batch*size)
	for i := range n {
		switch {
		case t.F64 != nil:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(t.F64[i]))
		case t.I64 != nil:
			b = binary.LittleEndian.AppendUint64(b, uint64(t.I64[i]))
		default:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(t.F32[i]))
		}
		if len(b) == cap(b) || i == n-1 {
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	return nil
}

// File is a parsed safetensors file.
type File struct {
	Meta    map[string]string
	entries map[string]entry
	data    []byte
}

// Open reads and checks a whole file.
func Open(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("opening weights: %w (hint: train first, or give the path of weights.safetensors)", err)
	}
	f, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("reading weights %s: %w", path, err)
	}
	return f, nil
}

// Parse checks the bytes of a file: every tensor's range lies inside, fits its
// shape and shares no byte with another.
func Parse(b []byte) (*File, error) {
	const hint = "(hint: the file is torn or not safetensors)"
	if len(b) < 8 {
		return nil, fmt.Errorf("%d bytes are no safetensors file %s", len(b), hint)
	}
	n := binary.LittleEndian.Uint64(b)
	if n > maxHeader || n > uint64(len(b)-8) {
		return nil, fmt.Errorf("the header claims %d bytes of a file of %d %s", n, len(b), hint)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &raw); err != nil {
		return nil, fmt.Errorf("the header is not JSON: %v %s", err, hint)
	}
	f := &File{entries: map[string]entry{}, data: b[8+n:]}
	for name, text := range raw {
		var err error
		if name == "__metadata__" {
			err = json.Unmarshal(text, &f.Meta)
		} else {
			var e entry
			if err = json.Unmarshal(text, &e); err == nil {
				err = e.check(len(f.data))
			}
			f.entries[name] = e
		}
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %v %s", name, err, hint)
		}
	}
	return f, f.overlap()
}

// sizes of the dtypes that are understood, in bytes.
var sizes = map[string]int{"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "U8": 1, "I8": 1, "BOOL": 1}

func (e entry) check(total int) error {
	size, ok := sizes[e.DType]
	if !ok {
		return fmt.Errorf("dtype %q is not known", e.DType)
	}
	if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > total {
		return fmt.Errorf("offsets %v lie outside %d bytes of data", e.Offsets, total)
	}
	n, ok := elements(e.Shape)
	if !ok || n > total || n*size != e.Offsets[1]-e.Offsets[0] {
		return fmt.Errorf("shape %v of %s does not fill %d bytes", e.Shape, e.DType, e.Offsets[1]-e.Offsets[0])
	}
	return nil
}

// elements is the product of a shape, unless it is negative or overflows.
func elements(shape []int) (int, bool) {
	n := 1
	for _, d := range shape {
		if d < 0 || (d > 0 && n > math.MaxInt64/16/d) {
			return 0, false
		}
		n *= d
	}
	return n, true
}

func (f *File) overlap() error {
	names := f.Names()
	sort.SliceStable(names, func(i, j int) bool { return f.entries[names[i]].Offsets[0] < f.entries[names[j]].Offsets[0] })
	end, last := 0, ""
	for _, n := range names {
		o := f.entries[n].Offsets
		if o[0] < end && o[1] > o[0] {
			return fmt.Errorf("tensors %q and %q share bytes (hint: the file is torn or not safetensors)", last, n)
		}
		if o[1] > end {
			end, last = o[1], n
		}
	}
	return nil
}

// Names lists the tensors in alphabetical order.
func (f *File) Names() []string {
	names := make([]string, 0, len(f.entries))
	for n := range f.entries {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// Shape is a tensor's shape, and whether there is such a tensor.
func (f *File) Shape(name string) ([]int, bool) {
	e, ok := f.entries[name]
	return e.Shape, ok
}

// Float64 is a tensor's numbers, widened exactly.
func (f *File) Float64(name string) ([]float64, error) {
	e, ok := f.entries[name]
	if !ok {
		return nil, fmt.Errorf("there is no tensor %q (hint: is this a checkpoint of another kind?)", name)
	}
	read, ok := readers[e.DType]
	if !ok {
		return nil, fmt.Errorf("tensor %q holds %s (hint: convert it to float32)", name, e.DType)
	}
	b, size := f.data[e.Offsets[0]:e.Offsets[1]], sizes[e.DType]
	out := make([]float64, len(b)/size)
	for i := range out {
		out[i] = read(b[i*size:])
	}
	return out, nil
}

var readers = map[string]func([]byte) float64{
	"F64": func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) },
	"F32": func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) },
	"BF16": func(b []byte) float64 {
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	},
	"F16": func(b []byte) float64 { return half(binary.LittleEndian.Uint16(b)) },
	"I64": func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) },
}

// half widens an IEEE float16.
func half(h uint16) float64 {
	sign := 1.0
	if h>>15 == 1 {
		sign = -1
	}
	exp, frac := int(h>>10&31), float64(h&1023)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}
