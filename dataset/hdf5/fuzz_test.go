package hdf5

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"scalewm/envs/fuzztest"
)

// stages are the filters the fuzzers go through.
var stages = []int{filterDeflate, filterShuffle, filterFletcher, filterLZF, filterBlosc, filterZstd}

// FuzzPipeline: no stored bytes make a filter panic, write beyond its chunk or
// succeed with another length.
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

// FuzzBlosc decodes hostile Blosc buffers.
func FuzzBlosc(f *testing.F) {
	for _, flags := range []byte{0x01, 0x02, 0x04, 0x21, 0x31, 0x61, 0x81, 0x84} {
		f.Add([]byte{2, 1, flags, 4, 64, 0, 0, 0, 64, 0, 0, 0, 30, 0, 0, 0, 20, 0, 0, 0, 6, 0, 0, 0, 1, 2, 3, 4, 5, 6})
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		out := make([]byte, 4096)
		if got, err := bloscDecode(out, src); err == nil && len(got) > len(out) {
			t.Error("decoded more than the chunk")
		}
	})
}

// FuzzIndex parses object headers and chunk indexes out of hostile bytes. The
// seeds are whole small files, with the addresses of their data sets.
func FuzzIndex(f *testing.F) {
	for _, name := range []string{"lzf_growing", "boxes", "zstd", "swm_writer"} {
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
		c := newCursor(bytes.NewReader(b), int64(len(b)))
		if d, err := describe(c, "x", uint64(addr)); err == nil {
			_ = d.dtype()
		}
		g := chunkGrid{dims: []uint64{uint64(rows), 7}, max: []uint64{unlimited, 7}, chunk: []uint64{uint64(chunk) + 1, 7}, elem: 4}
		refs, err := parseIndex(newCursor(bytes.NewReader(b), int64(len(b))), uint64(addr), g)
		if err == nil && uint64(len(refs)) != g.counts()[0] {
			t.Errorf("%d chunks", len(refs))
		}
	})
}
