package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"scalewm/dataset/cell"
)

// table is a Parquet file.
type table struct {
	path  string
	f     *os.File
	file  *parquet.File
	cache map[string][]float64
}

func openTable(path string) (t *table, err error) {
	defer hostile(path, &err)
	f, err := cell.Open(path, cell.MaxData)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil {
		err = wholeFooter(f, st.Size())
	}
	if err == nil {
		t = &table{path: path, f: f, cache: map[string][]float64{}}
		t.file, err = parquet.OpenFile(f, st.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("reading the table %s: %w (hint: was it copied whole?)", path, err)
	}
	return t, nil
}

// wholeFooter refuses a file whose footer is longer than the file, since the library takes the
// memory first: the last eight bytes are its length and PAR1.
func wholeFooter(f *os.File, size int64) error {
	var end [8]byte
	if _, err := f.ReadAt(end[:], max(0, size-int64(len(end)))); err != nil || string(end[4:]) != "PAR1" {
		return errors.New("it does not end as a Parquet file")
	}
	if n := binary.LittleEndian.Uint32(end[:]); int64(n) > size-int64(len(end)) {
		return fmt.Errorf("its footer claims %d bytes", n)
	}
	return nil
}

func (t *table) close() { t.f.Close() }

// hostile turns a panic of the library into an error: it trusts what a file says.
func hostile(path string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("reading the table %s: it is damaged: %v (hint: copy it again)", path, r)
	}
}

// numbers are the values of a column with so many in each row.
func (t *table) numbers(name string, width int) (v []float64, err error) {
	if v, ok := t.cache[name]; ok {
		return v, nil
	}
	rows := int(t.file.NumRows())
	err = t.values(name, func(x parquet.Value) error {
		switch {
		case len(v) >= rows*width:
			return fmt.Errorf("it has more than %d numbers a row", width)
		case x.IsNull():
			return errors.New("it has rows without a value")
		}
		switch x.Kind() {
		case parquet.Boolean:
			v = append(v, 0)
			if x.Boolean() {
				v[len(v)-1] = 1
			}
		case parquet.Int32:
			v = append(v, float64(x.Int32()))
		case parquet.Int64:
			if x.Int64() > 1<<53 || x.Int64() < -1<<53 {
				return errors.New("it holds an integer beyond 2^53")
			}
			v = append(v, float64(x.Int64()))
		case parquet.Float:
			v = append(v, float64(x.Float()))
		case parquet.Double:
			v = append(v, x.Double())
		default:
			return errNoNumbers
		}
		return nil
	})
	if err == nil && len(v) != rows*width {
		err = fmt.Errorf("it has %d numbers in %d rows, which should have %d each", len(v), rows, width)
	}
	if err != nil {
		return nil, fmt.Errorf("the column %s of the table %s: %w", name, t.path, err)
	}
	t.cache[name] = v
	return v, nil
}

// values hands over those of the only leaf of a column, or of its leaf of a name.
func (t *table) values(name string, take func(parquet.Value) error) (err error) {
	defer hostile(t.path, &err)
	column, leaf, _ := strings.Cut(name, "\x00")
	at := -1
	for i, path := range t.file.Schema().Columns() {
		if path[0] == column && (leaf == "" || path[len(path)-1] == leaf) {
			at = i
		}
	}
	if at < 0 {
		return errors.New("it is not there")
	}
	buffer := make([]parquet.Value, 1024)
	for i, group := range t.file.RowGroups() {
		if err := t.believable(i, at); err != nil {
			return err
		}
		pages := group.ColumnChunks()[at].Pages()
		for {
			page, err := pages.ReadPage()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				pages.Close()
				return err
			}
			values := page.Values()
			for more := true; more; {
				n, err := values.ReadValues(buffer)
				for _, x := range buffer[:n] {
					if err := take(x); err != nil {
						pages.Close()
						return err
					}
				}
				if more = err == nil; !more && !errors.Is(err, io.EOF) {
					pages.Close()
					return err
				}
			}
		}
		pages.Close()
	}
	return nil
}

// believable looks at the headers of a column's pages before the library does, which takes the
// memory that they claim. The pages of a column together are at most 256 times what they take in
// the file and 1 MB besides, and have at most 512 values a byte and 2^18 besides; writers
// stay far below that, since what could be compressed further is encoded before.
func (t *table) believable(group, column int) error {
	chunk := t.file.Metadata().RowGroups[group].Columns[column].MetaData
	at, left := chunk.DataPageOffset, chunk.TotalCompressedSize
	if d := chunk.DictionaryPageOffset; d > 0 {
		at = min(at, d)
	}
	st, err := t.f.Stat()
	if err != nil {
		return err
	}
	if at < 0 || left < 0 || at > st.Size()-left {
		return errors.New("its pages lie outside of the file")
	}
	bytes, values := 1<<20+256*left, 1<<18+512*left
	lead := make([]byte, 16<<10) // a header, whose statistics are short
	for left > 0 {
		n, err := t.f.ReadAt(lead[:min(left, int64(len(lead)))], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		r := new(thrift.CompactProtocol).NewReaderFromBytes(lead[:n])
		var h format.PageHeader
		if err := thrift.NewDecoder(r).Decode(&h); err != nil {
			return fmt.Errorf("the header of a page: %w", err)
		}
		size := int64(r.BytesRead()) + int64(h.CompressedPageSize)
		least := min(h.CompressedPageSize, h.UncompressedPageSize)
		bytes -= int64(h.UncompressedPageSize)
		for _, n := range []int32{h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues} {
			least, values = min(least, n), values-int64(n)
		}
		least = min(least, h.DataPageHeaderV2.V.DefinitionLevelsByteLength, h.DataPageHeaderV2.V.RepetitionLevelsByteLength)
		if least < 0 || size > left || bytes < 0 || values < 0 {
			return errors.New("its pages claim more than the file can hold")
		}
		levels := int64(h.DataPageHeaderV2.V.DefinitionLevelsByteLength) + int64(h.DataPageHeaderV2.V.RepetitionLevelsByteLength)
		if within := claimed(chunk.Codec, lead[min(int64(n), int64(r.BytesRead())+levels):n]); within > uint64(h.UncompressedPageSize) {
			return fmt.Errorf("a page of %d bytes holds compressed data that claim %d", h.UncompressedPageSize, within)
		}
		at, left = at+size, left-size
	}
	return nil
}

// claimed is how many bytes compressed data say that they are, 0 where the format does not say it. The library
// takes so much memory, whatever the page's header says.
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

// feature are rows of a feature.
func (t *table) feature(name string, f leRobotFeature, from, to int) (a array, err error) {
	a.dtype = f.Type
	if a.dtype == "bool" {
		a.dtype = "uint8"
	}
	if widths[a.dtype] == 0 {
		return a, fmt.Errorf("it is of the type %s: %w", f.Type, errNoNumbers)
	}
	a.shape = append([]int{to - from}, f.Shape...)
	if len(f.Shape) == 1 && f.Shape[0] == 1 { // a number a row
		a.shape = a.shape[:1]
	}
	n := a.width()
	all, err := t.numbers(name, n)
	if err != nil {
		return a, err
	}
	a.values = all[from*n : to*n]
	return a, nil
}

// pictures are the frames of a camera whose pictures lie in the table.
func (t *table) pictures(name string, from, to int) (array, error) {
	row := 0
	var all [][]byte
	err := t.values(name+"\x00bytes", func(x parquet.Value) error {
		if row >= from && row < to {
			all = append(all, x.Clone().ByteArray())
		}
		row++
		return nil
	})
	if err == nil && len(all) != to-from {
		err = fmt.Errorf("it has %d pictures", row)
	}
	var a array
	if err == nil {
		a, err = stack(to-from, func(i int) (picture, error) { return readPicture(all[i]) })
	}
	if err != nil {
		return a, fmt.Errorf("the frames %s of the table %s: %w", name, t.path, err)
	}
	return a, nil
}
