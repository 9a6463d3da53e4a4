package hdf5

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/envs"
)

// extent is a range of bytes of a file.
type extent struct{ from, to int }

// chunksOf returns where the raw data of a file are.
func chunksOf(f *File) (raw []extent) {
	for _, d := range f.list.sets {
		s, err := newDset(d, f.in, 1<<40, true, &f.cache)
		if err != nil {
			continue
		}
		if d.layout == layoutContig && d.offset != undefAddr {
			raw = append(raw, extent{int(d.offset), int(d.offset) + s.rows*s.rowBytes})
		}
		for _, r := range s.refs {
			if r.addr != undefAddr {
				raw = append(raw, extent{int(r.addr), int(r.addr) + int(r.size)})
			}
		}
	}
	return raw
}

// digest returns everything that a reader sees of a file, or the error that rejects
// it.
func digest(path string) (string, error) {
	f, err := Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	fmt.Fprintln(sum, f.episodes, f.columns, f.skipped, f.FrameSize())
	for _, name := range slices.Sorted(maps.Keys(f.Attrs())) {
		fmt.Fprintf(sum, "%q %q\n", name, f.Attrs()[name])
	}
	for _, c := range f.columns {
		if err := f.hashColumn(sum, c.Name); err != nil {
			return "", err
		}
	}
	frame := make([]byte, envs.FrameBytes)
	for row := range f.rows {
		if f.FrameSize() == 0 {
			break
		}
		if err := f.Frame(row, frame); err != nil {
			return "", err
		}
		sum.Write(frame)
	}
	print, err := f.Fingerprint()
	return fmt.Sprintf("%x %s", sum.Sum(nil), print), err
}

// campaign flips bits of a file, one at a time, at given bytes. Every flip must be
// rejected or change nothing that a reader sees.
type campaign struct {
	refused, harmless int
	path, want        string
	content           []byte
}

func newCampaign(t *testing.T, path string) *campaign {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := digest(path)
	if err != nil {
		t.Fatal(err)
	}
	c := &campaign{path: filepath.Join(t.TempDir(), "flipped.h5"), want: want, content: content}
	if err := os.WriteFile(c.path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *campaign) flip(t *testing.T, at int, mask byte) {
	t.Helper()
	f, err := os.OpenFile(c.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{c.content[at] ^ mask}, int64(at)); err != nil {
		t.Fatal(err)
	}
	switch got, err := digest(c.path); {
	case err != nil:
		c.refused++
	case got == c.want:
		c.harmless++
	default:
		t.Errorf("byte %d, mask %#02x: other data are read without an error", at, mask)
	}
	if _, err := f.WriteAt(c.content[at:at+1], int64(at)); err != nil {
		t.Fatal(err)
	}
}

// long requests the long campaign (make flips): every bit of our files, and every
// byte of files by others. The short one flips one bit of every n-th byte.
var long = os.Getenv("SCALEWM_FLIPS") == "all"

func inside(raw []extent, at int) bool {
	return slices.ContainsFunc(raw, func(e extent) bool { return e.from <= at && at < e.to })
}

// flipAll flips one bit of every n-th byte of those that take selects. The bit
// changes from byte to byte.
func (c *campaign) flipAll(t *testing.T, n int, take func(at int) bool) {
	t.Helper()
	for at, k := 0, 0; at < len(c.content); at++ {
		if !take(at) {
			continue
		}
		if k++; k%n == 0 {
			c.flip(t, at, 1<<(k/n%8))
		}
	}
}

// Bits of our own files, outside the chunks and within them. With few attributes
// these are in the root's header, with many in a heap.
func TestFlipsOfOurs(t *testing.T) {
	all := ""
	for _, attributes := range []int{5, 11} {
		path := filepath.Join(t.TempDir(), "ours.h5")
		attrs := map[string]string{"env": "tworoom", "empty": ""}
		for i := len(attrs); i < attributes; i++ {
			attrs[fmt.Sprintf("switch_%d", i)] = fmt.Sprint("value ", i)
		}
		w, err := Create(path, WriterOptions{Columns: testColumns, FrameSize: envs.FrameSize, Attrs: attrs})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			ep := testEpisode(6*i, 6)
			for row, f := range ep.Frames {
				ep.Frames[row] = bytes.Repeat([]byte{byte(row), 7, byte(i)}, len(f)/3)
			}
			if err := w.Append(ep); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f := opened(t, path)
		if got := f.Protection(); got != "checksums cover its metadata and every value" {
			t.Error(got)
		}
		raw := chunksOf(f)
		outside, chunks := newCampaign(t, path), newCampaign(t, path)
		all += string(outside.content)
		if long {
			for bit := range 8 {
				for at := range outside.content {
					if !inside(raw, at) {
						outside.flip(t, at, 1<<bit)
					}
				}
			}
		}
		outside.flipAll(t, 59, func(at int) bool { return !inside(raw, at) })
		chunks.flipAll(t, 601, func(at int) bool { return inside(raw, at) })
		t.Logf("%d attributes, outside chunks: %d flips refused, %d without consequence; within: %d refused", attributes, outside.refused, outside.harmless, chunks.refused)
		if chunks.harmless > 0 {
			t.Errorf("%d flips within chunks passed", chunks.harmless)
		}
	}
	for _, sig := range []string{"OHDR", "OCHK", "FRHP", "FHDB", "BTHD", "BTLF", "EAHD", "EAIB", "EADB"} {
		if !strings.Contains(all, sig) {
			t.Errorf("no file has an %s: the %s is untested", sig, structures[sig])
		}
	}
}

// Bits of files by h5py in the formats that have checksums. Raw data without a
// checksum and the global heap (strings of variable length), which never has one, are
// left out.
func TestFlipsOfOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for name, step := range map[string]int{"gzip_7": 97, "indexes": 1999, "latest": 151, "lzf_growing": 97, "sideways": 113} {
		if long {
			step = 1
		}
		f := openFixture(t, name)
		out := chunksOf(f)
		c := newCampaign(t, f.path)
		if i := bytes.Index(c.content, []byte("GCOL")); i >= 0 {
			out = append(out, extent{i, i + int(binary.LittleEndian.Uint64(c.content[i+8:]))})
		}
		c.flipAll(t, step, func(at int) bool { return !inside(out, at) })
		t.Logf("%s: %d flips refused, %d without consequence", name, c.refused, c.harmless)
	}
}

// Files in the earliest format have no checksums in their metadata. The places of a
// column's chunks can still be checked by their order and by the grid: any flip there
// is rejected, or leaves rows that data check reports as never written.
func TestFlipsOfOldPlaces(t *testing.T) {
	path := openFixture(t, "indexes_old").path
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) (string, error) {
		f, err := Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		var w strings.Builder
		for _, c := range f.Columns() {
			fmt.Fprintln(&w, c.Name, f.Unwritten(c.Name))
		}
		return w.String(), nil
	}
	want, err := read(path)
	if err != nil || !strings.Contains(want, "sparse [[0 500] [510 550]]") { // chunks of 10 rows
		t.Fatalf("%q, %v", want, err)
	}
	to := filepath.Join(t.TempDir(), "flipped.h5")
	tried := 0
	var node func(at, rank int)
	node = func(at, rank int) {
		key := 8 + 8*(rank+1)
		for k := range int(binary.LittleEndian.Uint16(content[at+6:])) {
			entry := at + 24 + k*(key+8)
			if content[at+5] > 0 {
				node(int(binary.LittleEndian.Uint64(content[entry+key:])), rank)
				continue
			}
			for b := range key - 8 {
				flipped := bytes.Clone(content)
				flipped[entry+8+b] ^= 1 << (b % 8)
				if err := os.WriteFile(to, flipped, 0o666); err != nil {
					t.Fatal(err)
				}
				if got, err := read(to); err == nil && got == want {
					t.Fatalf("node at %d, chunk %d, byte %d of its place: nobody notices", at, k, b)
				}
				tried++
			}
		}
	}
	f := opened(t, path)
	for name, s := range f.sets {
		h, err := readHeader(newCursor(bytes.NewReader(content), int64(len(content))), s.header)
		if err != nil {
			t.Fatal(name, err)
		}
		if lay, err := parseLayout(h.last(msgLayout)); s.layout == layoutChunked && err == nil && lay.kind == indexBTree1 && lay.addr != undefAddr && len(s.refs) <= 20 {
			node(int(lay.addr), len(s.dims))
		}
	}
	if tried < 300 {
		t.Errorf("%d flips", tried)
	}
}

// The error for a flipped bit names column, chunk and rows, or the structure and its
// position.
func TestFlipIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.h5")
	writeTest(t, path, Deflate, 5, 3)
	f := opened(t, path)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	set := func(name string) *dset { return f.sets[name] }
	for _, c := range []struct {
		at   uint64
		want []string
	}{
		{set("state").refs[0].addr + 9, []string{"reading state of", "chunk 0 (rows 0 to 7)", "fletcher32", "checksum", "hint"}},
		{f.pixels.refs[6].addr + 40, []string{"row 6", "chunk 6 (rows 6 to 6)", "fletcher32", "checksum", "hint"}},
		{set("action").header + 20, []string{"column action", fmt.Sprintf("the object header at byte %d does not match its checksum", set("action").header), "hint"}},
		{f.list.root + 20, []string{"the object header at byte", "checksum", "hint"}},
		{40, []string{"the superblock at byte 0", "checksum", "hint"}},
	} {
		b := bytes.Clone(content)
		b[c.at] ^= 4
		spoilt := filepath.Join(t.TempDir(), "spoilt.h5")
		if err := os.WriteFile(spoilt, b, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := digest(spoilt)
		oneLine(t, fmt.Sprint("byte ", c.at), err, append(c.want, spoilt)...)
		if errors.Is(err, errChecksum) != (c.at == 40 || c.at == f.list.root+20 || c.at == set("action").header+20) {
			t.Errorf("%v", err)
		}
	}
}
