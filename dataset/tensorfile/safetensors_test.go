package tensorfile

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"scalewm/dataset/safefile/fuzztest"
)

func sample() []Tensor {
	return []Tensor{
		{Name: "b", Shape: []int{2, 3}, F32: []float32{1, -2, 3.5, 0, float32(math.Pi), 1e-40}},
		{Name: "a", Shape: []int{2}, F64: []float64{math.Pi, -1e-300}},
		{Name: "count", I64: []int64{1500}},
	}
}

func encode(t testing.TB, meta map[string]string, ts []Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, meta, ts); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	f, err := Parse(encode(t, map[string]string{"kind": "lewm"}, sample()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a", "b", "count"}, f.Names()); d != "" {
		t.Error(d)
	}
	want := map[string][]float64{"a": {math.Pi, -1e-300}, "b": {1, -2, 3.5, 0, float64(float32(math.Pi)), float64(float32(1e-40))}, "count": {1500}}
	for name, w := range want {
		got, err := f.Float64(name)
		if err != nil || !cmp.Equal(w, got) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if s, ok := f.Shape("b"); !ok || !cmp.Equal([]int{2, 3}, s) || f.Meta["kind"] != "lewm" {
		t.Errorf("shape %v, metadata %v", s, f.Meta)
	}
}

// A file written by hand from the published format: "t" is float16 [1, -0.5], "u" is
// bfloat16 [3].
func TestForeignFile(t *testing.T) {
	head := `{"t":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"u":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]}}`
	f, err := Parse(file(head, "\x00\x3c\x00\xb8\x40\x40"))
	if err != nil {
		t.Fatal(err)
	}
	h, _ := f.Float64("t")
	u, _ := f.Float64("u")
	if !cmp.Equal([]float64{1, -0.5}, h) || !cmp.Equal([]float64{3}, u) {
		t.Errorf("got %v and %v", h, u)
	}
}

func file(head, data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	return append(append(b, head...), data...)
}

func TestRefuses(t *testing.T) {
	tests := map[string]struct {
		b    []byte
		want string
	}{
		"empty":          {nil, "0 bytes"},
		"header too big": {binary.LittleEndian.AppendUint64(nil, 1<<60), "the header claims"},
		"not JSON":       {file("{", ""), "not JSON"},
		"outside":        {file(`{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, "1234"), "outside"},
		"backwards":      {file(`{"t":{"dtype":"F32","shape":[0],"data_offsets":[4,0]}}`, "1234"), "outside"},
		"no offsets":     {file(`{"t":{"dtype":"F32","shape":[1]}}`, "1234"), "outside"},
		"wrong shape":    {file(`{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, "1234"), "does not fill"},
		"overflow":       {file(`{"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, ""), "does not fill"},
		"negative":       {file(`{"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, "1234"), "does not fill"},
		"dtype":          {file(`{"t":{"dtype":"F9","shape":[1],"data_offsets":[0,4]}}`, "1234"), "not known"},
		"overlap": {file(`{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"u":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}`, "12345"),
			"share bytes"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.b)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("got %v, want %q and a hint", err, c.want)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "(hint: ") {
		t.Errorf("a missing file: %v", err)
	}
	b := encode(t, nil, sample())
	if err := os.WriteFile(path, b[:len(b)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a torn file: %v", err)
	}
	if f, err := Parse(b); err == nil {
		if _, err := f.Float64("nothing"); err == nil {
			t.Error("a tensor that is not there was read")
		}
	}
}

// Numbers of IEEE 754 binary16: the largest, the smallest normal and the smallest
// subnormal one.
func TestHalf(t *testing.T) {
	for bits, want := range map[uint16]float64{0x7bff: 65504, 0x0400: 0x1p-14, 0x0001: 0x1p-24, 0x8000: 0, 0xfc00: math.Inf(-1), 0xc000: -2} {
		if got := half(bits); got != want {
			t.Errorf("%#x: got %g, want %g", bits, got, want)
		}
	}
	if !math.IsNaN(half(0x7e00)) {
		t.Error("0x7e00 is NaN")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(encode(f, map[string]string{"a": "b"}, sample()))
	f.Add(file(`{"t":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}}`, "1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Read(t, len(b), func() {
			file, err := Parse(b)
			if err != nil {
				return
			}
			for _, n := range file.Names() {
				shape, _ := file.Shape(n)
				want, _ := elements(shape)
				if v, err := file.Float64(n); err == nil && len(v) != want {
					t.Errorf("%s: %d numbers of shape %v", n, len(v), shape)
				}
			}
		})
	})
}
