package clear

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"scalewm/dataset/hdf5"
	"scalewm/dataset/safefile"
)

// Kinds of a manifest's fingerprint of a data set.
const (
	MetadataSHA256 = "metadata-sha256" // of the file's size and the root data sets, see Fingerprint
	FileSHA256Kind = "file-sha256"     // of the file's bytes
)

// column describes a data set of a file's root group, with NumPy's name of its type.
type column struct {
	Key   string   `json:"key"`
	DType string   `json:"dtype"`
	Shape []uint64 `json:"shape"`
}

// Fingerprint returns the metadata-sha256 of an HDF5 file, in hex. It depends on the
// names, types and shapes of the data sets in the root group and on the size of the
// file, so it cannot distinguish files that differ in values only.
// Source: clear_lewm/datasets.py, metadata_fingerprint, at ab8849c.
func Fingerprint(path string) (string, error) {
	schema, size, err := schemaOf(path)
	if err != nil {
		return "", fmt.Errorf("fingerprint of %s: %w", path, err)
	}
	return fingerprint(schema, size), nil
}

// schemaOf returns the data sets of a file's root group and the size of the file.
func schemaOf(path string) (schema []column, size int64, err error) {
	tree, err := hdf5.OpenTree(path)
	if err != nil {
		return nil, 0, err
	}
	defer tree.Close()
	for name, set := range tree.Sets() {
		dtype, shape, err := set.Schema()
		if err != nil {
			return nil, 0, fmt.Errorf("data set %s: %w", hdf5.Quoted(name), err)
		}
		schema = append(schema, column{name, dtype, shape})
	}
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, 0, err
	}
	return schema, st.Size(), nil
}

// fingerprint returns the SHA-256 of what Python's json.dumps writes for the schema,
// with sorted keys and without spaces.
func fingerprint(schema []column, size int64) string {
	schema = slices.Clone(schema)
	slices.SortFunc(schema, func(a, b column) int { return cmp.Compare(a.Key, b.Key) })
	b := []byte(`{"schema":[`)
	for i, c := range schema {
		if i > 0 {
			b = append(b, ',')
		}
		b = pythonString(append(b, `{"dtype":`...), c.DType)
		b = pythonString(append(b, `,"key":`...), c.Key)
		b = append(b, `,"shape":[`...)
		for k, n := range c.Shape {
			if k > 0 {
				b = append(b, ',')
			}
			b = fmt.Append(b, n)
		}
		b = append(b, "]}"...)
	}
	sum := sha256.Sum256(fmt.Appendf(b, `],"size_bytes":%d}`, size))
	return hex.EncodeToString(sum[:])
}

// pythonString appends s as Python's json writes it: ASCII only, with surrogate pairs
// beyond 16 bits. A byte that is not UTF-8 becomes a lone surrogate, as h5py decodes
// it. Go's json escapes other characters, such as < and >.
func pythonString(b []byte, s string) []byte {
	short := map[rune]byte{'"': '"', '\\': '\\', '\n': 'n', '\r': 'r', '\t': 't', '\b': 'b', '\f': 'f'}
	b = append(b, '"')
	for i, r := range s {
		high, low := utf16.EncodeRune(r)
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case short[r] != 0:
			b = append(b, '\\', short[r])
		case r == utf8.RuneError && size == 1:
			b = fmt.Appendf(b, `\udc%02x`, s[i])
		case ' ' <= r && r <= '~':
			b = append(b, byte(r))
		case r > 0xFFFF:
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return append(b, '"')
}

// FileSHA256 returns the SHA-256 of a file's bytes, in hex.
func FileSHA256(path string) (string, error) {
	f, err := safefile.Open(path, safefile.MaxData)
	if err != nil {
		return "", fmt.Errorf("fingerprint of %s: %w", path, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("fingerprint of %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
