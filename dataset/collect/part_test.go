package collect

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"scalewm/dataset/safefile/fuzztest"
	"scalewm/envs"
)

var partColumns = []envs.Column{{Name: "action", DType: "float32", Width: 2}, {Name: "x", DType: "int32", Width: 1}}

func partEpisodes() []episode {
	return []episode{
		{rows: 2, columns: map[string][]float64{"action": {1, 2, math.NaN(), math.Inf(1)}, "x": {3, 4}}, frames: [][]byte{{1}, {2, 3}}},
		{rows: 1, columns: map[string][]float64{"action": {-1, 0}, "x": {9}}, frames: [][]byte{{7, 7, 7}}},
	}
}

func TestPartRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.part")
	if err := writePart(path, partColumns, partEpisodes()); err != nil {
		t.Fatal(err)
	}
	p, err := readPart(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(partEpisodes(), p.episodes, cmp.AllowUnexported(episode{}), cmpopts.EquateNaNs()); d != "" {
		t.Error(d)
	}
	if !p.fits(partColumns, 2) || p.fits(partColumns, 3) || p.fits(partColumns[:1], 2) {
		t.Error("fits is wrong")
	}
}

func encoded(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encodePart(&b, partColumns, partEpisodes()); err != nil {
		t.Fatal(err)
	}
	return sealed(b.Bytes())
}

// sealed appends the right checksum, so that a malformed body passes it.
func sealed(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Clone(b), crc32.Checksum(b, castagnoli))
}

// A part that is truncated anywhere, or that has any byte changed, is not a part.
func TestTornParts(t *testing.T) {
	whole := encoded(t)
	if _, err := decodePart(whole); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if _, err := decodePart(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for a part", n, len(whole))
		}
		b := bytes.Clone(whole)
		b[n] ^= 0x10
		if _, err := decodePart(b); err == nil {
			t.Errorf("a change of byte %d goes unnoticed", n)
		}
	}
}

func FuzzPart(f *testing.F) {
	whole := encoded(f)
	f.Add(whole[:len(whole)-4])
	f.Add([]byte(partMagic + "\x02\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p *contents
		var err error
		fuzztest.Read(t, len(b), func() { p, err = decodePart(sealed(b)) })
		if err != nil {
			return
		}
		for _, e := range p.episodes {
			if len(e.frames) != e.rows {
				t.Errorf("%d frames in %d rows", len(e.frames), e.rows)
			}
		}
	})
}
