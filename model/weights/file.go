package weights

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/safefile"
)

// File is the tensors of a parsed file, of either format.
type File struct {
	PT    bool              // it is a file of torch.save
	Meta  map[string]string // safetensors' metadata
	views map[string]view
}

// view is a tensor inside a file's bytes.
type view struct {
	dtype   string
	shape   []int
	strides []int  // in numbers; nil: row-major without gaps
	data    []byte // from the tensor's first number on
}

// Open reads and checks a whole file, safetensors or torch.save's.
func Open(path string) (*File, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	b, err := safefile.Read(path, safefile.MaxWeights)
	if err != nil {
		return nil, fmt.Errorf("opening weights: %w (hint: train first, or give the path of weights.safetensors or weights.pt)", err)
	}
	return ParseFile(path, b)
}

// Check returns an error, which wraps ErrDamaged, if a file is large and its header does not account for its size:
// before memory is taken for it. What cannot be read, reading it will report.
func Check(path string) error {
	const small = 64 << 20
	f, err := safefile.Open(path, safefile.MaxWeights)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() <= small {
		return nil
	}
	head := make([]byte, 8)
	if _, err = f.ReadAt(head, 0); err != nil {
		return nil
	}
	if isPT(path, head) {
		_, err = openZip(f, st.Size())
	} else {
		head = make([]byte, min(headerEnd(head), st.Size()))
		if _, err = f.ReadAt(head, 0); err == nil {
			_, _, err = parseHeader(head, st.Size())
		}
	}
	if err != nil {
		return fmt.Errorf("reading weights %s: %w: %w", path, ErrDamaged, err)
	}
	return nil
}

func isPT(path string, b []byte) bool {
	return bytes.HasPrefix(b, []byte(zipMagic)) || strings.HasPrefix(filepath.Ext(path), ".pt")
}

// ParseFile checks a file's bytes in the format that their beginning, or the path's ending, tells.
func ParseFile(path string, b []byte) (f *File, err error) {
	if isPT(path, b) {
		f, err = ParsePT(b)
	} else {
		f, err = Parse(b)
	}
	if err != nil {
		return nil, fmt.Errorf("reading weights %s: %w", path, err)
	}
	return f, nil
}

// Names lists the tensors in alphabetical order.
func (f *File) Names() []string {
	return slices.Sorted(maps.Keys(f.views))
}

// Has says whether there is such a tensor.
func (f *File) Has(name string) bool { _, ok := f.views[name]; return ok }

// Shape is a tensor's shape, and whether there is such a tensor.
func (f *File) Shape(name string) ([]int, bool) {
	v, ok := f.views[name]
	return v.shape, ok
}

// Axis is the length of a tensor's axis, 0 where there is none.
func (f *File) Axis(name string, i int) int {
	if shape, _ := f.Shape(name); i < len(shape) {
		return shape[i]
	}
	return 0
}

// Count is how many tensors there are of a name with a number in it, counted from 0.
func (f *File) Count(name string) int {
	n := 0
	for f.Has(fmt.Sprintf(name, n)) {
		n++
	}
	return n
}

// DType is how a tensor's numbers are stored, in the names of safetensors: F32,
// BF16, I64.
func (f *File) DType(name string) string { return f.views[name].dtype }

// Float64 is a tensor's numbers, row-major, widened exactly.
func (f *File) Float64(name string) ([]float64, error) {
	v, ok := f.views[name]
	if !ok {
		return nil, fmt.Errorf("there is no tensor %q (hint: is this a checkpoint of another kind or geometry?)", name)
	}
	d := dtypes[v.dtype]
	if d.read == nil {
		return nil, fmt.Errorf("tensor %q holds %s (hint: convert it to float32)", name, v.dtype)
	}
	n, _ := elements(v.shape)
	out := make([]float64, 0, n)
	v.each(func(at int) { out = append(out, d.read(v.data[at*d.size:])) })
	return out, nil
}

// each calls do with the offset, counted in numbers, of every number in row-major order.
func (v view) each(do func(at int)) {
	n, _ := elements(v.shape)
	if v.strides == nil {
		for i := range n {
			do(i)
		}
		return
	}
	index := make([]int, len(v.shape))
	for at := 0; n > 0; n-- {
		do(at)
		for d := len(index) - 1; d >= 0; d-- {
			index[d]++
			at += v.strides[d]
			if index[d] < v.shape[d] {
				break
			}
			at -= v.shape[d] * v.strides[d]
			index[d] = 0
		}
	}
}

// Tensor is a tensor as it would be written: float64 and int64 as they are,
// everything narrower as float32.
func (f *File) Tensor(name string) (Tensor, error) {
	v, err := f.Float64(name)
	if err != nil {
		return Tensor{}, err
	}
	t := Tensor{Name: name, Shape: slices.Clone(f.views[name].shape)}
	switch f.DType(name) {
	case "F64":
		t.F64 = v
	case "I64":
		t.I64 = make([]int64, len(v))
		for i, x := range v {
			t.I64[i] = int64(x)
		}
	default:
		t.F32 = make([]float32, len(v))
		for i, x := range v {
			t.F32[i] = float32(x)
		}
	}
	return t, nil
}

// Take reads the tensors by names, which are all that f may hold. A missing one, one of
// another shape, one more and one that holds no finite number are errors: loaded in
// part, a model would be a random one.
func (f *File) Take(names []string, shapes map[string][]int) ([]Tensor, error) {
	for _, n := range f.Names() {
		if _, ok := shapes[n]; !ok {
			return nil, fmt.Errorf("the checkpoint has a tensor the model has not: %s (hint: it has another geometry, or is of another kind)", n)
		}
	}
	var ts []Tensor
	for _, n := range names {
		if shape, ok := f.Shape(n); ok && !slices.Equal(shape, shapes[n]) {
			return nil, fmt.Errorf("tensor %s is %v, the model needs %v (hint: the checkpoint has another geometry)", n, shape, shapes[n])
		}
		t, err := f.Tensor(n)
		if err != nil {
			return nil, err
		}
		v := t.Float64()
		if i := slices.IndexFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }); i >= 0 {
			return nil, fmt.Errorf("tensor %s has %g at %d (hint: the training diverged or the file is damaged; take an earlier checkpoint)", n, v[i], i)
		}
		ts = append(ts, t)
	}
	return ts, nil
}

// Zero adds a tensor of zeros.
func (f *File) Zero(name string, shape []int) {
	n, _ := elements(shape)
	f.views[name] = view{dtype: "F32", shape: shape, data: make([]byte, 4*n)}
}

// Rename gives every tensor the name that to returns; "" drops it. Two tensors
// of one name are an error.
func (f *File) Rename(to func(string) string) error {
	views, was := map[string]view{}, map[string]string{}
	for _, old := range f.Names() {
		name := to(old)
		if name == "" {
			continue
		}
		if other, twice := was[name]; twice {
			return fmt.Errorf("tensors %q and %q are both %q (hint: the file mixes two spellings; save it from one library)", other, old, name)
		}
		views[name], was[name] = f.views[old], old
	}
	f.views = views
	return nil
}

// Split replaces a tensor by equal parts of its rows, under their own names.
func (f *File) Split(name string, parts ...string) error {
	v, ok := f.views[name]
	if !ok || len(v.shape) == 0 || v.shape[0]%len(parts) != 0 {
		return fmt.Errorf("tensor %q of shape %v is not %d parts (hint: is this a checkpoint of another kind?)", name, v.shape, len(parts))
	}
	shape := slices.Clone(v.shape)
	shape[0] /= len(parts)
	step, _ := elements(shape)
	if v.strides != nil {
		step = shape[0] * v.strides[0]
	}
	for i, p := range parts {
		if f.Has(p) {
			return fmt.Errorf("tensors %q and %q are both there (hint: the file mixes two spellings; save it from one library)", name, p)
		}
		part := view{dtype: v.dtype, shape: shape, strides: v.strides}
		if n, _ := elements(shape); n > 0 {
			part.data = v.data[i*step*dtypes[v.dtype].size:]
		}
		f.views[p] = part
	}
	delete(f.views, name)
	return nil
}
