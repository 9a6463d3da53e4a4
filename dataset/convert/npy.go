package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// array is an array of numbers, with rows along its first axis.
type array struct {
	// dtype is a type of data sets; NumPy's booleans are uint8.
	dtype string
	shape []int
	// data is row-major and little-endian.
	data []byte
}

// dtypes has the types that data sets can hold, by their names in NumPy; widths has
// their sizes in bytes.
var (
	dtypes = map[string]string{"b1": "uint8", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16", "u4": "uint32", "i4": "int32",
		"u8": "uint64", "i8": "int64", "f4": "float32", "f8": "float64"}
	widths = map[string]int{"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8, "float32": 4, "float64": 8}
)

// errNotNumeric is wrapped by errors about values that cannot be a column. Such arrays
// are left out where the others can still be converted.
var errNotNumeric = errors.New("its values are not of a numeric type that data sets can hold")

// Limits on what a file may declare: bytes of a header, number of axes, and bytes of
// all its arrays together, which are at most one episode.
const (
	maxHeader = 1 << 16
	maxAxes   = 8
	maxArrays = 8 << 30
)

// The header is a Python dictionary with three entries
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). It is
// matched and not evaluated.
var (
	descrEntry   = regexp.MustCompile(`'descr':\s*'([<>|=])([a-z]\d)'`)
	fortranEntry = regexp.MustCompile(`'fortran_order':\s*(True|False)`)
	shapeEntry   = regexp.MustCompile(`'shape':\s*\(([\d, ]*)\)`)
)

// readNPY reads a .npy file of size bytes. It allocates memory for the numbers only
// if header and size agree.
func readNPY(r io.Reader, size int64) (a array, err error) {
	counted := &io.LimitedReader{R: r, N: size}
	header, err := readHeader(counted)
	if err != nil {
		return a, err
	}
	descr, fortran, shape := descrEntry.FindStringSubmatch(header), fortranEntry.FindStringSubmatch(header), shapeEntry.FindStringSubmatch(header)
	switch {
	case fortran == nil || shape == nil:
		return a, errors.New("it does not have NumPy's header")
	case descr == nil || dtypes[descr[2]] == "" || descr[1] == ">":
		return a, fmt.Errorf("%w (hint: x.astype(\"float32\") in Python; bool, uint8, int64 and float64 are read too)", errNotNumeric)
	case fortran[1] == "True":
		return a, errors.New("it is in Fortran order (hint: np.ascontiguousarray(x) in Python)")
	}
	a.dtype = dtypes[descr[2]]
	// n is the number of bytes that the shape requires. It is compared with the limit
	// before each multiplication, which therefore cannot overflow.
	n := int64(widths[a.dtype])
	for text := range strings.SplitSeq(strings.ReplaceAll(shape[1], " ", ""), ",") {
		// A tuple of one number ends with a comma.
		if text == "" {
			continue
		}
		edge, err := strconv.Atoi(text)
		if a.shape = append(a.shape, edge); err != nil || len(a.shape) > maxAxes || edge > 0 && n > maxArrays/int64(edge) {
			return a, fmt.Errorf("the shape (%s) is too large (hint: a file is one episode, of at most %d GB)", shape[1], maxArrays>>30)
		}
		n *= int64(edge)
	}
	if n != counted.N {
		return a, fmt.Errorf("it has %d bytes of numbers, its header says %d (hint: was it copied completely?)", counted.N, n)
	}
	a.data = make([]byte, n)
	if _, err = io.ReadFull(r, a.data); err == nil {
		// Read to the end, where a zip archive verifies its checksum.
		if _, err = r.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errors.New("it continues after its numbers")
		}
	}
	return a, err
}

// readHeader reads the magic bytes, the version, the length and the text of the
// header. The length has 2 bytes in version 1 and 4 bytes later.
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

// rows returns the length of the first axis; a single number has no rows.
func (a array) rows() int {
	if len(a.shape) == 0 {
		return 0
	}
	return a.shape[0]
}

// width returns the number of values in a row.
func (a array) width() int {
	n := 1
	for _, edge := range a.shape[1:] {
		n *= edge
	}
	return n
}

// integers returns the values of an array of integers of at most 2^53.
func (a array) integers() ([]int, error) {
	size := widths[a.dtype]
	out := make([]int, len(a.data)/size)
	for i := range out {
		// Put the number into the highest bytes and shift it down, which extends the
		// sign.
		b := append(make([]byte, 8-size, 8), a.data[i*size:(i+1)*size]...)
		v := int64(binary.LittleEndian.Uint64(b))
		if v >>= 8 * (8 - size); a.dtype[0] == 'u' {
			v &= 1<<(8*size) - 1
		}
		if a.dtype[0] == 'f' || a.dtype[0] == 'u' && v < 0 || v < -1<<53 || v > 1<<53 {
			return nil, fmt.Errorf("it is %s, with integers beyond 2^53 or other numbers (hint: x.astype(\"int32\") in Python)", a.dtype)
		}
		out[i] = int(v)
	}
	return out, nil
}
