package tensorfile

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"scalewm/dataset/safefile/fuzztest"
)

// The files are those of testdata/arrays.py: views of the numbers 0 to 23 in four rows.
func TestParseArray(t *testing.T) {
	numbers := func(is ...int16) []byte {
		b, _ := binary.Append(nil, binary.LittleEndian, is)
		return b
	}
	var whole, turned []int16
	for i := range int16(24) {
		whole, turned = append(whole, i), append(turned, i%4*6+i/4)
	}
	for name, want := range map[string]Array{
		"whole":     {"I16", []int{4, 6}, numbers(whole...)},
		"turned":    {"I16", []int{6, 4}, numbers(turned...)},
		"part":      {"I16", []int{2, 4}, numbers(8, 9, 10, 11, 14, 15, 16, 17)},
		"parameter": {"F32", []int{1}, []byte{0, 0, 0, 0x3f}},
		"empty":     {"F32", []int{0, 3}, nil},
	} {
		b, err := os.ReadFile("testdata/" + name + ".pth")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseArray(b); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
	for path, want := range map[string]string{"dict.pth": "one tensor", "list.pt": "one tensor", "numpy.pth": `pickled object of "numpy`,
		"expanded.pt": "one tensor", "legacy.pt": "complete file of torch.save"} {
		b, err := os.ReadFile("testdata/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseArray(b); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "(hint: ") != 1 {
			t.Errorf("%s: %v, want %q and a hint", path, err, want)
		}
	}
}

// The pickles are those of Python 3.11, pickle.dumps(x, protocol).
func TestParsePickledInts(t *testing.T) {
	for p, want := range map[string][]int{
		"\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00]\x94(K\x0cK\tM,\x01e.": {12, 9, 300}, // [12, 9, 300], 4
		"\x80\x02K\x0cK\t\x86q\x00.":                                         {12, 9},      // (12, 9), 2
		"\x80\x02]q\x00.":                                                    {},           // [], 2
		"\x80\x02X\x01\x00\x00\x00Tq\x00.":                                   nil,          // "T", 2
		"\x80\x02]q\x00\x88a.":                                               nil,          // [True], 2
		"\x80\x02cposix\nsystem\nq\x00.":                                     nil,          // os.system, 2
		"\x80\x02]q\x00(K\x0cX\x01\x00\x00\x00Tq\x01e.":                      nil,          // [12, "T"], 2
		"": nil,
	} {
		got, err := ParsePickledInts([]byte(p))
		if (err == nil) != (want != nil) || want != nil && !cmp.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", p, got, err, want)
		}
	}
}

// Any file is an array that is no larger than the file, or an error.
func FuzzParseArray(f *testing.F) {
	for _, name := range []string{"whole", "turned", "part", "dict", "numpy"} {
		b, err := os.ReadFile("testdata/" + name + ".pth")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00]\x94(K\x0cK\tM,\x01e."))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Read(t, len(b), func() {
			if a, err := ParseArray(b); err == nil && len(a.Data) > len(b) {
				t.Errorf("%d bytes of a file of %d", len(a.Data), len(b))
			}
			if is, err := ParsePickledInts(bytes.Clone(b)); err == nil && len(is) > len(b) {
				t.Errorf("%d numbers of a pickle of %d bytes", len(is), len(b))
			}
		})
	})
}
