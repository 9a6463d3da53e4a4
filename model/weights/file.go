package weights

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"sort"

	"scalewm/dataset/cell"
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
	b, err := cell.ReadFile(path, cell.MaxWeights)
	if err != nil {
		return nil, fmt.Errorf("opening weights: %w (hint: train first, or give the path of weights.safetensors or weights.pt)", err)
	}
	return open(path, b)
}

// open parses a file's bytes in the format that their beginning, or the path's ending, tells.
func open(path string, b []byte) (f *File, err error) {
	if bytes.HasPrefix(b, []byte(zipMagic)) || filepath.Ext(path) == ".pt" {
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
	names := make([]string, 0, len(f.views))
	for n := range f.views {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// Has says whether there is such a tensor.
func (f *File) Has(name string) bool { _, ok := f.views[name]; return ok }

// Shape is a tensor's shape, and whether there is such a tensor.
func (f *File) Shape(name string) ([]int, bool) {
	v, ok := f.views[name]
	return v.shape, ok
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
