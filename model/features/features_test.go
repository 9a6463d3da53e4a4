package features

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"scalewm/dataset"
	"scalewm/dataset/rng"
)

// data is a data set with that many rows, whose frames of 2 x 2 pixels encode the
// row's index.
type data struct {
	dataset.Source
	rows int
	name string
}

func (d data) Rows() int                    { return d.rows }
func (d data) Fingerprint() (string, error) { return d.name, nil }
func (d data) Size() int                    { return 2 }
func (d data) Frame(row int, dst []byte) error {
	dst[0], dst[1] = byte(row), byte(row>>8)
	return nil
}

// Rows have 3 x 2 numbers, and shards have 10 rows.
const rows, patches, width = 95, 3, 2

// options returns options for a data set in a new folder. encoded counts the frames
// that are encoded.
func options(path string, encoded *int) Options {
	shardBytes = 10 * (2*patches*width + 4)
	d := data{rows: rows, name: "f00d"}
	return Options{Data: d, Frames: d, Path: path, Key: Key{Backbone: "ab", Device: "cpu", Patches: patches, Width: width}, Limit: 1e6,
		Encode: func(_ context.Context, dst []float32, frames []byte) error {
			*encoded += len(dst) / (patches * width)
			for i := range dst {
				dst[i] = number(int(frames[i/(patches*width)*12])|int(frames[i/(patches*width)*12+1])<<8, i%(patches*width))
			}
			return nil
		}}
}

// number returns feature j of a row.
func number(row, j int) float32 { return float32(rng.Stream("test", row, j).NormFloat64()) }

func open(t *testing.T, o Options) (Source, string) {
	t.Helper()
	s, note, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, note
}

// rounded returns a number as it is stored in bf16.
func rounded(v float32) float32 { return math.Float32frombits(uint32(bf16(v)) << 16) }

// check requests rows, some of them twice in a request or in several requests, and
// compares with the rounded numbers.
func check(t *testing.T, s Source) { t.Helper(); checkAs(t, s, rounded) }

func checkAs(t *testing.T, s Source, stored func(float32) float32) {
	t.Helper()
	for _, list := range [][]int32{{5, 94, 0, 5, 60}, {60, 1, 94}, {}} {
		got, want := make([]float32, len(list)*patches*width), []float32{}
		for _, row := range list {
			for j := range patches * width {
				want = append(want, stored(number(int(row), j)))
			}
		}
		if err := s.Features(t.Context(), list, got); err != nil || !slices.Equal(got, want) {
			t.Errorf("features of %v: %v, %v", list, got, err)
		}
	}
}

// TestSources checks that features from the cache and features computed on request
// are equal, and that an existing cache is not computed again.
func TestSources(t *testing.T) {
	encoded := 0
	o := options(filepath.Join(t.TempDir(), "d.h5"), &encoded)
	s, note := open(t, o)
	check(t, s)
	if encoded != rows || !strings.Contains(note, "0 of 10 shards existed") {
		t.Errorf("%d frames were encoded, %q", encoded, note)
	}
	s, note = open(t, o)
	check(t, s)
	if encoded != rows || !strings.Contains(note, "10 of 10 shards existed") {
		t.Errorf("%d frames were encoded, %q", encoded, note)
	}
	o.Limit, encoded = Off, 0
	s, note = open(t, o)
	check(t, s)
	if encoded != 5 || !strings.Contains(note, "as they are needed: the feature cache is off") { // 0, 1, 5, 60, 94
		t.Errorf("%d frames were encoded, %q", encoded, note)
	}
}

// TestFloat32 checks that features in float32 are not rounded, and that their cache is
// another one, twice as large but for checksums and headers.
func TestFloat32(t *testing.T) {
	encoded := 0
	o := options(filepath.Join(t.TempDir(), "d.h5"), &encoded)
	open(t, o)
	o.Key.Float32 = true
	exact := func(v float32) float32 { return v }
	for _, limit := range []Limit{Auto, Off} {
		o.Limit, encoded = limit, 0
		s, note := open(t, o)
		checkAs(t, s, exact)
		if limit == Auto && (encoded != rows || !strings.Contains(note, "of 0.00448 MB") || !strings.Contains(note, "1 caches of other data, backbones or devices take 0.00248 MB")) { // 95 rows of 28 bytes and 19 headers of 96 are 4484
			t.Errorf("%d frames were encoded, %q", encoded, note)
		}
	}
}

// TestRing checks that features are retained up to a bound.
func TestRing(t *testing.T) {
	encoded := 0
	o := options("", &encoded)
	r := newRing(keyed(o))
	r.most = 3
	for i, c := range []struct {
		rows    []int32
		encoded int
	}{{[]int32{1, 2, 3}, 3}, {[]int32{3, 1}, 0}, {[]int32{4}, 1}, {[]int32{2, 3, 4}, 0}, {[]int32{1, 1, 5, 6, 7}, 4}, {[]int32{5, 6, 7}, 0}} {
		encoded = 0
		dst := make([]float32, len(c.rows)*patches*width)
		if err := r.Features(t.Context(), c.rows, dst); err != nil || encoded != c.encoded {
			t.Errorf("%d: %d encoded, want %d, %v", i, encoded, c.encoded, err)
		}
		for k, row := range c.rows {
			if dst[k*patches*width] != rounded(number(int(row), 0)) {
				t.Errorf("%d: place %d is not row %d", i, k, row)
			}
		}
	}
}

// files returns the shards of the only cache of a data set.
func files(t *testing.T, path string) map[string]string {
	t.Helper()
	out := map[string]string{}
	list, _ := filepath.Glob(path + ".features/*/*")
	for _, f := range list {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = string(b)
	}
	return out
}

// TestInterrupted checks that filling continues after an interruption, with the same
// bytes.
func TestInterrupted(t *testing.T) {
	encoded := 0
	o := options(filepath.Join(t.TempDir(), "d.h5"), &encoded)
	whole := o
	whole.Path = filepath.Join(t.TempDir(), "d.h5")
	open(t, whole)
	ctx, stop := context.WithCancel(t.Context())
	o.Progress = func(done, _ int64, _ string) {
		if done > 30 {
			stop()
		}
	}
	if _, _, err := Open(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("a fill that was stopped says %v", err)
	}
	encoded = 0
	_, note := open(t, o)
	if encoded >= 65 || encoded < 55 || !strings.Contains(note, "of 10 shards existed") {
		t.Errorf("%d frames were encoded after the first shards, %q", encoded, note)
	}
	if a, b := files(t, o.Path), files(t, whole.Path); len(a) != 11 || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%d files differ from the %d of a fill in one go", len(a), len(b))
	}
}

// TestHelperFill is the body of the processes that TestProcesses starts.
func TestHelperFill(t *testing.T) {
	path := os.Getenv("FEATURES_TEST_PATH")
	if path == "" {
		t.Skip("helper process of TestProcesses")
	}
	encoded := 0
	o := options(path, &encoded)
	encode := o.Encode
	o.Encode = func(ctx context.Context, dst []float32, frames []byte) error {
		time.Sleep(10 * time.Millisecond)
		return encode(ctx, dst, frames)
	}
	o.Progress = func(int64, int64, string) { fmt.Println("shard") }
	open(t, o)
	fmt.Println("encoded", encoded)
}

// TestProcesses kills a process that fills a cache and then starts two others at the
// same time. The bytes are those of a single process.
func TestProcesses(t *testing.T) {
	encoded := 0
	o := options(filepath.Join(t.TempDir(), "d.h5"), &encoded)
	start := func() (*exec.Cmd, *strings.Builder) {
		cmd := exec.Command(os.Args[0], "-test.run=TestHelperFill$", "-test.v")
		cmd.Env = append(os.Environ(), "FEATURES_TEST_PATH="+o.Path)
		out := &strings.Builder{}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	killed, _ := start()
	finished := func() []string { list, _ := filepath.Glob(o.Path + ".features/*/*.rows"); return list }
	for len(finished()) < 2 {
		time.Sleep(time.Millisecond)
	}
	killed.Process.Kill()
	killed.Wait()
	before := len(finished())
	a, outA := start()
	b, outB := start()
	if err := errors.Join(a.Wait(), b.Wait()); err != nil {
		t.Fatalf("%v\n%s%s", err, outA, outB)
	}
	s, note := open(t, o)
	check(t, s)
	if encoded != 0 || before < 2 || !strings.Contains(note, "10 of 10 shards existed") {
		t.Errorf("%d frames were encoded after two processes, %q", encoded, note)
	}
	sum := 0
	for _, out := range []*strings.Builder{outA, outB} {
		n, at := 0, strings.Index(out.String(), "encoded ")
		fmt.Sscanf(out.String()[max(at, 0):], "encoded %d", &n)
		sum += n
	}
	if left := rows - 10*before; sum < left || sum > left+5 { // the last shard has 5
		t.Errorf("two processes encoded %d frames after %d shards", sum, before)
	}
	whole := o
	whole.Path = filepath.Join(t.TempDir(), "d.h5")
	open(t, whole)
	if a, b := files(t, o.Path), files(t, whole.Path); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%d files differ from the %d of one process", len(a), len(b))
	}
}

// TestOthers checks that features of other data, another backbone or another device
// are not used, nor a shard that is incomplete, damaged, or belongs to another cache.
func TestOthers(t *testing.T) {
	encoded := 0
	dir := filepath.Join(t.TempDir(), "[x]*") // special characters of globs in the name of a folder
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	o := options(filepath.Join(dir, "d.h5"), &encoded)
	open(t, o)
	for name, change := range map[string]func(*Options){
		"data":     func(o *Options) { o.Data = data{rows: rows, name: "beef"} },
		"backbone": func(o *Options) { o.Key.Backbone = "cd" },
		"device":   func(o *Options) { o.Key.Device = "cuda" },
	} {
		encoded = 0
		other := o
		change(&other)
		s, note := open(t, other)
		if check(t, s); encoded != rows || !strings.Contains(note, "caches of other data, backbones or devices take") {
			t.Errorf("another %s: %d frames were encoded, %q", name, encoded, note)
		}
	}
	c, err := newCache(keyed(o))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(b []byte) []byte{
		"torn":    func(b []byte) []byte { return b[:len(b)-1] },
		"foreign": func(b []byte) []byte { b[20] ^= 1; return b },
	} {
		if err := rewrite(c.path(c.shards[2]), change); err != nil {
			t.Fatal(err)
		}
		encoded = 0
		s, note := open(t, o)
		if check(t, s); encoded != 10 || !strings.Contains(note, "9 of 10") {
			t.Errorf("%s: %d frames were encoded, %q", name, encoded, note)
		}
	}
	s, _ := open(t, o)
	if err := rewrite(c.path(c.shards[2]), func(b []byte) []byte { b[len(b)-7] ^= 1; return b }); err != nil {
		t.Fatal(err)
	}
	err = s.Features(t.Context(), []int32{29}, make([]float32, patches*width))
	if err == nil || !strings.Contains(err.Error(), "row 29 is damaged (hint: remove that file") {
		t.Errorf("a damaged row: %v", err)
	}
	if err := rewrite(c.path(c.shards[1]), func(b []byte) []byte { // exchanges its first two rows
		n := c.rowBytes()
		return slices.Concat(b[:headerBytes], b[headerBytes+n:headerBytes+2*n], b[headerBytes:headerBytes+n], b[headerBytes+2*n:])
	}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []int32{10, 11} {
		if err := s.Features(t.Context(), []int32{row}, make([]float32, patches*width)); err == nil || !strings.Contains(err.Error(), "is damaged (hint: ") {
			t.Errorf("a row in another place: %v", err)
		}
	}
	if err := rewrite(c.path(c.shards[1]), func(b []byte) []byte { return bytes.Replace(b, []byte("features 2 "), []byte("features 1 "), 1) }); err != nil {
		t.Fatal(err)
	}
	if _, note := open(t, o); !strings.Contains(note, "1 were damaged or of an older format and are computed again") {
		t.Errorf("an earlier version: %q", note)
	}
	if err := s.Features(t.Context(), []int32{rows}, make([]float32, patches*width)); err == nil || !strings.Contains(err.Error(), "has 95 rows") {
		t.Errorf("a row that is not there: %v", err)
	}
}

// TestBytes compares a cache in bf16 with the one that the version before Key.Float32
// wrote: its id, and the SHA-256 of its fourth shard.
func TestBytes(t *testing.T) {
	encoded := 0
	o := options(filepath.Join(t.TempDir(), "d.h5"), &encoded)
	_, note := open(t, o)
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(files(t, o.Path)["000000030.rows"]))); !strings.Contains(note, "/83be618384a26a980d22938f9440b476 ") || sum != "c1a2a47841b10af0aad2cb8b37151c84db23a33c9852bdef28a83e33da266c5c" {
		t.Errorf("%s, %s", note, sum)
	}
}

// keyed returns o with the key that Open sets.
func keyed(o Options) Options {
	o.Key.Data, _ = o.Data.Fingerprint()
	o.Key.FrameSize = o.Frames.Size()
	return o
}

func rewrite(path string, change func(b []byte) []byte) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, change(b), 0o666)
}

// TestLimits checks that a cache is used if it fits into the limit, and that the note
// says why if it does not. A size for which the disk does not have the space is an
// error.
func TestLimits(t *testing.T) {
	encoded := 0
	o := options(filepath.Join(t.TempDir(), "d.h5"), &encoded)
	o.Limit = 2000 // 95 rows of 16 bytes and 10 headers of 96 are 2480
	if _, note := open(t, o); !strings.Contains(note, "as they are needed: the cache of all 95 frames takes 0.00248 MB, and 0.002 MB allows") {
		t.Error(note)
	}
	o.Limit = 2480
	if _, note := open(t, o); !strings.Contains(note, "features come from the cache") {
		t.Error(note)
	}
	o.Limit = Auto
	if _, note := open(t, o); !strings.Contains(note, "features come from the cache") {
		t.Error(note)
	}
	o.Key.Patches, o.Key.Width = 1e6, 1e5 // 19 TB
	if _, note := open(t, o); !strings.Contains(note, "takes 1.9e+04 GB, and auto allows") {
		t.Error(note)
	}
	o.Limit = 1e18
	_, _, err := Open(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "needs another 1.9e+04 GB, and its disk has") || !strings.Contains(err.Error(), "(hint: free some space") {
		t.Errorf("a disk that is too small: %v", err)
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]Limit{"off": Off, "auto": Auto, "40GB": 40e9, "1.5TB": 1.5e12, "7MB": 7e6} {
		if got, err := ParseLimit(text); got != want || err != nil {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "40", "GB", "-1GB", "NaNGB", "1e30GB", "0MB", "InfTB"} {
		if got, err := ParseLimit(text); err == nil || !strings.Contains(err.Error(), "hint") {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// The numbers follow from the format: 7 stored bits of fraction after an implicit 1.
func TestBF16(t *testing.T) {
	for v, want := range map[float32]uint16{1: 0x3f80, -2: 0xc000, 1 + 1./256: 0x3f80, 1 + 3./256: 0x3f82, 1 + 1.01/256: 0x3f81, 0: 0,
		float32(math.Inf(1)): 0x7f80, math.MaxFloat32: 0x7f80} {
		if got := bf16(v); got != want {
			t.Errorf("%g is %#x, want %#x", v, got, want)
		}
	}
	for _, bits := range []uint32{0x7f800001, 0x7fffffff, 0xffffffff} {
		if got := bf16(math.Float32frombits(bits)); got&0x7f80 != 0x7f80 || got&0x7f == 0 {
			t.Errorf("the NaN %#x becomes %#x", bits, got)
		}
	}
}
