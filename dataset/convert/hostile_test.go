package convert

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"scalewm/dataset/safefile/fuzztest"
)

// member is one file of an archive.
type member struct {
	name string
	data []byte
}

const float32Header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }\n"

// archive writes members in order. Go's writer allows any names.
func archive(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range members {
		w, err := z.Create(m.name)
		if err == nil {
			_, err = w.Write(m.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// central returns the position of entry n of the central directory.
func central(b []byte, n int) int {
	at := 0
	for range n + 1 {
		at += bytes.Index(b[at:], []byte("PK\x01\x02")) + 4
	}
	return at - 4
}

func write(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Archives that claim more memory than their size can hold.
func TestHostileArchives(t *testing.T) {
	le := binary.LittleEndian
	zeros := npy(fmt.Sprintf(float32Header, 1<<20), string(make([]byte, 4<<20)))
	both := archive(t, member{"a.npy", zeros}, member{"b.npy", zeros})
	overlap := bytes.Clone(both)
	copy(overlap[central(overlap, 1)+42:], overlap[central(overlap, 0)+42:][:4]) // the place of its local header
	inside := bytes.Clone(both)
	le.PutUint32(inside[central(inside, 0)+20:], le.Uint32(inside[central(inside, 0)+20:])+100) // its compressed bytes
	lie := bytes.Clone(both)
	le.PutUint32(lie[central(lie, 0)+24:], 1<<31) // its bytes
	many := []member{}
	for i := range 9 {
		many = append(many, member{fmt.Sprintf("a%d.npy", i), zeros})
	}
	large := archive(t, many...)
	for i := range many {
		le.PutUint32(large[central(large, i)+20:], 1<<20)
		le.PutUint32(large[central(large, i)+24:], 1<<30)
	}
	for want, b := range map[string][]byte{"overlap": overlap, "members overlap": inside, "claims 2147483648 bytes in": lie, "two members": archive(t, member{"a.npy", zeros}, member{"a.npy", zeros}), "larger than 8 GB": large} {
		path := write(t, "x.npz", b)
		var err error
		fuzztest.Read(t, 0, func() { _, err = readNPZ(path, everyArray, new([]string)) })
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Members whose names cannot be columns are left out with a note.
func TestNamesOfMembers(t *testing.T) {
	one := npy(fmt.Sprintf(float32Header, 2), "abcdefgh")
	names := []string{"a/b.npy", ".npy", "..npy", "a\x00b.npy", "\x1b[2J.npy", strings.Repeat("n", 256) + ".npy", "a\nb.npy", "read.me"}
	members := []member{{"pixels.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 1, 3), }\n", "rgbrgb")}, {"action.npy", one}, {"größe.npy", one}, {"...npy", one}, {strings.Repeat("n", 255) + ".npy", one}}
	for _, name := range names {
		members = append(members, member{name, one})
	}
	f, notes, err := run(t, write(t, "x.npz", archive(t, members...)))
	if err != nil || len(notes) != len(names) || len(f.Skipped()) != 0 {
		t.Fatalf("%q, %v", notes, err)
	}
	for _, name := range []string{"action", "größe", "..", strings.Repeat("n", 255)} {
		if v, err := f.Read(name, 0, 2); err != nil || len(v) != 2 {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

// Integers of all sizes are converted exactly.
func TestExactIntegers(t *testing.T) {
	b := binary.LittleEndian.AppendUint64(nil, 1_790_000_000_000_000_001)
	f, _, err := run(t, write(t, "x.npz", archive(t, member{"pixels.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 3), }\n", "rgb")}, member{"action.npy", npy(fmt.Sprintf(float32Header, 1), "abcd")},
		member{"t_ns.npy", npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }\n", string(b))})))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(f.Path())
	if err != nil || !bytes.Contains(whole, b) {
		t.Errorf("the number is not in the file, %v", err)
	}
}

func parquetFile[T any](t testing.TB, rows []T, options ...parquet.WriterOption) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	if err := parquet.WriteFile(path, rows, options...); err != nil {
		t.Fatal(err)
	}
	return path
}

// A row with another number of values is an error, and so is one without values,
// whatever the other rows contain.
func TestRaggedRows(t *testing.T) {
	type list struct{ V []float64 }
	type row struct {
		Action []float32 `parquet:"action,list"`
		M      []list    `parquet:"m"`
	}
	good := row{[]float32{1, 2}, []list{{[]float64{1, 2, 3}}, {[]float64{4, 5, 6}}}}
	for want, is := range map[string][]row{
		"":                                   {good, good, good},
		"column action .*row 1 has 1 values": {good, {[]float32{1}, good.M}, {[]float32{1, 2, 3}, good.M}},
		"column action .*row 0 has more than 2 values":    {{[]float32{1, 2, 3}, good.M}, {[]float32{1}, good.M}, good},
		"column action .*row 2 has 1 values":              {good, good, {[]float32{1}, good.M}},
		"column action .*row 1 has no value":              {good, {nil, good.M}, good},
		"column m .*row 1 has lists of different lengths": {good, {good.Action, []list{{[]float64{1, 2}}, {[]float64{3, 4, 5, 6}}}}, good},
	} {
		table, err := openTable(parquetFile(t, is))
		if err != nil {
			t.Fatal(err)
		}
		defer table.close()
		var a, m array
		// Rows of two episodes, in their order and again.
		for from := range 2 {
			if a, err = table.feature("action", leRobotFeature{Type: "float32", Shape: []int{2}}, from, from+2); err == nil {
				m, err = table.feature("m", leRobotFeature{Type: "float64", Shape: []int{2, 3}}, from, from+2)
			}
			if err != nil {
				break
			}
		}
		if parts := strings.Split(want, ".*"); want == "" && (err != nil || len(a.data) != 16 || len(m.data) != 96) {
			t.Errorf("%v, %v, %v", a, m, err)
		} else if want != "" && (err == nil || !strings.Contains(err.Error(), parts[0]) || !strings.Contains(err.Error(), parts[1]) || !strings.Contains(err.Error(), "(hint: ")) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Numbers of a table are converted to the declared type, or give an error if it
// cannot represent them.
func TestNumbersOfTables(t *testing.T) {
	for _, c := range []struct {
		dtype    string
		value    parquet.Value
		unsigned bool
		want     any
	}{
		{"int64", parquet.Int64Value(1<<60 + 1), false, int64(1<<60 + 1)}, {"uint64", parquet.Int64Value(-1), true, uint64(math.MaxUint64)},
		{"uint64", parquet.Int64Value(-1), false, nil}, {"int64", parquet.Int64Value(-1), true, nil}, {"int8", parquet.Int32Value(-128), false, int8(-128)},
		{"int8", parquet.Int32Value(128), false, nil}, {"uint32", parquet.Int32Value(-1), true, uint32(math.MaxUint32)}, {"uint8", parquet.BooleanValue(true), false, uint8(1)},
		{"float32", parquet.FloatValue(0.1), false, float32(0.1)}, {"float32", parquet.DoubleValue(0.5), false, float32(0.5)}, {"float32", parquet.DoubleValue(0.1), false, float32(0.1)}, {"float32", parquet.DoubleValue(1e300), false, nil},
		{"float64", parquet.Int64Value(1<<53 + 1), false, nil}, {"float64", parquet.Int64Value(-3), false, -3.0}, {"int32", parquet.DoubleValue(7), false, nil},
		{"int32", parquet.DoubleValue(7.5), false, nil}, {"int64", parquet.DoubleValue(math.NaN()), false, nil}, {"int64", parquet.DoubleValue(1e300), false, nil},
		{"uint8", parquet.ByteArrayValue([]byte("x")), false, nil},
	} {
		got, err := appendNumber(nil, c.dtype, c.value, c.unsigned)
		if c.want == nil {
			if err == nil {
				t.Errorf("%v as %s: % x", c.value, c.dtype, got)
			}
			continue
		}
		if want, _ := binary.Append(nil, binary.LittleEndian, c.want); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v as %s: % x, %v, want % x", c.value, c.dtype, got, err, want)
		}
	}
}

// Tables of a few kilobytes that would use gigabytes: many rows, wide rows, many
// columns.
func TestTableBombs(t *testing.T) {
	type tall struct {
		Action float64 `parquet:"action,dict"`
	}
	type wide struct {
		Action []float64 `parquet:"action,list"`
	}
	zeros := make([]float64, 1000)
	rows := make([]wide, 3000)
	for i := range rows {
		rows[i].Action = zeros
	}
	for name, path := range map[string]string{
		"rows":   parquetFile(t, make([]tall, 3_000_000)),
		"values": parquetFile(t, rows, parquet.Compression(&parquet.Zstd)),
	} {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		fuzztest.Read(t, int(st.Size()), func() {
			var table *table
			if table, err = openTable(path); err == nil {
				defer table.close()
				_, err = table.feature("action", leRobotFeature{Type: "float64", Shape: []int{1000}}, 0, 3000)
			}
		})
		if err == nil || !strings.Contains(err.Error(), "(hint: ") || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s, %d bytes: %v", name, st.Size(), err)
		}
	}
}

// An archive of any content is read or gives an error.
func FuzzNPZ(f *testing.F) {
	one := npy(fmt.Sprintf(float32Header, 2), "abcdefgh")
	f.Add(archive(f, member{"action.npy", one}, member{"a/b.npy", one}))
	if b, err := os.ReadFile("testdata/b.npz"); err == nil {
		f.Add(b)
	}
	path := filepath.Join(f.TempDir(), "x.npz")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		// The limit allows what deflate makes of a byte, 1032, and the archive's
		// directory.
		fuzztest.Read(t, 3*len(b), func() {
			if arrays, err := readNPZ(path, everyArray, new([]string)); err == nil {
				_, _ = (&Job{}).take(rows{arrays: arrays})
			}
		})
	})
}
