package numpy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// fixture is testdata/draws.json, the output of testdata/fixture.py with NumPy. A
// long list of draws is stored as its SHA-256.
type fixture struct {
	Words []struct {
		Seed   string
		Raw    []string
		Random []float64
	}
	Choice []struct {
		Seed       string
		Pool, Size int64
		Choice     json.RawMessage
		Next       int64
	}
	Integers []struct {
		Seed   string
		Bounds [][2]int64
		Draws  []int64
	}
	Permutation []struct {
		Seed        string
		N           int64
		Permutation json.RawMessage
	}
}

func load(t *testing.T) (f fixture) {
	b, err := os.ReadFile("testdata/draws.json")
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil || len(f.Words) == 0 || len(f.Choice) < 200 || len(f.Integers) == 0 || len(f.Permutation) == 0 {
		t.Fatalf("fixture: %v", err)
	}
	return f
}

func seeded(t *testing.T, seed string) *Generator {
	s, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return New(s)
}

// same compares draws with a JSON list, or with the digest of one.
func same(t *testing.T, got []int64, want json.RawMessage) bool {
	var list []int64
	if json.Unmarshal(want, &list) == nil {
		return len(got) == len(list) && (len(got) == 0 || reflect.DeepEqual(got, list))
	}
	h := sha256.New()
	if err := binary.Write(h, binary.LittleEndian, got); err != nil {
		t.Fatal(err)
	}
	return `"`+hex.EncodeToString(h.Sum(nil))+`"` == string(want)
}

func TestWords(t *testing.T) {
	for _, c := range load(t).Words {
		g := seeded(t, c.Seed)
		for i, w := range c.Raw {
			if got := strconv.FormatUint(g.Uint64(), 10); got != w {
				t.Errorf("seed %s, word %d: %s, want %s", c.Seed, i, got, w)
			}
		}
		for i, w := range c.Random {
			if got := g.Random(); got != w {
				t.Errorf("seed %s, random %d: %v, want %v", c.Seed, i, got, w)
			}
		}
	}
}

func TestChoice(t *testing.T) {
	for _, c := range load(t).Choice {
		g := seeded(t, c.Seed)
		if got := g.Choice(c.Pool, c.Size); !same(t, got, c.Choice) {
			t.Errorf("seed %s: choice of %d out of %d: %v, want %s", c.Seed, c.Size, c.Pool, got[:min(len(got), 12)], c.Choice)
		}
		if got := g.Integers(0, 1000); got != c.Next {
			t.Errorf("seed %s: draw after the choice of %d out of %d is %d, want %d", c.Seed, c.Size, c.Pool, got, c.Next)
		}
	}
}

func TestIntegers(t *testing.T) {
	for _, c := range load(t).Integers {
		g := seeded(t, c.Seed)
		for i, b := range c.Bounds {
			if got := g.Integers(b[0], b[1]); got != c.Draws[i] {
				t.Errorf("seed %s: draw %d in %v is %d, want %d", c.Seed, i, b, got, c.Draws[i])
			}
		}
	}
}

func TestPermutation(t *testing.T) {
	for _, c := range load(t).Permutation {
		if got := seeded(t, c.Seed).Permutation(c.N); !same(t, got, c.Permutation) {
			t.Errorf("seed %s: permutation of %d: %v, want %s", c.Seed, c.N, got[:min(len(got), 12)], c.Permutation)
		}
	}
}

// TestPeersNumPy compares 600 random choices, at and around the size where NumPy
// switches its algorithm, with the installed NumPy.
func TestPeersNumPy(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if python == "" {
		t.Skip("peers: SCALEWM_PEERS names no Python with NumPy")
	}
	const script = `
import sys, numpy
for line in sys.stdin:
    s, p, n = map(int, line.split())
    print(*numpy.random.default_rng(s).choice(p, n, replace=False))`
	r := rand.New(rand.NewPCG(1, 2))
	var in, want strings.Builder
	for range 600 {
		seed, pool := r.Uint64()>>r.IntN(64), int64(9000+r.IntN(4000))
		size := min(pool, max(0, pool/50+int64(r.IntN(5))-2))
		in.WriteString(strconv.FormatUint(seed, 10) + " " + strconv.FormatInt(pool, 10) + " " + strconv.FormatInt(size, 10) + "\n")
		for i, v := range New(seed).Choice(pool, size) {
			if i > 0 {
				want.WriteByte(' ')
			}
			want.WriteString(strconv.FormatInt(v, 10))
		}
		want.WriteByte('\n')
	}
	cmd := exec.Command(python, "-c", script)
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("running NumPy: %v", err)
	}
	if string(out) != want.String() {
		t.Error("some of 600 choices differ from the installed NumPy")
	}
}

func TestCallerBugsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"sample beyond the pool": func() { New(0).Choice(3, 4) },
		"negative sample":        func() { New(0).Choice(3, -1) },
		"empty range":            func() { New(0).Integers(3, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r, ok := recover().(string); !ok || !strings.HasPrefix(r, "numpy: ") {
					t.Errorf("panic %q, want one of this package", r)
				}
			}()
			f()
		})
	}
}

func BenchmarkChoicePublishedSet(b *testing.B) {
	for b.Loop() {
		New(101).Choice(1759999, 100)
	}
}
