package tensorfile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// WritePT writes tensors in the given order, in the format in which torch.save writes
// a state dict. torch.load(weights_only=True) reads the result. Equal tensors give
// equal bytes, since the archive contains no times.
func WritePT(w io.Writer, tensors []Tensor) error {
	z := zip.NewWriter(w)
	// CreateRaw writes the sizes and the checksum before the data. Create would
	// append them after it, in a data descriptor.
	put := func(name string, b []byte) error {
		f, err := z.CreateRaw(&zip.FileHeader{Name: "weights/" + name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(b),
			CompressedSize64: uint64(len(b)), UncompressedSize64: uint64(len(b))})
		if err != nil {
			return err
		}
		_, err = f.Write(b)
		return err
	}
	files := []struct{ name, text string }{{"data.pkl", pickleOf(tensors)}, {"byteorder", "little"}, {"version", "3\n"}}
	for _, f := range files {
		if err := put(f.name, []byte(f.text)); err != nil {
			return fmt.Errorf("writing %s: %w", f.name, err)
		}
	}
	for i, t := range tensors {
		var b bytes.Buffer
		t.write(&b) // writing to a Buffer does not fail
		if err := put(fmt.Sprintf("data/%d", i), b.Bytes()); err != nil {
			return fmt.Errorf("writing tensor %s: %w", t.Name, err)
		}
	}
	return z.Close()
}

// pickleOf returns the pickle, in protocol 2, of an OrderedDict of the tensors.
// Tensor i has storage i, which no other tensor shares. The opcodes are those of
// unpickler.do.
func pickleOf(tensors []Tensor) string {
	var p strings.Builder
	str := func(s string) {
		p.WriteByte('X')
		binary.Write(&p, binary.LittleEndian, uint32(len(s)))
		p.WriteString(s)
	}
	num := func(n int) { // LONG1 of 8 bytes
		p.WriteString("\x8a\x08")
		binary.Write(&p, binary.LittleEndian, int64(n))
	}
	nums := func(v []int) {
		p.WriteByte('(')
		for _, n := range v {
			num(n)
		}
		p.WriteByte('t')
	}
	const empty = "ccollections\nOrderedDict\n)R" // OrderedDict()
	p.WriteString("\x80\x02" + empty + "(")       // PROTO 2, the dict, MARK
	for i, t := range tensors {
		// name, _rebuild_tensor_v2(storage, offset 0, shape, strides, False,
		// OrderedDict())
		str(t.Name)
		p.WriteString("ctorch._utils\n_rebuild_tensor_v2\n((")
		dtype, _, n := t.layout()
		str("storage")
		p.WriteString("ctorch\n" + map[string]string{"F64": "Double", "F32": "Float", "I64": "Long"}[dtype] + "Storage\n")
		str(fmt.Sprint(i))
		str("cpu")
		num(n)
		p.WriteString("tQ")
		num(0)
		nums(t.Shape)
		nums(rowMajor(t.Shape))
		p.WriteString("\x89" + empty + "tR")
	}
	p.WriteString("u.") // SETITEMS, STOP
	return p.String()
}

// rowMajor returns the strides of a contiguous row-major array, as PyTorch computes
// them: an axis of length 0 counts as 1.
func rowMajor(shape []int) []int {
	strides, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = n
		n *= max(1, shape[i])
	}
	return strides
}
