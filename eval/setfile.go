package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"scalewm/dataset"
	"scalewm/dataset/cell"
)

// setFile is a set as a file: enough to see by eye what was evaluated, and to
// evaluate it again on the same data without drawing.
type setFile struct {
	Name       string           `json:"name"`
	Task       string           `json:"task"`
	Protocol   dataset.Protocol `json:"protocol"`
	Data       string           `json:"data"` // fingerprint of the data set
	GoalOffset int              `json:"goal_offset"`
	Hash       string           `json:"hash"` // fingerprint of the starts
	Episodes   []setMember      `json:"episodes"`
}

type setMember struct {
	Episode int `json:"episode"` // index in the set
	Start
	Goal int `json:"goal"` // row within the trajectory
}

// setSuffix tells a set's file from a set's name.
const setSuffix = ".json"

// WriteSet writes a set that was drawn from d. The same set gives the same bytes.
func (d *Data) WriteSet(path string, s Set) error {
	f := setFile{Name: s.Name, Task: d.task.Spec.Name, Protocol: d.protocol, Data: d.Fingerprint, GoalOffset: GoalOffset, Hash: s.Hash}
	for i, start := range s.Starts {
		f.Episodes = append(f.Episodes, setMember{i, start, start.Row + GoalOffset})
	}
	return cell.WriteFile(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(f)
	})
}

// readSet reads a set that was drawn from this data under this protocol.
func (d *Data) readSet(path string) (Set, error) {
	b, err := os.ReadFile(path)
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

var setName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// parseSet reads the bytes of a set file and checks what can be checked without
// the data.
func parseSet(b []byte) (f setFile, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("it is no set: %w (hint: compare with a file that eval left in sets/)", err)
	}
	if !setName.MatchString(f.Name) || len(f.Episodes) == 0 || f.GoalOffset != GoalOffset {
		return f, fmt.Errorf("name %q, %d episodes, goal offset %d (hint: a name of letters and digits, at least one episode, goals %d rows on)", f.Name, len(f.Episodes), f.GoalOffset, GoalOffset)
	}
	for i, e := range f.Episodes {
		if e.Episode != i || e.Goal != e.Row+GoalOffset {
			return f, fmt.Errorf("entry %d is episode %d from row %d to %d (hint: entries are numbered from 0, goals lie %d rows on)", i, e.Episode, e.Row, e.Goal, GoalOffset)
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
	case f.Protocol != d.protocol:
		return fmt.Errorf("it was drawn under --protocol %s (hint: evaluate under the same)", f.Protocol)
	}
	eps := d.Episodes()
	for _, e := range f.Episodes {
		if e.Trajectory < 0 || e.Trajectory >= len(eps) || e.Row < 0 || e.Goal >= eps[e.Trajectory].Len {
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
