package hdf5

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"scalewm/dataset/safefile/fuzztest"
	"scalewm/envs"
)

// stages are the filters that the fuzz targets use.
var stages = []int{filterDeflate, filterShuffle, filterFletcher, filterLZF, filterBlosc, filterZstd}

// FuzzPipeline checks that no stored bytes make a filter panic, write beyond its
// chunk, or succeed with another length.
func FuzzPipeline(f *testing.F) {
	frame := frameOf(1)[:4096]
	f.Add(Deflate.Encode(nil, frame), uint8(0), uint8(0), uint16(4096))
	f.Add(Zstd.Encode(nil, frame), uint8(5), uint8(0), uint16(4096))
	f.Add(frame, uint8(1), uint8(2), uint16(4092))
	f.Fuzz(func(t *testing.T, src []byte, first, second uint8, size uint16) {
		p := pipeline{stages: []filterInfo{{id: stages[int(first)%len(stages)]}, {id: stages[int(second)%len(stages)]}}, elem: int(first)%9 + 1}
		dst := make([]byte, size)
		fuzztest.Read(t, len(src), func() {
			for mask := range uint32(4) {
				_ = p.decode(dst, src, mask)
			}
		})
	})
}

// FuzzBlosc decodes malformed Blosc buffers. The seeds are real ones of every codec
// and shuffle.
func FuzzBlosc(f *testing.F) {
	h, err := Open("testdata/blosc.h5")
	if err != nil {
		f.Fatal(err)
	}
	defer h.Close()
	for _, d := range h.sets {
		if len(d.refs) > 0 && len(d.filters) > 0 && d.filters[0].id == filterBlosc {
			raw := make([]byte, d.refs[0].size)
			if _, err := h.f.ReadAt(raw, int64(d.refs[0].addr)); err != nil {
				f.Fatal(err)
			}
			f.Add(raw)
		}
	}
	for _, flags := range []byte{0x01, 0x02, 0x04, 0x21, 0x31, 0x61, 0x81, 0x84} {
		f.Add([]byte{2, 1, flags, 4, 64, 0, 0, 0, 64, 0, 0, 0, 30, 0, 0, 0, 20, 0, 0, 0, 6, 0, 0, 0, 1, 2, 3, 4, 5, 6})
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		fuzztest.Read(t, len(src), func() {
			out := make([]byte, 1<<16)
			if got, err := bloscDecode(out, src); err == nil && len(got) > len(out) {
				t.Error("decoded more than the chunk")
			}
		})
	})
}

// unseal disables checksums, as if whoever made the malformed file had made them
// right.
func unseal(f *testing.F) {
	ignoreChecksums = true
	f.Cleanup(func() { ignoreChecksums = false })
}

// FuzzIndex parses object headers and chunk indexes in malformed bytes. The seeds are
// complete small files, with the addresses of their data sets.
func FuzzIndex(f *testing.F) {
	unseal(f)
	for _, name := range []string{"lzf_growing", "boxes", "zstd", "swm_writer", "latest", "sideways"} {
		path := filepath.Join("testdata", name+".h5")
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		h, err := Open(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, d := range h.list.sets {
			f.Add(b[:min(len(b), 20000)], uint32(d.header), uint16(20), uint8(1))
		}
		h.Close()
	}
	f.Fuzz(func(t *testing.T, b []byte, addr uint32, rows uint16, chunk uint8) {
		if d, err := describe(newCursor(bytes.NewReader(b), int64(len(b))), "x", uint64(addr)); err == nil {
			_ = d.dtype()
		}
		g := chunkGrid{dims: []uint64{uint64(rows), 7}, max: []uint64{undefAddr, 7}, chunk: []uint64{uint64(chunk) + 1, 7}, elem: 4}
		refs, err := parseIndex(newCursor(bytes.NewReader(b), int64(len(b))), uint64(addr), g)
		if err == nil && uint64(len(refs)) != g.counts()[0] {
			t.Errorf("%d chunks", len(refs))
		}
	})
}

// edited is a copy of a fixture on disk, for inputs that are edits of it: fuzzers
// find more in a file that is nearly right than in bytes that they make up.
type edited struct {
	*os.File
	bytes []byte
	sets  []description
}

func openEdited(f *testing.F, names ...string) (all []edited) {
	dir := f.TempDir()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join("testdata", name+".h5"))
		if err != nil {
			f.Fatal(err)
		}
		w := edited{bytes: b}
		if w.File, err = os.Create(filepath.Join(dir, name)); err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() { w.Close() })
		if _, err := w.Write(b); err != nil {
			f.Fatal(err)
		}
		h, err := Open(w.Name())
		if err != nil {
			f.Fatal(err)
		}
		w.sets = h.list.sets
		h.Close()
		all = append(all, w)
	}
	return all
}

// edit changes the copy and returns a function that restores it. Each 4 bytes are a
// position, of 3 bytes, and a value to xor there.
func (w edited) edit(edits []byte) (undo func()) {
	var places []int64
	for ; len(edits) >= 4; edits = edits[4:] {
		at := int64(uint64LE(edits[:3])) % int64(len(w.bytes))
		places = append(places, at)
		w.WriteAt([]byte{w.bytes[at] ^ edits[3]}, at)
	}
	return func() {
		for _, at := range places {
			w.WriteAt(w.bytes[at:at+1], at)
		}
	}
}

// FuzzDset reads data sets of edited files with our own parser alone: their
// descriptions, chunk indexes and chunks.
func FuzzDset(f *testing.F) {
	unseal(f)
	files := openEdited(f, "boxes", "indexes", "indexes_old", "latest", "lzf_growing", "swm_writer", "types", "zstd")
	for i, w := range files {
		for j, d := range w.sets {
			f.Add(uint8(i), uint8(j), binary.LittleEndian.AppendUint32(nil, uint32(d.header+40)))
		}
	}
	f.Fuzz(func(t *testing.T, which, set uint8, edits []byte) {
		w := files[int(which)%len(files)]
		defer w.edit(edits)()
		size := int64(len(w.bytes))
		fuzztest.Read(t, len(w.bytes), func() {
			d, err := describe(newCursor(w, size), "x", w.sets[int(set)%len(w.sets)].header)
			if err != nil || d.dtype() == "" || len(d.dims) == 0 {
				return
			}
			s, err := newDset(d, w.File, size, true, &chunkCache{})
			if err != nil || s.rowBytes == 0 || max(s.chunkBytes, s.rowBytes) > 1<<18 {
				return
			}
			n := min(s.rows, 1+1<<14/s.rowBytes)
			_, _ = s.numbers(0, n)
			_, _ = s.numbers(n/2, n)
			_, _ = s.numbers(s.rows-n, s.rows)
		})
	})
}

// FuzzOpen opens edited files as every verb does, with libhdf5, and reads all of
// them. The files have checksums: those of the earliest format have none, and libhdf5
// 1.10 reads outside its memory if their metadata are damaged.
func FuzzOpen(f *testing.F) {
	files := openEdited(f, "latest", "lzf_growing", "sideways", "swm_writer")
	for i, w := range files {
		for _, d := range w.sets {
			f.Add(uint8(i), binary.LittleEndian.AppendUint32(nil, uint32(d.header+40)))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		w := files[int(which)%len(files)]
		defer w.edit(edits)()
		fuzztest.Read(t, len(w.bytes), func() {
			h, err := Open(w.Name())
			if err != nil {
				return
			}
			defer h.Close()
			for _, c := range h.Columns() {
				_, _ = h.Read(c.Name, 0, min(h.Rows(), 100))
			}
			if h.FrameSize() > 0 && h.pixels.chunkBytes <= 1<<20 {
				_ = h.Frame(0, make([]byte, envs.FrameBytes))
			}
		})
	})
}

// FuzzSuperblock verifies malformed bytes as a file: its superblock, and the header,
// heap and B-trees of its root group.
func FuzzSuperblock(f *testing.F) {
	unseal(f)
	for _, name := range []string{"lzf_growing", "latest", "gzip_7", "sideways", "userblock", "swm_writer"} {
		b, err := os.ReadFile(filepath.Join("testdata", name+".h5"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 20000)])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = readSuperblock(bytes.NewReader(b), int64(len(b)))
	})
}

// FuzzHeapAndTree verifies malformed bytes as an object and as a fractal heap, and
// walks them as a version 2 B-tree.
func FuzzHeapAndTree(f *testing.F) {
	unseal(f)
	for _, name := range []string{"indexes", "latest", "sideways"} {
		b, err := os.ReadFile(filepath.Join("testdata", name+".h5"))
		if err != nil {
			f.Fatal(err)
		}
		for _, sig := range []string{"FRHP", "BTHD"} {
			if at := bytes.Index(b, []byte(sig)); at >= 0 {
				f.Add(b[at:min(len(b), at+8192)], uint16(0))
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, addr uint16) {
		c := func() *cursor { return newCursor(bytes.NewReader(b), int64(len(b))) }
		_ = verifyHeap(c(), uint64(addr))
		_ = verifyObject(c(), uint64(addr))
		_ = walkBTree2(c(), uint64(addr), func([]byte) error { return nil })
	})
}

// FuzzFletcher32 compares the fast sum with its definition.
func FuzzFletcher32(f *testing.F) {
	f.Add([]byte("badcfehg"), uint16(300))
	f.Fuzz(func(t *testing.T, b []byte, times uint16) {
		b = bytes.Repeat(b, int(times)%600)
		if got, want := fletcher32(b), plainFletcher(b); got != want {
			t.Errorf("%#x, want %#x", got, want)
		}
	})
}
