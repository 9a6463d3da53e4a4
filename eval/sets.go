package eval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"scalewm/dataset/rng/numpy"
	"scalewm/dataset/safefile"
	"scalewm/eval/results"
)

// Start is one episode of a set: it begins at a row of a data-set episode and
// has the row Rules.GoalOffset later as its goal.
type Start struct {
	Trajectory int `json:"trajectory"` // episode of the data set
	Row        int `json:"start"`      // row within it
}

// Set is an evaluation set; the seed of a drawn one is the number in its name.
type Set struct {
	Name   string // s101
	Starts []Start
	Hash   string // fingerprint of Starts
	Pool   string // that it was drawn from, as in results.Rules
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
	if canonical := "s" + strconv.FormatUint(seed, 10); name != canonical {
		return 0, fmt.Errorf("set %q is the set %s (hint: write it so; a set has one name)", name, canonical)
	}
	return seed, nil
}

// Draw draws n starts without replacement from the valid starts of episodes of
// these lengths, as NumPy's default generator does, sorted. The generator behind the published
// sets never draws the last valid start; with results.FullPool any can be drawn, as on the
// reference implementation's main branch since July 2026 (docs/sources.md#evaluation-sets).
func Draw(lengths []int, n int, seed uint64, r results.Rules) ([]Start, error) {
	v := newValidStarts(lengths, r.GoalOffset)
	size := v.count
	if r.Pool != results.FullPool {
		size--
	}
	if n < 1 || n > size {
		return nil, fmt.Errorf("drawing %d starts from %d that have a goal %d rows on (hint: fewer episodes, or a larger data set)", n, max(size, 0), r.GoalOffset)
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

func newValidStarts(lengths []int, goalOffset int) validStarts {
	v := validStarts{ends: make([]int, len(lengths))}
	for i, n := range lengths {
		v.count += max(n-goalOffset, 0)
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

// setFile is a set as a file: enough to see by eye what was evaluated, and to
// evaluate it again on the same data without drawing.
type setFile struct {
	Name       string      `json:"name"`
	Task       string      `json:"task"`
	Protocol   string      `json:"protocol"`
	Data       string      `json:"data"` // fingerprint of the data set
	GoalOffset int         `json:"goal_offset"`
	Hash       string      `json:"hash"` // fingerprint of the starts
	Episodes   []setMember `json:"episodes"`
}

type setMember struct {
	Episode int `json:"episode"` // index in the set
	Start
	Goal int `json:"goal"` // row within the trajectory
}

// setSuffix tells a set's file from a set's name.
const setSuffix = ".json"

// EncodeSet is the file of a set that was drawn from d.
func (d *Data) EncodeSet(s Set) []byte {
	f := setFile{Name: s.Name, Task: d.task.Spec.Name, Protocol: d.rules.Protocol, Data: d.Fingerprint, GoalOffset: d.rules.GoalOffset, Hash: s.Hash}
	for i, start := range s.Starts {
		f.Episodes = append(f.Episodes, setMember{i, start, start.Row + d.rules.GoalOffset})
	}
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		panic("eval: a set does not marshal: " + err.Error())
	}
	return append(b, '\n')
}

// Origin says where the set in a file was drawn from.
type Origin struct {
	Task     string
	Protocol string
	Data     string // fingerprint of the data set
}

// OriginOf reads the file of a set.
func OriginOf(path string) (Origin, error) {
	b, err := safefile.Read(path, safefile.MaxSet)
	if err != nil {
		return Origin{}, err
	}
	f, err := parseSet(b)
	return Origin{f.Task, f.Protocol, f.Data}, err
}

// readSet reads a set that was drawn from this data under this protocol.
func (d *Data) readSet(path string) (Set, error) {
	b, err := safefile.Read(path, safefile.MaxSet)
	if err != nil {
		return Set{}, fmt.Errorf("reading an evaluation set: %w (hint: give a name such as s101, or a file that eval left in sets/)", err)
	}
	f, err := parseSet(b)
	if err == nil {
		err = d.fits(f)
	}
	if err != nil {
		return Set{}, fmt.Errorf("reading the evaluation set %s: %w", path, err)
	}
	return f.set(), nil
}

func (f setFile) set() Set {
	starts := make([]Start, len(f.Episodes))
	for i, e := range f.Episodes {
		starts[i] = e.Start
	}
	return newSet(f.Name, starts)
}

// parseSet reads the bytes of a set file and checks what can be checked without
// the data.
func parseSet(b []byte) (f setFile, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("it is no set: %w (hint: compare with a file that eval left in sets/)", err)
	}
	if err := safefile.CheckNames(f); err != nil {
		return f, err
	}
	if f.Name == "" || len(f.Episodes) == 0 || f.GoalOffset < 1 {
		return f, fmt.Errorf("name %q, %d episodes, goal offset %d (hint: a name, at least one episode, goals some rows ahead)", f.Name, len(f.Episodes), f.GoalOffset)
	}
	if digits, numbered := strings.CutPrefix(f.Name, "s"); numbered && strings.Trim(digits, "0123456789") == "" {
		if _, err := setSeed(f.Name); err != nil {
			return f, err
		}
	}
	for i, e := range f.Episodes {
		if e.Episode != i || e.Trajectory < 0 || e.Row < 0 || e.Goal < e.Row || e.Goal-e.Row != f.GoalOffset {
			return f, fmt.Errorf("entry %d is episode %d in trajectory %d from row %d to %d (hint: all are numbered from 0, goals lie %d rows on)", i, e.Episode, e.Trajectory, e.Row, e.Goal, f.GoalOffset)
		}
	}
	if hash := f.set().Hash; hash != f.Hash {
		return f, fmt.Errorf("its starts have the fingerprint %s, and it says %s (hint: it was changed by hand; draw it again)", hash, f.Hash)
	}
	return f, nil
}

// fits refuses a set of other data, and starts that the protocol does not allow.
func (d *Data) fits(f setFile) error {
	switch {
	case f.Task != d.task.Spec.Name || f.Data != d.Fingerprint:
		return fmt.Errorf("it was drawn from other data, of %s with the fingerprint %.12s (hint: evaluate on that data set)", f.Task, f.Data)
	case f.Protocol != d.rules.Protocol:
		return fmt.Errorf("it was drawn under --protocol %s (hint: evaluate under the same)", f.Protocol)
	case f.GoalOffset != d.rules.GoalOffset:
		return fmt.Errorf("its goals are %d rows ahead, and those of this evaluation %d (hint: draw it again)", f.GoalOffset, d.rules.GoalOffset)
	}
	eps := d.Episodes()
	for _, e := range f.Episodes {
		if e.Trajectory >= len(eps) || e.Goal >= eps[e.Trajectory].Len {
			return fmt.Errorf("episode %d has no rows %d to %d in trajectory %d (hint: draw it again)", e.Episode, e.Row, e.Goal, e.Trajectory)
		}
		if d.heldOut != nil {
			if _, held := slices.BinarySearch(d.heldOut, e.Trajectory); !held {
				return errors.New("it has starts in episodes that were trained on (hint: draw it again)")
			}
		}
	}
	return nil
}

func isSetFile(name string) bool { return strings.HasSuffix(name, setSuffix) }
