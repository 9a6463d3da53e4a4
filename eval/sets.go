package eval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/eval/clear"
	"scalewm/eval/results"
)

// Start identifies one episode of a set: it begins at a row of a data-set episode,
// and its goal is the row Rules.GoalOffset later in the same episode.
type Start struct {
	Trajectory int `json:"trajectory"` // index of the data set's episode
	Row        int `json:"start"`      // row within that episode
}

// Set is an evaluation set: the list of starts that every arm faces. A set that is
// drawn is named after its seed; s101 has the seed 101.
type Set struct {
	Name   string  // such as s101
	Starts []Start // sorted by row in the file if drawn
	Hash   string  // fingerprint of Starts
	Pool   string  // the pool it was drawn from, as cells store it
	// Manifest is the SHA-256 of the manifest that lists the starts, and Text its bytes; empty
	// if there is none. OtherData says that it was made for another data set.
	Manifest  string
	Text      []byte
	OtherData bool
	Seeded    []Seeded // of a set without a data set, one for each start; else nil
}

// newSet returns a set with its fingerprint: the first 12 hex digits of the SHA-256
// of its starts' JSON. The hash enters the spec of every cell, so that two arms are
// paired only on identical starts, whatever the sets' names.
func newSet(name string, starts []Start) Set {
	return Set{Name: name, Starts: starts, Hash: fingerprint(starts)}
}

// fingerprint returns the fingerprint of a set's starts.
func fingerprint[S Start | Seeded](starts []S) string {
	b, err := json.Marshal(starts)
	if err != nil {
		panic("eval: starts do not marshal: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// SetNames returns the names of the six published sets.
func SetNames() []string { return []string{"s101", "s102", "s103", "s104", "s105", "s106"} }

// ParseSets parses a comma-separated list of set names and set files. "all" means the
// published six. Repeated names count once.
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

// setSeed returns the seed in a set's name. It rejects other spellings of a number,
// such as s0101: one set under two names would be evaluated and counted twice.
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

// setFile is the JSON of a set file. It shows which starts were evaluated, and lets
// another run evaluate the same ones without drawing.
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

// setSuffix distinguishes a set file from the name of a set.
const setSuffix = ".json"

// EncodeSet returns the bytes of the file of a set that was drawn from d.
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

// SameSet reports whether two set files hold the same starts of the same data. The
// protocols that drew them may have other names.
func SameSet(a, b []byte) bool {
	x, err := parseSet(a)
	y, err2 := parseSet(b)
	return err == nil && err2 == nil && x.Name == y.Name && x.Task == y.Task && x.Data == y.Data && x.Hash == y.Hash
}

// Origin is the task, protocol and data set that a set file was drawn from.
type Origin struct {
	Task     string
	Protocol string
	Data     string // fingerprint of the data set
}

// OriginOf returns the origin recorded in a set file.
func OriginOf(path string) (Origin, error) {
	b, err := safefile.Read(path, safefile.MaxSet)
	if err != nil {
		return Origin{}, err
	}
	f, err := parseSet(b)
	return Origin{f.Task, f.Protocol, f.Data}, err
}

// readSet reads a set file. It returns an error if the set was not drawn from this
// data set under this protocol.
func (d *Data) readSet(path string) (Set, error) {
	b, err := safefile.Read(path, safefile.MaxSet)
	if err != nil {
		return Set{}, fmt.Errorf("reading an evaluation set: %w (hint: give a name such as s101, or a file that eval left in sets/)", err)
	}
	if clear.IsManifest(b) {
		set, err := d.manifestSet(path, b)
		if err != nil {
			return set, fmt.Errorf("reading the manifest %s: %w", path, err)
		}
		return set, nil
	}
	f, err := parseSet(b)
	if err == nil {
		err = d.checkSet(f)
	}
	if err != nil {
		return Set{}, fmt.Errorf("reading the evaluation set %s: %w", path, err)
	}
	set := f.set()
	// Cells of paper and strict do not state the pool of a file's set.
	if p := d.rules.Protocol; p != results.Paper && p != results.Strict {
		set.Pool = d.rules.Short().Pool
	}
	return set, nil
}

// set returns the set that the file describes, with the hash recomputed from its
// starts.
func (f setFile) set() Set {
	starts := make([]Start, len(f.Episodes))
	for i, e := range f.Episodes {
		starts[i] = e.Start
	}
	return newSet(f.Name, starts)
}

// parseSet parses the bytes of a set file and checks everything that does not need
// the data set: names, numbering, goal rows and the fingerprint of the starts.
func parseSet(b []byte) (f setFile, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("it is not a set file: %w (hint: compare with a file that eval left in sets/)", err)
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
			return f, fmt.Errorf("entry %d is episode %d in trajectory %d from row %d to %d (hint: episodes are numbered from 0, and goals are %d rows later)", i, e.Episode, e.Trajectory, e.Row, e.Goal, f.GoalOffset)
		}
	}
	if hash := f.set().Hash; hash != f.Hash {
		return f, fmt.Errorf("its starts have the fingerprint %s, but the file says %s (hint: the file was edited; draw the set again)", hash, f.Hash)
	}
	return f, nil
}

// checkSet returns an error if a set file belongs to another data set or other rules, or
// has starts that the protocol does not allow. Under strict, an edited file must not
// bring in episodes that the model was trained on.
func (d *Data) checkSet(f setFile) error {
	switch {
	case f.Task != d.task.Spec.Name || f.Data != d.Fingerprint:
		return fmt.Errorf("it was drawn from other data, of %s with the fingerprint %.12s (hint: evaluate on that data set)", f.Task, f.Data)
	case !d.drawsAs(f.Protocol):
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

// drawsAs reports whether the rules may draw the same starts as a protocol of that name.
// The names paper and strict stand for a way to draw; other names are known to this
// evaluation only if they are its own.
func (d *Data) drawsAs(protocol string) bool {
	if protocol == results.Paper || protocol == results.Strict {
		is, as := d.rules.Full(), results.Rules{Protocol: protocol}.Full()
		return is.Split == as.Split && is.Sampling == as.Sampling && is.Solved == as.Solved
	}
	return strings.TrimSuffix(protocol, results.Changed) == strings.TrimSuffix(d.rules.Protocol, results.Changed)
}

func isSetFile(name string) bool { return strings.HasSuffix(name, setSuffix) }
