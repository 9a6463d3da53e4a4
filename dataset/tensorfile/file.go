package tensorfile

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"scalewm/dataset/safefile"
)

// File holds the tensors of a parsed file, of either format. It refers to the bytes
// of the file and converts numbers only when they are read.
type File struct {
	PT    bool              // the file was written by torch.save
	Meta  map[string]string // metadata of a safetensors file
	views map[string]view

	// Only of torch.save: the archive, the state dicts, and the paths of all containers of
	// large tensors (Rest).
	archive *archive
	states  []State
	holders []string
}

// view is a tensor within the bytes of a file.
type view struct {
	dtype   string
	shape   []int
	strides []int  // in elements, or nil for a contiguous row-major tensor
	data    []byte // begins with the tensor's first element and may extend beyond its last
}

// Open reads and checks a safetensors file or one of torch.save.
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

// Names returns the names of the tensors in alphabetical order.
func (f *File) Names() []string {
	return slices.Sorted(maps.Keys(f.views))
}

// Has reports whether there is a tensor with this name.
func (f *File) Has(name string) bool { _, ok := f.views[name]; return ok }

// Shape returns a tensor's shape, and whether the tensor exists.
func (f *File) Shape(name string) ([]int, bool) {
	v, ok := f.views[name]
	return v.shape, ok
}

// Axis returns the length of axis i of a tensor, or 0 if there is no such tensor or
// axis.
func (f *File) Axis(name string, i int) int {
	if shape, _ := f.Shape(name); i < len(shape) {
		return shape[i]
	}
	return 0
}

// Count returns the number of consecutive tensors, from 0 on, whose names result from
// the format name, which has one verb for an integer: the number of layers.
func (f *File) Count(name string) int {
	n := 0
	for f.Has(fmt.Sprintf(name, n)) {
		n++
	}
	return n
}

// DType returns a tensor's data type by its name in safetensors, such as F32, BF16 or
// I64.
func (f *File) DType(name string) string { return f.views[name].dtype }

// Float64 returns a tensor's numbers in row-major order, converted to float64. The
// conversion is exact, except for I64 numbers beyond 2^53.
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

// each calls do with the offset, in elements, of each element in row-major order. A
// strided tensor is traversed like an odometer: the last index that is not at its end
// is incremented, and those after it return to 0.
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

// Tensor returns a tensor for writing: float64 and int64 as they are, narrower types
// as float32.
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

// Take returns the tensors with the given names, in that order. It returns an error
// if f has other tensors, lacks one, has one of another shape, or has a number that
// is not finite. It accepts no partial match, because a model that is loaded in part
// would have random weights and still run.
func (f *File) Take(names []string, shapes map[string][]int) ([]Tensor, error) {
	// Extra tensors first: their names are the most useful hint at another geometry.
	for _, n := range f.Names() {
		if _, ok := shapes[n]; !ok {
			return nil, fmt.Errorf("the checkpoint has a tensor that the model does not have: %s (hint: its geometry or its family is different)", n)
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

// Rename renames every tensor with the function to, and drops those for which it
// returns "". It returns an error if two tensors get the same name.
func (f *File) Rename(to func(string) string) error {
	views, was := map[string]view{}, map[string]string{} // was maps new names to old ones
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

// Split replaces a tensor with equal parts of its rows, under the given names. The
// parts share its memory.
func (f *File) Split(name string, parts ...string) error {
	v, ok := f.views[name]
	if !ok || len(v.shape) == 0 || v.shape[0]%len(parts) != 0 {
		return fmt.Errorf("tensor %q of shape %v is not %d parts (hint: is this a checkpoint of another kind?)", name, v.shape, len(parts))
	}
	// step is the distance in elements between the first elements of two parts.
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
