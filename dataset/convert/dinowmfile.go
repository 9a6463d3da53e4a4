package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"scalewm/dataset/safefile"
	"scalewm/dataset/tensorfile"
)

// readLengths reads the rows of each episode. Without them, all have the most.
func (d *dinoWM) readLengths(episodes, most int) (err error) {
	switch {
	case d.in.has("seq_lengths.pkl"):
		var b []byte
		if b, err = safefile.Read(d.in.path("seq_lengths.pkl"), safefile.MaxSet); err == nil {
			d.lengths, err = tensorfile.ParsePickledInts(b)
		}
	case d.in.has("seq_lengths.pth"):
		var a array
		if a, err = d.tensor("seq_lengths.pth"); err == nil {
			d.lengths, err = a.integers()
		}
	default:
		d.lengths = slices.Repeat([]int{most}, episodes)
	}
	if err == nil && len(d.lengths) != episodes {
		err = fmt.Errorf("there are %d, and states.pth has %d episodes (hint: both come from one recording)", len(d.lengths), episodes)
	}
	for i, n := range d.lengths {
		if err == nil && (n < 1 || n > most) {
			err = fmt.Errorf("episode %d has %d rows, and states.pth at most %d (hint: both come from one recording)", i, n, most)
		}
	}
	if err != nil {
		err = fmt.Errorf("its seq_lengths: %w", err)
	}
	return err
}

// torchNames has the data types of tensors by their names in NumPy.
var torchNames = map[string]string{"BOOL": "b1", "U8": "u1", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8", "F16": "f2", "F32": "f4", "F64": "f8"}

// tensor reads a file of one tensor.
func (d *dinoWM) tensor(name string) (a array, err error) {
	b, err := safefile.Read(d.in.path(name), maxArrays)
	if err != nil {
		return a, err
	}
	t, err := tensorfile.ParseArray(b)
	if err != nil {
		return a, fmt.Errorf("%s: %w", name, err)
	}
	if t.DType == "BF16" { // the upper half of a float32
		wide := make([]byte, 0, 2*len(t.Data))
		for i := 0; i < len(t.Data); i += 2 {
			wide = append(wide, 0, 0, t.Data[i], t.Data[i+1])
		}
		return array{dtype: "float32", shape: t.Shape, data: wide}, nil
	}
	n, err := parseNumpyType("<" + torchNames[t.DType])
	if err != nil {
		return a, fmt.Errorf("%s holds %s: %w", name, t.DType, err)
	}
	return n.array(t.Shape, t.Data, false), nil
}

// float32 returns the quotients of an array and a number.
func (a array) float32(divisor float32) array {
	out := array{dtype: "float32", shape: a.shape}
	for i := range len(a.data) / widths[a.dtype] {
		out.data = binary.LittleEndian.AppendUint32(out.data, math.Float32bits(float32(a.number(i))/divisor))
	}
	return out
}
