package hdf5

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// The expected values are those that the author of lookup3 prints in his self-test
// (driver5).
func TestLookup3(t *testing.T) {
	for text, want := range map[string]uint32{"": 0xdeadbeef, "Four score and seven years ago": 0x17770551} {
		if got := lookup3([]byte(text)); got != want {
			t.Errorf("%q: %#x, want %#x", text, got, want)
		}
	}
}

// plainFletcher is the definition of Fletcher-32: both sums are reduced after every
// word.
func plainFletcher(b []byte) uint32 {
	var s1, s2 uint32
	reduce := func(s uint32) uint32 {
		if s > 0xffff {
			return s - 0xffff
		}
		return s
	}
	for i := 0; i < len(b); i += 2 {
		w := uint32(b[i]) << 8
		if i+1 < len(b) {
			w |= uint32(b[i+1])
		}
		s1 = reduce(s1 + w)
		s2 = reduce(s2 + s1)
	}
	return s2<<16 | s1
}

func TestFletcher32(t *testing.T) {
	// The example in the usual description of the algorithm, with words in big-endian
	// order.
	if got := fletcher32([]byte("badcfehg")); got != 0xEBE19591 {
		t.Errorf("badcfehg: %#x", got)
	}
	r := rand.New(rand.NewPCG(1, 2))
	long := make([]byte, 3<<20+1)
	for i := range long {
		long[i] = byte(r.Uint32())
	}
	for n := range 40 {
		for _, b := range [][]byte{long[:n], make([]byte, n), bytes.Repeat([]byte{0xff}, n), long[n:]} {
			if got, want := fletcher32(b), plainFletcher(b); got != want {
				t.Errorf("%d bytes: %#x, want %#x", len(b), got, want)
			}
		}
	}
}

func BenchmarkFletcher32(b *testing.B) {
	frame := frameOf(1)
	b.SetBytes(int64(len(frame)))
	for b.Loop() {
		fletcher32(frame)
	}
}
