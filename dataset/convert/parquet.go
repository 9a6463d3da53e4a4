package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"scalewm/dataset/safefile"
)

// table is an open Parquet file. Rows are read in ascending order; columns remember
// where they are, since a page cannot be read from its middle.
type table struct {
	path string
	f    *os.File
	size int64
	file *parquet.File
	// cache has index columns, which are read completely.
	cache   map[string][]float64
	columns map[string]*column
	// charged has the column chunks, by row group and leaf, that count in bytes and
	// values.
	charged map[[2]int]bool
	// bytes and values are what further pages may claim.
	bytes  int64
	values int64
}

// maxValues bounds the numbers of a table, and of its columns together, by the size
// of the file. In recordings each row has some numbers that do not compress to
// nothing, such as a timestamp.
func maxValues(size int64) int64 { return 1<<18 + 32*size }

// openTable opens a Parquet file and checks its footer. Page indexes and Bloom
// filters are skipped: they are not needed, and less of the file has to be trusted.
func openTable(path string) (t *table, err error) {
	defer recoverDamage(path, &err)
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil {
		err = checkFooter(f, st.Size())
	}
	if err == nil {
		t = &table{path: path, f: f, size: st.Size(), cache: map[string][]float64{}, columns: map[string]*column{}, charged: map[[2]int]bool{},
			bytes: 1<<20 + 128*st.Size(), values: maxValues(st.Size())}
		t.file, err = parquet.OpenFile(f, st.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	}
	if err == nil && (t.file.NumRows() < 0 || t.file.NumRows() > maxValues(t.size)) {
		err = fmt.Errorf("it claims %d rows in %d bytes", t.file.NumRows(), t.size)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("reading the table %s: %w (hint: was it copied completely?)", path, err)
	}
	return t, nil
}

// checkFooter returns an error if the footer claims to be longer than the file,
// because the library would allocate that memory first. The last eight bytes of the
// file are the footer's length and PAR1.
func checkFooter(f *os.File, size int64) error {
	var end [8]byte
	if _, err := f.ReadAt(end[:], max(0, size-int64(len(end)))); err != nil || string(end[4:]) != "PAR1" {
		return errors.New("it does not end as a Parquet file")
	}
	if n := binary.LittleEndian.Uint32(end[:]); int64(n) > size-int64(len(end)) {
		return fmt.Errorf("its footer claims %d bytes", n)
	}
	return nil
}

func (t *table) close() {
	for _, c := range t.columns {
		c.close()
	}
	t.f.Close()
}

// recoverDamage, when deferred, turns a panic of the library into an error. The library
// trusts the content of a file and panics on damage.
func recoverDamage(path string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("reading the table %s: it is damaged: %v (hint: copy it again)", path, r)
	}
}

// numbers returns all values of a column, with width values per row. It is for index
// columns, which are small.
func (t *table) numbers(name string, width int) (v []float64, err error) {
	if v, ok := t.cache[name]; ok {
		return v, nil
	}
	b := make([]byte, 0, 8)
	v = make([]float64, 0, t.file.NumRows())
	err = t.read(name, 0, int(t.file.NumRows()), []int{width}, false, func(x parquet.Value, unsigned bool) error {
		b, err := appendNumber(b, "float64", x, unsigned)
		v = append(v, math.Float64frombits(binary.LittleEndian.Uint64(b[:cap(b)])))
		return err
	})
	t.cache[name] = v
	return v, err
}

// column reads the values of one leaf of the schema in order.
type column struct {
	t    *table
	leaf int
	// depth is the number of nested lists.
	depth    int
	unsigned bool
	// group is the current row group.
	group int
	// rows is the number of rows of the group that have begun, and row that of the
	// table.
	rows   int
	row    int
	pages  parquet.Pages
	values parquet.ValueReader
	buffer []parquet.Value
	// ready is the part of buffer that was not taken yet.
	ready []parquet.Value
}

// column returns the reader of a column, positioned at row or before it. A name with
// a zero byte selects a leaf of a column with several. A reader that is past row is
// replaced by a new one.
func (t *table) column(name string, row int) (*column, error) {
	if c := t.columns[name]; c != nil && c.row <= row {
		return c, nil
	}
	top, leaf, _ := strings.Cut(name, "\x00")
	for i, path := range t.file.Schema().Columns() {
		if path[0] != top || leaf != "" && path[len(path)-1] != leaf {
			continue
		}
		c := &column{t: t, leaf: i, buffer: make([]parquet.Value, 1024)}
		node, _ := t.file.Schema().Lookup(path...)
		c.depth = node.MaxRepetitionLevel
		if kind := node.Node.Type().LogicalType(); kind != nil {
			integer, ok := kind.Value.(*format.IntType)
			c.unsigned = ok && !integer.IsSigned
		}
		if old := t.columns[name]; old != nil {
			old.close()
		}
		t.columns[name] = c
		return c, nil
	}
	return nil, errors.New("there is no such column")
}

func (c *column) close() {
	if c.pages != nil {
		c.pages.Close()
	}
	c.pages, c.values, c.ready = nil, nil, nil
}

// peek makes at least one value ready, or returns io.EOF.
func (c *column) peek() error {
	for len(c.ready) == 0 {
		if c.values == nil {
			if err := c.nextPage(); err != nil {
				return err
			}
		}
		n, err := c.values.ReadValues(c.buffer)
		if c.ready = c.buffer[:n]; err != nil {
			c.values = nil
			if !errors.Is(err, io.EOF) {
				return err
			}
		}
	}
	return nil
}

// nextPage opens the next page. In each row group, every column must have as many
// rows as the group.
func (c *column) nextPage() error {
	groups := c.t.file.RowGroups()
	for c.group < len(groups) {
		if c.pages == nil {
			if err := c.t.checkPages(c.group, c.leaf); err != nil {
				return err
			}
			c.pages, c.rows = groups[c.group].ColumnChunks()[c.leaf].Pages(), 0
		}
		page, err := c.pages.ReadPage()
		if err == nil {
			c.values = page.Values()
			return nil
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if n := groups[c.group].NumRows(); int64(c.rows) != n {
			return fmt.Errorf("it has %d rows in row group %d, which has %d", c.rows, c.group, n)
		}
		c.close()
		c.group++
	}
	return io.EOF
}

// read passes the values of rows [from, to) to take, in order. shape is that of each
// row; a row with another number of values, with a missing value or with lists of
// other lengths is an error. If open is set, the last row may have no values at all:
// take gets nulls. Parquet marks the start of a row by repetition level 0.
func (t *table) read(name string, from, to int, shape []int, open bool, take func(x parquet.Value, unsigned bool) error) (err error) {
	top, _, _ := strings.Cut(name, "\x00")
	defer func() {
		if err != nil {
			err = fmt.Errorf("the column %s of the table %s: %w", top, t.path, err)
		}
		if err != nil && !errors.Is(err, errNotNumeric) && !strings.Contains(err.Error(), "(hint: ") {
			err = fmt.Errorf("%w (hint: every row has the same number of values; copy the file again, or record the set again)", err)
		}
	}()
	defer recoverDamage(t.path, &err)
	c, err := t.column(name, from)
	if err != nil {
		return err
	}
	width := 1
	for _, n := range shape {
		width *= n
	}
	// k counts the values of the current row. It starts as if a complete row had
	// ended.
	k, null := width, false
	for {
		err := c.peek()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		// The end of the column also ends its last row, so both cases check the row
		// before.
		starts := err != nil || c.ready[0].RepetitionLevel() == 0
		if starts && c.row > from && k != width {
			return fmt.Errorf("row %d has %d values instead of %d", c.row-1, k, width)
		}
		// Value c.ready[0] begins row to, and remains ready for the next call.
		if starts && c.row == to {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it ends after %d rows", c.row)
		}
		x := c.ready[0]
		c.ready = c.ready[1:]
		if starts {
			c.row, c.rows, k = c.row+1, c.rows+1, 0
		}
		if c.row <= from {
			continue
		}
		switch {
		// A null in place of a list stands for all its values; a list of nulls has
		// one for each.
		case x.IsNull() && open && c.row == to && (k == 0 || null):
			for null = true; k < width; k++ {
				if err := take(x, false); err != nil {
					return fmt.Errorf("row %d has no value: %w", c.row-1, err)
				}
			}
			continue
		case x.IsNull() || null:
			return fmt.Errorf("row %d has no value (null), which only the last row of an episode may have (hint: record it again, or remove the episode)", c.row-1)
		case k == width:
			return fmt.Errorf("row %d has more than %d values", c.row-1, width)
		// A row of a matrix is a list of lists, whose lengths the number of values
		// does not show.
		case k > 0 && c.depth > 1 && !nested(x.RepetitionLevel(), k, shape):
			return fmt.Errorf("row %d has lists of different lengths, and its shape is %v", c.row-1, shape)
		}
		if err := take(x, c.unsigned); err != nil {
			return fmt.Errorf("row %d: %w", c.row-1, err)
		}
		k++
	}
}

// nested reports whether value k of a row begins a list at the nesting level that
// shape implies.
func nested(level, k int, shape []int) bool {
	axis := len(shape)
	for n := 1; axis > 1; axis-- {
		if n *= shape[axis-1]; n == 0 || k%n != 0 {
			break
		}
	}
	return level == axis
}

// appendNumber appends a value in a type of data sets. An integer must be represented
// exactly, and another number must be in range.
func appendNumber(dst []byte, dtype string, x parquet.Value, unsigned bool) ([]byte, error) {
	le, unused := binary.LittleEndian, 64-8*widths[dtype]
	if x.IsNull() {
		if dtype[0] != 'f' {
			return dst, fmt.Errorf("null is not a value of the type %s", dtype)
		}
		x = parquet.DoubleValue(math.NaN())
	}
	// bits is an integer, and v any number as float64.
	var bits uint64
	var v float64
	exact, integer := true, true
	switch x.Kind() {
	case parquet.Boolean:
		if x.Boolean() {
			bits = 1
		}
	case parquet.Int32:
		if bits = uint64(x.Int32()); unsigned {
			bits = uint64(x.Uint32())
		}
	case parquet.Int64:
		bits = x.Uint64()
	case parquet.Float:
		// Copy the bits, so that NaNs keep theirs.
		if dtype == "float32" {
			return le.AppendUint32(dst, math.Float32bits(x.Float())), nil
		}
		v, integer = float64(x.Float()), false
	case parquet.Double:
		v, integer = x.Double(), false
	default:
		return dst, errNotNumeric
	}
	signed := int64(bits)
	// The integer is beyond int64.
	large := unsigned && signed < 0
	if integer && dtype[0] == 'f' {
		v, exact = float64(signed), !large && signed >= -1<<53 && signed <= 1<<53
	}
	switch dtype[0] {
	case 'f':
		// A double is rounded to the declared type float32, but must not become
		// infinite.
		if bits = math.Float64bits(v); dtype == "float32" {
			f := float32(v)
			bits, exact = uint64(math.Float32bits(f)), exact && (!integer || float64(f) == v) && (!math.IsInf(float64(f), 0) || math.IsInf(v, 0))
		}
	case 'u':
		exact = integer && (large || signed >= 0) && bits<<unused>>unused == bits
	default:
		exact = integer && !large && signed<<unused>>unused == signed
	}
	if !exact {
		return dst, fmt.Errorf("%v is not a value of the type %s", x, dtype)
	}
	return append(dst, le.AppendUint64(make([]byte, 0, 8), bits)[:widths[dtype]]...), nil
}

// maxPageHeader bounds the header of a page, in bytes.
const maxPageHeader = 16 << 20

// checkPages checks the headers of a column's pages before the library reads them,
// because the library allocates the memory that they claim. The pages of all columns
// that are read may claim at most 128 times the size of the file and 1 MB, and
// maxValues values. Real writers stay far below: data that could be compressed
// further are encoded first.
func (t *table) checkPages(group, column int) error {
	if t.charged[[2]int{group, column}] {
		return nil
	}
	t.charged[[2]int{group, column}] = true
	// A dictionary page, if there is one, comes before the data pages.
	chunk := t.file.Metadata().RowGroups[group].Columns[column].MetaData
	at, left := chunk.DataPageOffset, chunk.TotalCompressedSize
	if d := chunk.DictionaryPageOffset; d > 0 {
		at = min(at, d)
	}
	if at < 0 || left < 0 || at > t.size-left {
		return errors.New("its pages are outside the file")
	}
	// Enough for nearly all headers. The statistics in one may contain entire pictures,
	// so a header that does not end here is read again from more bytes.
	lead := make([]byte, 16<<10)
	for left > 0 {
		n, err := t.f.ReadAt(lead[:min(left, int64(len(lead)))], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		r := new(thrift.CompactProtocol).NewReaderFromBytes(lead[:n])
		var h format.PageHeader
		if err := thrift.NewDecoder(r).Decode(&h); err != nil {
			if int64(n) < left && n == len(lead) && n < maxPageHeader {
				lead = make([]byte, 4*n)
				continue
			}
			return fmt.Errorf("the header of a page: %w", err)
		}
		size := int64(r.BytesRead()) + int64(h.CompressedPageSize)
		// least is the smallest of all declared sizes and counts. A negative one is
		// damage, and the library would use it as a length.
		least := min(h.CompressedPageSize, h.UncompressedPageSize)
		t.bytes -= int64(h.UncompressedPageSize)
		for _, n := range []int32{h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues} {
			least, t.values = min(least, n), t.values-int64(n)
		}
		least = min(least, h.DataPageHeaderV2.V.DefinitionLevelsByteLength, h.DataPageHeaderV2.V.RepetitionLevelsByteLength)
		if least < 0 || size > left || t.bytes < 0 || t.values < 0 {
			return errors.New("its pages claim more than the file can hold")
		}
		// In pages of version 2 the levels come before the compressed values.
		levels := int64(h.DataPageHeaderV2.V.DefinitionLevelsByteLength) + int64(h.DataPageHeaderV2.V.RepetitionLevelsByteLength)
		if within := claimed(chunk.Codec, lead[min(int64(n), int64(r.BytesRead())+levels):n]); within > uint64(h.UncompressedPageSize) {
			return fmt.Errorf("a page of %d bytes holds compressed data that claim %d", h.UncompressedPageSize, within)
		}
		at, left = at+size, left-size
	}
	return nil
}

// claimed returns the uncompressed size that compressed data declare, or 0 if the
// format does not declare it. The library allocates that size whatever the page's
// header says.
func claimed(codec format.CompressionCodec, data []byte) uint64 {
	switch codec {
	case format.Snappy:
		n, _ := binary.Uvarint(data)
		return n
	case format.Zstd:
		var h zstd.Header
		if h.Decode(data) == nil && h.HasFCS {
			return h.FrameContentSize
		}
	}
	return 0
}

// feature returns rows of a feature as an array.
func (t *table) feature(name string, f leRobotFeature, from, to int) (a array, err error) {
	a.dtype = f.Type
	if a.dtype == "bool" {
		a.dtype = "uint8"
	}
	if widths[a.dtype] == 0 {
		return a, fmt.Errorf("it is of the type %s: %w", f.Type, errNotNumeric)
	}
	a.shape = append([]int{to - from}, f.Shape...)
	// One number per row needs no second axis.
	if len(f.Shape) == 1 && f.Shape[0] == 1 {
		a.shape = a.shape[:1]
	}
	n := int64(a.rows()) * int64(a.width())
	if n > maxValues(t.size) || a.rows() > maxEpisode {
		return a, fmt.Errorf("the column %s of the table %s: the shape %v is too large for a file of %d bytes (hint: is the table complete?)", name, t.path, a.shape, t.size)
	}
	a.data = make([]byte, 0, n*int64(widths[a.dtype]))
	err = t.read(name, from, to, f.Shape, true, func(x parquet.Value, unsigned bool) (err error) {
		a.data, err = appendNumber(a.data, a.dtype, x, unsigned)
		return err
	})
	return a, err
}

// pictures returns the frames of a camera whose pictures are in the table. Many rows
// can share one picture in the file, so the decoded pixels are bounded by its size
// too.
func (t *table) pictures(name string, from, to int, fit func(picture) (picture, error)) (array, error) {
	// The same ratio as for deflate, with some space for small files.
	left := 64<<20 + 1032*t.size
	a, err := stack(to-from, fit, func(i int) (p picture, err error) {
		err = t.read(name+"\x00bytes", from+i, from+i+1, nil, false, func(x parquet.Value, _ bool) (err error) {
			p, err = readPicture(x.ByteArray())
			return err
		})
		if left -= int64(len(p.rgb)); err == nil && left < 0 {
			err = fmt.Errorf("the pictures are too large for a file of %d bytes (hint: is the table complete?)", t.size)
		}
		return p, err
	})
	if err != nil {
		return a, fmt.Errorf("the frames %s of the table %s: %w", name, t.path, err)
	}
	return a, nil
}
