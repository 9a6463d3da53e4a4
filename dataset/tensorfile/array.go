package tensorfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// Array is a tensor of a file that torch.save wrote from a single tensor, as it is
// stored.
type Array struct {
	// DType is the data type by its name in safetensors, such as F32, BF16 or U8.
	DType string
	Shape []int
	// Data has the numbers in row-major order, little-endian. It may share the memory of
	// the file.
	Data []byte
}

// errNoTensor is the error for files of torch.save that hold something else.
var errNoTensor = errors.New("the file does not hold one tensor (hint: torch.save(tensor, path) writes such files)")

// ParseArray parses a file that torch.save wrote from a single tensor. It executes no
// code from the file, and the result is at most as large as the file.
func ParseArray(b []byte) (Array, error) {
	a, err := newArchive(b)
	if err != nil {
		return Array{}, err
	}
	pickle, err := a.entry("data.pkl")
	if err != nil {
		return Array{}, err
	}
	if len(pickle) > maxPickle {
		return Array{}, errNoTensor
	}
	u := unpickler{r: bytes.NewReader(pickle)}
	top, err := u.run()
	if o, ok := top.(object); ok && err == nil {
		return Array{}, fmt.Errorf("it is a pickled object of %.80q; nothing was run: %w", o.class, errNoTensor)
	}
	t, ok := top.(tensor)
	if err != nil || !ok {
		return Array{}, errNoTensor
	}
	v, err := a.tensor(t)
	if errors.Is(err, errPickle) {
		err = errNoTensor
	}
	if err != nil {
		return Array{}, err
	}
	return Array{v.dtype, v.shape, v.rowMajor()}, nil
}

// rowMajor returns the numbers of a tensor in row-major order.
func (v view) rowMajor() []byte {
	size := dtypes[v.dtype].size
	n, _ := elements(v.shape)
	if n == 0 {
		return nil
	}
	step, plain := 1, true
	for d := len(v.shape) - 1; d >= 0; d-- {
		// The stride of an axis of one element does not matter.
		plain = plain && (v.strides == nil || v.shape[d] == 1 || v.strides[d] == step)
		step *= v.shape[d]
	}
	if plain {
		return v.data[:n*size]
	}
	out := make([]byte, 0, n*size)
	v.each(func(at int) { out = append(out, v.data[at*size:(at+1)*size]...) })
	return out
}

// ParsePickledInts parses a pickled list or tuple of integers, as pickle.dump writes
// it with protocol 2 or later.
func ParsePickledInts(b []byte) ([]int, error) {
	u := unpickler{r: bytes.NewReader(b)}
	top, err := u.run()
	var items []any
	switch v := top.(type) {
	case *list:
		items = v.items
	case tuple:
		items = v
	default:
		err = errPickle
	}
	out := make([]int, len(items))
	for i, x := range items {
		n, ok := x.(int64)
		if out[i] = int(n); !ok {
			err = errPickle
		}
	}
	if err != nil {
		return nil, errors.New("the pickle is damaged or not a list of integers (hint: pickle.dump([int(n) for n in lengths], file) writes one)")
	}
	return slices.Clip(out), nil
}
