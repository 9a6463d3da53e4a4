// Package clear reads the manifests of CLEAR-LeWM, which fix the starts, the success
// rule and the seeds of an evaluation, and its results, and draws starts of its
// protocols on any data set. Numbers and quirks are those of
// github.com/DavidSunok/CLEAR-LeWM, package 0.5.1 at ab8849c; manifests and results of
// version 2 are those of its v0.9.
package clear

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"scalewm/dataset/safefile"
)

// maxManifest bounds a manifest; 4 MiB have room for 9,000 pairs.
const maxManifest safefile.Limit = 4 << 20

// tasks are the tasks of CLEAR-LeWM by their names here.
var tasks = []string{"pusht", "cube", "reacher", "tworoom"}

// Ways to set the world of a start, StartState.
const (
	RecordedState = "recorded-state" // the row as it was recorded
	RestStart     = "rest-start"     // without its velocities
)

// Evaluation is what a manifest prescribes and a result repeats.
type Evaluation struct {
	Task       string // tworoom, pusht, reacher or cube
	Protocol   Protocol
	Raw        json.RawMessage // the protocol object as in the file; a result repeats it verbatim
	PolicySeed uint64          // of the solver and of random actions

	// Version 2 only; the values of version 1 are RecordedState, 1 and 0.
	StartState string
	History    int // frames that a model sees
	Stride     int // env steps between them; 0 for one frame
}

// Manifest is a manifest. Parse has checked everything that does not need the data set.
type Manifest struct {
	Evaluation
	Version     int    // of the format, 1 or 2
	SHA256      string // of the file's bytes, in hex
	Seed        uint64 // of the split and the draw
	Split       string // SplitAll, SplitTrain or SplitHeldOut
	File        string // name of the data set's file
	IDColumn    string // the column with the episodes' ids
	Fingerprint string // of the data set, in hex; compared by Check
	Kind        string // of the fingerprint: MetadataSHA256 or FileSHA256Kind
	Pairs       []Pair
}

// Pair is a start and its goal.
type Pair struct {
	Episode           int64 // id of the episode in the file
	StartStep         int   // row within the episode
	StartRow, GoalRow int   // row in the file
}

// Read reads a manifest.
func Read(path string) (*Manifest, error) {
	b, err := safefile.Read(path, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w (hint: CLEAR-LeWM has manifests in its folder manifests/)", err)
	}
	m, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest %s: %w", path, err)
	}
	return m, nil
}

// IsManifest reports whether the bytes of a JSON file say that it is a manifest of any
// version, and not a set file.
func IsManifest(b []byte) bool { return hasSchema(b, "clear-lewm-manifest-") }

// hasSchema reports whether the bytes are a JSON object of a schema whose name has the
// prefix.
func hasSchema(b []byte, prefix string) bool {
	var head struct {
		Version string `json:"schema_version"`
	}
	return json.Unmarshal(b, &head) == nil && strings.HasPrefix(head.Version, prefix)
}

// SetName returns the name of the evaluation set of a manifest: that of its file, in
// characters that names may have.
func SetName(path string) string {
	return strings.Map(func(c rune) rune {
		if c < 128 && (c == '-' || c == '.' || c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z') {
			return c
		}
		return -1
	}, "m-"+strings.TrimSuffix(filepath.Base(path), ".json"))
}

// Parse reads the bytes of a manifest of version 1 or 2.
func Parse(b []byte) (*Manifest, error) {
	if !utf8.Valid(b) || !json.Valid(b) {
		return nil, errors.New("it is not valid JSON (hint: is it complete? Fetch it again)")
	}
	o := parseObject(b, "the manifest")
	version := readVersion(o, "clear-lewm-manifest-")
	sum := sha256.Sum256(b)
	m := &Manifest{Evaluation: readEvaluation(o), Version: version, SHA256: hex.EncodeToString(sum[:]), Seed: need[uint64](o, "seed")}
	m.Split = optional(o, "split", m.Protocol.Split)
	if version == 2 {
		m.readInitialization(o)
	}
	m.readData(o)
	if o.err == nil {
		m.checkSplit(o)
		if err := m.Rule().Check(m.Task); err != nil {
			o.fail(err)
		}
		m.readPairs(o)
	}
	return m, o.err
}

// readVersion returns the version, 1 or 2, of a file whose schema's name has the prefix.
func readVersion(o *object, prefix string) (version int) {
	schema := need[string](o, "schema_version")
	if version = slices.Index([]string{prefix + "v1", prefix + "v2"}, schema) + 1; o.err == nil && version == 0 {
		o.fail(fmt.Errorf("unknown schema_version %.40q (hint: %sv1 and -v2 can be read)", schema, prefix))
	}
	return version
}

// readEvaluation reads what manifests and results share, with the values of version 1
// where version 2 differs.
func readEvaluation(o *object) Evaluation {
	e := Evaluation{Raw: need[json.RawMessage](o, "protocol"), PolicySeed: need[uint64](o, "policy_seed"), StartState: RecordedState, History: 1}
	e.Task = taskName(o, need[string](o, "task"))
	if o.err == nil {
		e.Protocol, o.err = parseProtocol(e.Raw)
	}
	return e
}

// taskName returns our name of a task under one of CLEAR-LeWM's.
func taskName(o *object, name string) string {
	task := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	if task == "ogbenchcube" || task == "ogbcube" {
		task = "cube"
	}
	if o.err == nil && !slices.Contains(tasks, task) {
		o.fail(fmt.Errorf("unknown task %.40q (hint: one of %v)", name, tasks))
	}
	return task
}

// readInitialization reads how version 2 starts an episode. Any combination that
// CLEAR-LeWM does not write is an error, as it is there. A result has further keys, notes
// on what was done, which are not read.
func (e *Evaluation) readInitialization(o *object, notes ...string) {
	if v := need[string](o, "benchmark_version"); o.err == nil && v != "v0.9" {
		o.fail(fmt.Errorf("unknown benchmark_version %.40q (hint: version 2 is that of v0.9)", v))
	}
	raw := need[json.RawMessage](o, "initialization")
	if o.err != nil {
		return
	}
	in := parseObject(raw, "its initialization")
	e.StartState, e.History = need[string](in, "mode"), need[int](in, "history_len")
	source := need[string](in, "history_source")
	e.Stride = optional(in, "history_stride", 0)
	_, strided := in.fields["history_stride"]
	for _, key := range notes {
		in.read[key] = true
	}
	rest := e.StartState == RestStart && source == "executed-rollout" && e.History == 3 && e.Stride == 5
	recorded := e.StartState == RecordedState && source == "single-observation" && e.History == 1 && !strided
	if !rest && !recorded || in.unread() != nil {
		in.fail(fmt.Errorf("unknown values %s (hint: rest-start with 3 frames at stride 5 of the executed rollout, or recorded-state with a single observation)", shown(raw)))
	}
	o.err = in.err
}

// readData reads which file the pairs are rows of.
func (m *Manifest) readData(o *object) {
	raw := need[json.RawMessage](o, "dataset")
	if o.err != nil {
		return
	}
	d := parseObject(raw, "its dataset")
	m.File, m.IDColumn = need[string](d, "name"), need[string](d, "episode_column")
	if d.err == nil && !slices.Contains(idColumns, m.IDColumn) {
		d.fail(fmt.Errorf("unknown episode_column %.40q (hint: one of %v)", m.IDColumn, idColumns))
	}
	if print := need[json.RawMessage](d, "fingerprint"); d.err == nil {
		f := parseObject(print, "its fingerprint")
		m.Kind, m.Fingerprint = need[string](f, "kind"), need[string](f, "value")
		d.err = f.err
	}
	o.err = d.err
}

// checkSplit records an error about a split that the protocol does not have.
func (m *Manifest) checkSplit(o *object) {
	if !slices.Contains(splits, m.Split) {
		o.fail(fmt.Errorf("unknown split %.40q (hint: one of %v)", m.Split, splits))
	}
	if m.Split == SplitHeldOut && m.Protocol.HeldOutFraction == 0 {
		o.fail(fmt.Errorf("its split is %s, but its heldout_fraction is 0 (hint: fetch the manifest again)", SplitHeldOut))
	}
}

// readPairs reads the pairs. Their order is that of the episodes in a result, and may
// differ from that of their numbers.
func (m *Manifest) readPairs(o *object) {
	list := need[[]json.RawMessage](o, "pairs")
	if o.err == nil && len(list) == 0 {
		o.fail(errors.New("it has no pairs (hint: fetch the manifest again)"))
	}
	if raw, ok := o.fields["statistics"]; ok && o.err == nil {
		s := parseObject(raw, "its statistics")
		if n := optional(s, "num_eval", len(list)); s.err == nil && n != len(list) {
			s.fail(fmt.Errorf("num_eval is %d, and there are %d pairs (hint: the file was edited; fetch it again)", n, len(list)))
		}
		o.err = s.err
	}
	ids, rows := map[int]bool{}, map[int]int{}
	for i, raw := range list {
		if o.err != nil {
			return
		}
		p := parseObject(raw, fmt.Sprintf("pair %d", i))
		pair := Pair{need[int64](p, "episode_id"), need[int](p, "start_step"), need[int](p, "start_row"), need[int](p, "goal_row")}
		id, goal, offset := need[int](p, "pair_id"), need[int](p, "goal_step"), m.Protocol.GoalOffset
		if other, ok := rows[pair.StartRow]; ok {
			p.fail(fmt.Errorf("it starts at row %d, as pair %d does (hint: each start stands once)", pair.StartRow, other))
		}
		switch {
		case id < 0 || id >= len(list) || ids[id]:
			p.fail(fmt.Errorf("its pair_id is %d (hint: pairs are numbered from 0 to %d, each number stands once)", id, len(list)-1))
		case pair.StartStep < 0 || pair.StartRow < pair.StartStep:
			p.fail(fmt.Errorf("it starts at step %d, row %d (hint: the row is that of the episode's first row plus the step)", pair.StartStep, pair.StartRow))
		case pair.GoalRow-pair.StartRow != offset:
			p.fail(fmt.Errorf("the goal is %d rows on, and the protocol says %d (hint: fetch the manifest again)", pair.GoalRow-pair.StartRow, offset))
		case goal-pair.StartStep != offset:
			p.fail(fmt.Errorf("the goal is %d steps on, and the protocol says %d (hint: fetch the manifest again)", goal-pair.StartStep, offset))
		}
		o.err = p.err
		ids[id], rows[pair.StartRow] = true, i
		m.Pairs = append(m.Pairs, pair)
	}
}
