package export

import (
	"io"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"

	"scalewm/dataset/safefile"
)

// field is a column of a Parquet table. Each row has a value, or nested lists of
// values of one shape.
type field struct {
	// path is the name of the column, or the names of a group and of a column in it.
	path  []string
	leaf  parquet.Node
	shape []int
}

// table writes a Parquet file row by row.
type table struct {
	f      *os.File
	w      *parquet.GenericWriter[any]
	fields []field
	// columns are the numbers of the fields in the file, where columns are sorted by
	// name.
	columns []int
	// leaves has the values of each column in the current row.
	leaves [][]parquet.Value
}

// createTable creates a file and its folder. pandas describes the table to pandas, if
// it is not empty.
func createTable(path string, fields []field, pandas string) (*table, error) {
	if err := safefile.MakeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	root := parquet.Group{}
	for _, f := range fields {
		group, name := root, f.path[len(f.path)-1]
		if len(f.path) > 1 {
			if root[f.path[0]] == nil {
				root[f.path[0]] = parquet.Group{}
			}
			group = root[f.path[0]].(parquet.Group)
		}
		group[name] = f.leaf
		for range f.shape {
			group[name] = parquet.List(group[name])
		}
	}
	schema := parquet.NewSchema("schema", root)
	options := []parquet.WriterOption{schema, parquet.Compression(&parquet.Snappy), parquet.DataPageStatistics(false)}
	t := &table{fields: fields, leaves: make([][]parquet.Value, len(fields))}
	for _, f := range fields {
		path := f.path
		for range f.shape {
			path = append(path[:len(path):len(path)], "list", "element")
		}
		column, _ := schema.Lookup(path...)
		t.columns = append(t.columns, column.ColumnIndex)
		// Bounds are for searches by index. Those of pictures would be larger than any
		// reader expects, and NaN is neither the smallest nor the largest.
		if f.leaf.Type().Kind() != parquet.Int64 {
			options = append(options, parquet.SkipPageBounds(path...))
		}
	}
	if pandas != "" {
		options = append(options, parquet.KeyValueMetadata("pandas", pandas))
	}
	var err error
	if t.f, err = os.Create(path); err != nil {
		return nil, err
	}
	t.w = parquet.NewGenericWriter[any](t.f, options...)
	return t, nil
}

// add appends a row, with the values of each field.
func (t *table) add(row [][]parquet.Value) error {
	for i, values := range row {
		leaf, depth := t.leaves[t.columns[i]][:0], len(t.fields[i].shape)
		for k, v := range values {
			leaf = append(leaf, v.Level(repetition(k, t.fields[i].shape), depth, t.columns[i]))
		}
		t.leaves[t.columns[i]] = leaf
	}
	var all parquet.Row
	for _, leaf := range t.leaves {
		all = append(all, leaf...)
	}
	_, err := t.w.WriteRows([]parquet.Row{all})
	return err
}

// repetition returns the nesting level at which value k of a row continues: 0 begins
// the row, and each further axis is a level.
func repetition(k int, shape []int) int {
	level := 0
	if k > 0 {
		level = len(shape)
	}
	for n := 1; level > 1; level-- {
		if n *= shape[level-1]; k%n != 0 {
			break
		}
	}
	return level
}

// flush writes the rows since the last flush, which are in memory, and returns the
// size of the file.
func (t *table) flush() (int64, error) {
	if err := t.w.Flush(); err != nil {
		return 0, err
	}
	return t.f.Seek(0, io.SeekCurrent)
}

// close completes the file.
func (t *table) close() error {
	if err := t.w.Close(); err != nil {
		return err
	}
	return t.f.Close()
}
