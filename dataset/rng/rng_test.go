package rng

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// The expected blocks are the published known answers for philox4x32-10: file
// kat_vectors of Random123 1.14 (D. E. Shaw Research).
func TestPhiloxKnownAnswers(t *testing.T) {
	const f = 0xFFFFFFFF
	for _, c := range []struct {
		ctr  [4]uint32
		key  [2]uint32
		want [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
		{[4]uint32{f, f, f, f}, [2]uint32{f, f}, [4]uint32{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
		{[4]uint32{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, [2]uint32{0xA4093822, 0x299F31D0},
			[4]uint32{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
	} {
		if got := philox(c.key, c.ctr); got != c.want {
			t.Errorf("philox(key %x, counter %x) = %x, want %x", c.key, c.ctr, got, c.want)
		}
	}
	if got, want := Philox(0, 0), [4]uint32{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}; got != want {
		t.Errorf("Philox(0, 0) = %x, want %x", got, want)
	}
}

// golden.json is the output of testdata/golden.py, an independent implementation that
// shares no code with this package.
func TestGolden(t *testing.T) {
	b, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name   []any
		Key    string
		Words  []string
		Normal []float64
		Far    struct {
			Index  uint64
			Normal float64
		}
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		purpose, ids := c.Name[0].(string), c.Name[1:]
		for i, id := range ids {
			if f, ok := id.(float64); ok {
				ids[i] = int(f)
			}
		}
		key := Key(purpose, ids...)
		if got := strconv.FormatUint(key, 10); got != c.Key {
			t.Errorf("Key(%v) = %s, want %s", c.Name, got, c.Key)
		}
		r := Stream(purpose, ids...)
		for i, w := range c.Words {
			if got := strconv.FormatUint(r.Uint64(), 10); got != w {
				t.Errorf("word %d of %v = %s, want %s", i, c.Name, got, w)
			}
		}
		for i, w := range append(c.Normal, c.Far.Normal) {
			at := uint64(i)
			if i == len(c.Normal) {
				at = c.Far.Index
			}
			if got := Normal(key, at); math.Abs(got-w) > 1e-14 {
				t.Errorf("normal %d of %v = %v, want %v", at, c.Name, got, w)
			}
		}
	}
}

func TestKeyTellsNamesApart(t *testing.T) {
	names := [][]any{{"a"}, {"b"}, {"a", 0}, {"a", 1}, {"a", -1}, {"a", "0"}, {"a", 0, 0}, {"a", ""}, {"a", "b"}, {"ab"},
		{"a", "b", "c"}, {"a", "bc"}, {"a", uint64(math.MaxUint64)}, {"a", uint64(1 << 63)}, {"a", math.MinInt64}}
	seen := map[uint64][]any{}
	for _, n := range names {
		k := Key(n[0].(string), n[1:]...)
		if other, ok := seen[k]; ok {
			t.Errorf("%v and %v have the same key", n, other)
		}
		seen[k] = n
	}
	for _, same := range []any{int32(7), int64(7), uint32(7), uint64(7)} {
		if Key("a", same) != Key("a", 7) {
			t.Errorf("id 7 of type %T is another stream than int 7", same)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an id of type float64 did not panic")
		}
	}()
	Key("a", 1.5)
}

// Streams with neighbouring ids must look independent. Of independent words half of
// the bits agree; over 4096 words of 64 bits the standard error of that share is
// 1/1024.
func TestNeighbouringStreamsAreUncorrelated(t *testing.T) {
	a, b := Stream("test", 1), Stream("test", 2)
	equal := 0
	for range 4096 {
		for x := a.Uint64() ^ b.Uint64(); x != 0; x &= x - 1 {
			equal++
		}
	}
	if share := float64(equal) / (4096 * 64); math.Abs(share-0.5) > 5.0/1024 {
		t.Errorf("streams 1 and 2 differ in a share of %.4f of their bits, want 0.5", share)
	}
}

// The first four moments of 200,000 normals. The bounds are five standard errors.
func TestNormalMoments(t *testing.T) {
	const n = 200000
	key := Key("moments")
	var m [5]float64
	for i := range uint64(n) {
		x := Normal(key, i)
		for p, v := 1, x; p <= 4; p, v = p+1, v*x {
			m[p] += v / n
		}
	}
	root := math.Sqrt(n)
	for p, want := range map[int][2]float64{1: {0, 1}, 2: {1, math.Sqrt(2)}, 3: {0, math.Sqrt(15)}, 4: {3, math.Sqrt(96)}} {
		if math.Abs(m[p]-want[0]) > 5*want[1]/root {
			t.Errorf("moment %d is %.4f, want %.0f ± %.4f", p, m[p], want[0], 5*want[1]/root)
		}
	}
}

func TestStreamIsARandSource(t *testing.T) {
	var sum float64
	r := Stream("uniform")
	for range 10000 {
		sum += r.Float64()
	}
	if mean := sum / 10000; math.Abs(mean-0.5) > 0.015 {
		t.Errorf("mean of 10000 uniforms is %.4f, want 0.5 ± 0.015", mean)
	}
}

// The expected seeds are in docs/sources.md#planner-seeds.
func TestPlannerSeed(t *testing.T) {
	for _, c := range []struct {
		index int
		tier  string
		want  uint32
	}{{0, "T1", 59584227}, {1, "T1", 993085830}, {9, "T1", 2122670441}, {0, "T2", 444890969}, {99, "T5", 851400582}, {99, "T1", 902992799}} {
		if got := PlannerSeed(c.index, c.tier); got != c.want {
			t.Errorf("PlannerSeed(%d, %s) = %d, want %d", c.index, c.tier, got, c.want)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	r, std := Stream("bench"), rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		r.Uint64()
	}
	start := time.Now()
	for range b.N {
		std.Uint64()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(time.Since(start)), "x_PCG")
}

func BenchmarkNormal(b *testing.B) {
	i := uint64(0)
	for b.Loop() {
		Normal(7, i)
		i++
	}
}
