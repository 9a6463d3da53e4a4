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
	descrEntry   = regexp.MustCompile(`'descr':\s*'([<>|=][a-zA-Z]\d*)'`)
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
	if fortran == nil || shape == nil {
		return a, errors.New("it does not have NumPy's header")
	}
	// An array of records has a list in place of the name of a type.
	var t numpyType
	if descr != nil {
		t, err = parseNumpyType(descr[1])
	} else {
		err = errNotNumeric
	}
	if err != nil {
		return a, fmt.Errorf("%w (hint: x.astype(\"float32\") in Python; bool, uint8, int64 and float64 are read too)", err)
	}
	// n is the number of bytes that the shape requires. It is compared with the limit
	// before each multiplication, which therefore cannot overflow.
	n := int64(t.size)
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
	if err != nil {
		return a, err
	}
	return t.array(a.shape, a.data, fortran[1] == "True"), nil
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
