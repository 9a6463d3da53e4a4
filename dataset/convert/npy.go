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

// Limits on what a file may declare: bytes of a header, number of axes, bytes of the
// arrays of one episode, and bytes of an archive that is read in parts.
const (
	maxHeader  = 1 << 16
	maxAxes    = 8
	maxArrays  = 8 << 30
	maxArchive = 1 << 40
)

// The header is a Python dictionary with three entries
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). It is
// matched and not evaluated.
var (
	descrEntry   = regexp.MustCompile(`'descr':\s*'([<>|=][a-zA-Z]\d*)'`)
	fortranEntry = regexp.MustCompile(`'fortran_order':\s*(True|False)`)
	shapeEntry   = regexp.MustCompile(`'shape':\s*\(([\d, ]*)\)`)
)

// npyRows reads the rows of a .npy file in order.
type npyRows struct {
	numpyType
	r io.Reader
	// shape is that of the entire array, and fortran says that its first index varies
	// fastest.
	shape   []int
	fortran bool
	// row is the size of a row in bytes.
	row int
}

// openNPY reads the header of a .npy file of size bytes and checks that header and
// size agree.
func openNPY(r io.Reader, size int64) (*npyRows, error) {
	counted := &io.LimitedReader{R: r, N: size}
	header, err := readHeader(counted)
	if err != nil {
		return nil, err
	}
	descr, fortran, shape := descrEntry.FindStringSubmatch(header), fortranEntry.FindStringSubmatch(header), shapeEntry.FindStringSubmatch(header)
	if fortran == nil || shape == nil {
		return nil, errors.New("it does not have NumPy's header")
	}
	// An array of records has a list in place of the name of a type.
	a := &npyRows{r: r, fortran: fortran[1] == "True"}
	if descr != nil {
		a.numpyType, err = parseNumpyType(descr[1])
	} else {
		err = errNotNumeric
	}
	if err != nil {
		return nil, fmt.Errorf("%w (hint: x.astype(\"float32\") in Python; bool, uint8, int64 and float64 are read too)", err)
	}
	// n is the number of bytes that the shape requires. It is compared with the limit
	// before each multiplication, which therefore cannot overflow.
	n, row := int64(a.size), int64(a.size)
	for text := range strings.SplitSeq(strings.ReplaceAll(shape[1], " ", ""), ",") {
		// A tuple of one number ends with a comma.
		if text == "" {
			continue
		}
		edge, err := strconv.Atoi(text)
		if a.shape = append(a.shape, edge); err != nil || len(a.shape) > maxAxes || edge > 0 && max(n, row) > maxArchive/int64(edge) {
			return nil, fmt.Errorf("the shape (%s) is too large (hint: a file has at most %d GB)", shape[1], maxArchive>>30)
		}
		if n *= int64(edge); len(a.shape) > 1 {
			row *= int64(edge)
		}
	}
	if n != counted.N {
		return nil, fmt.Errorf("it has %d bytes of numbers, its header says %d (hint: was it copied completely?)", counted.N, n)
	}
	// Rows without numbers take no bytes, so any number of them could be declared.
	if a.row = int(row); n == 0 && a.rows() > maxEpisode {
		return nil, fmt.Errorf("it has %d rows without numbers (hint: is this the right array?)", a.rows())
	}
	return a, nil
}

// rows returns the number of rows.
func (n *npyRows) rows() int { return array{shape: n.shape}.rows() }

// next returns the next rows.
func (n *npyRows) next(rows int) (array, error) {
	shape, size := n.shape, int64(n.row)
	if len(shape) > 0 {
		shape, size = append([]int{rows}, shape[1:]...), size*int64(rows)
	}
	switch {
	case size > maxArrays:
		return array{}, fmt.Errorf("%d rows of it have %d bytes (hint: an episode has at most %d GB)", rows, size, maxArrays>>30)
	case n.fortran && rows != n.rows() && len(n.shape) > 1:
		return array{}, errors.New("it is in Fortran order (hint: np.ascontiguousarray(x) in Python)")
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(n.r, data); err != nil {
		return array{}, err
	}
	return n.array(shape, data, n.fortran), nil
}

// end checks that nothing follows the rows that were read. A zip archive verifies its
// checksum at the end.
func (n *npyRows) end() error {
	switch _, err := io.ReadFull(n.r, make([]byte, 1)); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errors.New("it continues after its numbers")
}

// readNPY reads all of a .npy file of size bytes.
func readNPY(r io.Reader, size int64) (a array, err error) {
	n, err := openNPY(r, size)
	if err != nil {
		return a, err
	}
	if a, err = n.next(n.rows()); err == nil {
		err = n.end()
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
