package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/rng"
	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval/results"
)

// Seeded is a start of an outside world that comes from no data set: the seed of its reset, and
// hashes of what the world shows then and of its goal.
type Seeded struct {
	Seed  int    `json:"seed"`
	Start string `json:"start"`
	Goal  string `json:"goal"`
}

// seededFile is the JSON of the file of a set of such starts.
type seededFile struct {
	Name     string   `json:"name"`
	Task     string   `json:"task"`
	World    string   `json:"world" text:"free"`
	Hash     string   `json:"hash"` // fingerprint of the starts
	Episodes []Seeded `json:"seeded"`
}

// NewSeededData returns the Data of an evaluation without a data set.
func NewSeededData(task envs.Task, rules results.Rules) *Data { return &Data{task: task, rules: rules} }

// SeededSet returns the set of a name, which gives the seed to draw n starts in the world, or
// the set of a file. It returns an error if the world starts differently from what a file of
// the same set says, the given one or one in the folder sets.
func (d *Data) SeededSet(w *World, name, sets string, n int) (Set, error) {
	if !w.DrawsGoals {
		return Set{}, errors.New("without a data set the world needs goals (hint: data=, or goal=, a function goal(env, rng) that returns a dict with the goal and its picture as pixels)")
	}
	var known seededFile
	if isSetFile(name) {
		b, err := safefile.Read(name, safefile.MaxSet)
		if err == nil {
			known, err = parseSeeded(b)
		}
		if err == nil && (known.Task != d.task.Spec.Name || known.World != w.ID) {
			err = fmt.Errorf("it is of the task %s in %s (hint: evaluate in the same world)", known.Task, known.World)
		}
		if err != nil {
			return Set{}, fmt.Errorf("reading the evaluation set %s: %w", name, err)
		}
		name, n = known.Name, len(known.Episodes)
	} else if _, err := setSeed(name); err != nil {
		return Set{}, err
	}
	list, err := d.drawSeeded(w, name, n, known.Episodes)
	if err != nil {
		return Set{}, fmt.Errorf("set %s: %w", name, err)
	}
	set := seededSet(name, list)
	if known.Name == "" {
		known = d.drawnBefore(w, sets, set)
	}
	for i, s := range known.Episodes {
		if s != list[i] && !w.Nondeterministic {
			return Set{}, fmt.Errorf("set %s, episode %d: the seed %d gives the start %s and the goal %s, and on the machine that drew the set %s and %s (hint: other versions of the world's packages? deterministic=False accepts that)",
				name, i, list[i].Seed, list[i].Start, list[i].Goal, s.Start, s.Goal)
		}
	}
	if known.Name != "" && w.Nondeterministic {
		return seededSet(name, known.Episodes), nil
	}
	return set, nil
}

// drawnBefore returns the file in a folder of sets that has the name and the seeds of a set, whatever
// the world showed for them; the zero value if there is none.
func (d *Data) drawnBefore(w *World, folder string, set Set) (found seededFile) {
	entries, _ := os.ReadDir(folder) // a folder that does not exist has no sets
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), d.task.Spec.Name+"-"+set.Name+"-") {
			continue
		}
		b, err := safefile.Read(filepath.Join(folder, e.Name()), safefile.MaxSet)
		if err != nil {
			continue
		}
		f, err := parseSeeded(b)
		same := func(a, b Seeded) bool { return a.Seed == b.Seed }
		if err == nil && f.Name == set.Name && f.World == w.ID && slices.EqualFunc(f.Episodes, set.Seeded, same) {
			found = f
		}
	}
	return found
}

// drawSeeded returns n starts: those of the given seeds, or of the seeds that the set's name
// gives. Rules that exclude solved starts skip them, if the world recognises them.
func (d *Data) drawSeeded(w *World, name string, n int, given []Seeded) (out []Seeded, err error) {
	exclude := given == nil && w.Judges && d.rules.Full().Solved == results.Excluded
	for next := 0; len(out) < n; {
		if next > 100*n {
			return nil, fmt.Errorf("only %d of the first %d starts do not meet their goal already (hint: protocol=\"paper\" keeps such starts)", len(out), next)
		}
		seeds, slots := []int{}, []int{}
		for i := range min(n-len(out), copiesAtOnce) {
			seed := int(rng.Key("world start", name, next+i) >> 33)
			if given != nil {
				seed = given[next+i].Seed
			}
			seeds, slots = append(seeds, seed), append(slots, i)
		}
		next += len(seeds)
		b, err := w.Reset(slots, seeds)
		if err != nil {
			return nil, err
		}
		for i := range seeds {
			if !exclude || !b.Met[i] {
				out = append(out, seeded(i, seeds, b))
			}
		}
	}
	return out, nil
}

// seeded returns the start of entry i of what began.
func seeded(i int, seeds []int, b Begun) Seeded {
	return Seeded{seeds[i], fmt.Sprintf("%016x", b.Start[i]), fmt.Sprintf("%016x", b.Goal[i])}
}

// seededSet returns the set of starts. Its fingerprint is that of newSet, over the seeds and
// hashes.
func seededSet(name string, list []Seeded) Set {
	set := Set{Name: name, Hash: fingerprint(list), Seeded: list}
	for i := range list {
		set.Starts = append(set.Starts, Start{Trajectory: i})
	}
	return set
}

// EncodeSeeded returns the bytes of the file of a set of seeded starts.
func (d *Data) EncodeSeeded(w *World, s Set) []byte {
	b, err := json.MarshalIndent(seededFile{s.Name, d.task.Spec.Name, w.ID, s.Hash, s.Seeded}, "", " ")
	if err != nil {
		panic("eval: a set does not marshal: " + err.Error())
	}
	return append(b, '\n')
}

// parseSeeded parses the file of a set of seeded starts.
func parseSeeded(b []byte) (f seededFile, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("it is not a set of starts by seed: %w (hint: compare with a file that evaluate left in sets/)", err)
	}
	if err := safefile.CheckNames(f); err != nil {
		return f, err
	}
	if f.Name == "" || len(f.Episodes) == 0 || slices.ContainsFunc(f.Episodes, func(s Seeded) bool { return s.Seed < 0 }) {
		return f, fmt.Errorf("name %q and %d starts (hint: a name, and at least one start with a seed from 0 on)", f.Name, len(f.Episodes))
	}
	if hash := seededSet(f.Name, f.Episodes).Hash; hash != f.Hash {
		return f, fmt.Errorf("its starts have the fingerprint %s, but the file says %s (hint: the file was edited; draw the set again)", hash, f.Hash)
	}
	return f, nil
}
