package convert

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// array is an array of numbers, rows along its first axis.
type array struct {
	dtype string // as data sets name it; NumPy's booleans are uint8
	shape []int
	data  []byte // row-major, little-endian
	// values are the numbers where they were read as such, instead of data.
	values []float64
}

// dtypes are the types that data sets can hold by NumPy's name of them, and widths their bytes.
var (
	dtypes = map[string]string{"b1": "uint8", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16", "u4": "uint32", "i4": "int32",
		"u8": "uint64", "i8": "int64", "f4": "float32", "f8": "float64"}
	widths = map[string]int{"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8, "float32": 4, "float64": 8}
)

// errNoNumbers says that values cannot be a column.
var errNoNumbers = errors.New("it holds no numbers of a type that data sets have")

// What a file may claim: bytes of a header, axes, and bytes of its arrays together, which are an
// episode at most.
const (
	maxHeader = 1 << 16
	maxAxes   = 8
	maxArrays = 8 << 30
)

// The header is a Python dictionary of three entries
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
var (
	descrEntry   = regexp.MustCompile(`'descr':\s*'([<>|=])([a-z]\d)'`)
	fortranEntry = regexp.MustCompile(`'fortran_order':\s*(True|False)`)
	shapeEntry   = regexp.MustCompile(`'shape':\s*\(([\d, ]*)\)`)
)

// readNPY reads a .npy file, whose numbers take most bytes at most. It reads one byte beyond what
// the header says: a few compressed bytes can hold gigabytes.
func readNPY(r io.Reader, most int64) (a array, err error) {
	header, err := readHeader(r)
	if err != nil {
		return a, err
	}
	descr, fortran, shape := descrEntry.FindStringSubmatch(header), fortranEntry.FindStringSubmatch(header), shapeEntry.FindStringSubmatch(header)
	switch {
	case fortran == nil || shape == nil:
		return a, errors.New("its header is none of NumPy's")
	case descr == nil || dtypes[descr[2]] == "" || descr[1] == ">":
		return a, fmt.Errorf("%w (hint: x.astype(\"float32\") in Python; bool, uint8, int64 and float64 are read too)", errNoNumbers)
	case fortran[1] == "True":
		return a, errors.New("its columns come first (hint: np.ascontiguousarray(x) in Python)")
	}
	a.dtype = dtypes[descr[2]]
	n := int64(widths[a.dtype])
	for text := range strings.SplitSeq(strings.ReplaceAll(shape[1], " ", ""), ",") {
		if text == "" { // behind the last comma
			continue
		}
		edge, err := strconv.Atoi(text)
		if a.shape = append(a.shape, edge); err != nil || len(a.shape) > maxAxes || edge > 0 && n > most/int64(edge) {
			return a, fmt.Errorf("the shape (%s) is too large (hint: a file is one episode, of at most %d GB)", shape[1], maxArrays>>30)
		}
		n *= int64(edge)
	}
	var data bytes.Buffer // grows with what is there, whatever the header claims
	got, err := io.Copy(&data, io.LimitReader(r, n+1))
	switch {
	case err == nil && got < n:
		err = fmt.Errorf("it has %d bytes of numbers, its header says %d (hint: was it copied whole?)", got, n)
	case err == nil && got > n:
		err = fmt.Errorf("it goes on behind its numbers, of which its header says %d bytes (hint: np.savez writes such files)", n)
	}
	a.data = data.Bytes()
	return a, err
}

// readHeader reads magic, version, length and text.
func readHeader(r io.Reader) (string, error) {
	var lead [8]byte
	if _, err := io.ReadFull(r, lead[:]); err != nil || string(lead[:6]) != "\x93NUMPY" {
		return "", errors.New("it does not begin as a .npy file")
	}
	length := make([]byte, 2)
	if lead[6] > 1 {
		length = make([]byte, 4)
	}
	if _, err := io.ReadFull(r, length); err != nil {
		return "", err
	}
	n := binary.LittleEndian.Uint32(append(slices.Clip(length), 0, 0))
	if n > maxHeader {
		return "", fmt.Errorf("its header claims %d bytes", n)
	}
	text := make([]byte, n)
	_, err := io.ReadFull(r, text)
	return string(text), err
}

// rows is the length of the first axis; a single number has none.
func (a array) rows() int {
	if len(a.shape) == 0 {
		return 0
	}
	return a.shape[0]
}

// width is how many numbers a row has.
func (a array) width() int {
	n := 1
	for _, edge := range a.shape[1:] {
		n *= edge
	}
	return n
}

// numbers are those of the array as float64, which must hold them exactly.
func (a array) numbers() ([]float64, error) {
	if a.values != nil {
		return a.values, nil
	}
	le, size := binary.LittleEndian, widths[a.dtype]
	out := make([]float64, len(a.data)/size)
	for i := range out {
		b := a.data[i*size:]
		switch a.dtype {
		case "uint8":
			out[i] = float64(b[0])
		case "int8":
			out[i] = float64(int8(b[0]))
		case "uint16":
			out[i] = float64(le.Uint16(b))
		case "int16":
			out[i] = float64(int16(le.Uint16(b)))
		case "uint32":
			out[i] = float64(le.Uint32(b))
		case "int32":
			out[i] = float64(int32(le.Uint32(b)))
		case "uint64":
			out[i] = float64(le.Uint64(b))
		case "int64":
			out[i] = float64(int64(le.Uint64(b)))
		case "float32":
			out[i] = float64(math.Float32frombits(le.Uint32(b)))
		default:
			out[i] = math.Float64frombits(le.Uint64(b))
		}
		if a.dtype[len(a.dtype)-2:] == "64" && a.dtype[0] != 'f' && math.Abs(out[i]) > 1<<53 {
			return nil, fmt.Errorf("it holds an integer beyond 2^53 (hint: leave the array out)")
		}
	}
	return out, nil
}
