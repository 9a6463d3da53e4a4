package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"scalewm/dataset/rng/numpy"
)

// Start is one episode of a set: it begins at a row of a data-set episode and
// has the row GoalOffset later as its goal.
type Start struct {
	Trajectory int `json:"trajectory"` // episode of the data set
	Row        int `json:"start"`      // row within it
}

// Set is an evaluation set; the seed of a drawn one is the number in its name.
type Set struct {
	Name   string // s101
	Starts []Start
	Hash   string // fingerprint of Starts
}

// newSet names and fingerprints starts: the first 12 hex digits of the SHA-256
// of their JSON.
func newSet(name string, starts []Start) Set {
	b, err := json.Marshal(starts)
	if err != nil {
		panic("eval: starts do not marshal: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return Set{Name: name, Starts: starts, Hash: hex.EncodeToString(sum[:6])}
}

// SetNames are the published sets.
func SetNames() []string { return []string{"s101", "s102", "s103", "s104", "s105", "s106"} }

// ParseSets reads a comma-separated list of set names and files of sets; "all"
// are the published six.
func ParseSets(s string) ([]string, error) {
	if s == "all" {
		return SetNames(), nil
	}
	var out []string
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		if _, err := setSeed(name); err != nil && !isSetFile(name) {
			return nil, err
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// setSeed is the number in a set's name.
func setSeed(name string) (uint64, error) {
	digits, ok := strings.CutPrefix(name, "s")
	seed, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil {
		return 0, fmt.Errorf("unknown set %q (hint: s101 to s106, or s and another seed, or a file that ends in .json)", name)
	}
	return seed, nil
}

// Pool says how many of the valid starts can be drawn.
type Pool int

const (
	// MinusOne never draws the last valid start, as the generator behind the
	// published sets does.
	MinusOne Pool = iota
	// Full draws from all of them, as the original's main branch does since July
	// 2026 (docs/sources.md#evaluation-sets).
	Full
)

// ParsePool reads a pool's name.
func ParsePool(s string) (Pool, error) {
	switch s {
	case "minus-one":
		return MinusOne, nil
	case "full":
		return Full, nil
	}
	return 0, fmt.Errorf("unknown pool %q (hint: minus-one, as published, or full)", s)
}

// Draw draws n starts without replacement from the valid starts of episodes of
// these lengths, as NumPy's default generator does, sorted (docs/sources.md#evaluation-sets).
func Draw(lengths []int, n int, seed uint64, pool Pool) ([]Start, error) {
	v := newValidStarts(lengths)
	size := v.count
	if pool == MinusOne {
		size--
	}
	if n < 1 || n > size {
		return nil, fmt.Errorf("drawing %d starts from %d that have a goal %d rows on (hint: fewer episodes, or a larger data set)", n, max(size, 0), GoalOffset)
	}
	drawn := numpy.New(seed).Choice(int64(size), int64(n))
	slices.Sort(drawn)
	out := make([]Start, n)
	for i, k := range drawn {
		out[i] = v.at(int(k))
	}
	return out, nil
}

// validStarts numbers all rows that have a goal in their episode, in file order.
type validStarts struct {
	ends  []int // valid starts up to and with each episode
	count int
}

func newValidStarts(lengths []int) validStarts {
	v := validStarts{ends: make([]int, len(lengths))}
	for i, n := range lengths {
		v.count += max(n-GoalOffset, 0)
		v.ends[i] = v.count
	}
	return v
}

// at is valid start number k.
func (v validStarts) at(k int) Start {
	e := sort.SearchInts(v.ends, k+1)
	if e > 0 {
		k -= v.ends[e-1]
	}
	return Start{Trajectory: e, Row: k}
}
