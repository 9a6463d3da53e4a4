package clear

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
)

// ModePrior is the mode of a search that starts from a policy's answer.
const ModePrior = "prior-initialized-cem"

// SubmissionSeed is the seed of the manifests that CLEAR-LeWM accepts results on.
const SubmissionSeed = 42

// submitted are the protocols that it accepts results of.
var submitted = []string{"moderate", "strict"}

// Submittable returns why CLEAR-LeWM accepts no result on the manifest in a submission for
// a version of the benchmark; "" if it does.
func (m *Manifest) Submittable(benchmark string) string {
	switch {
	case !slices.Contains(submitted, m.Protocol.Name):
		return "of the protocols, it takes " + strings.Join(submitted, " and ")
	case m.Seed != SubmissionSeed:
		return fmt.Sprintf("of the seeds, it takes %d", SubmissionSeed)
	case m.Version != 1:
		return "of the manifests, it takes version 1"
	case benchmark == "v0.5" && m.Task == "reacher":
		return "v0.5 resets Reacher at the goal, which is not repeated here (hint: benchmark.version v0.8)"
	}
	return ""
}

// Provenance is what a result file states in addition to the outcome.
type Provenance struct {
	Weights string         // SHA-256 of the checkpoint; "" for random actions
	Source  map[string]any // where the checkpoint is from: repository and revision
	// Routes says of each Two-Room episode whether its route was valid; nil if that is
	// unknown, and for other tasks and collisions.
	Routes []bool
	// Physics, Numerics and Execution describe what simulated, what computed and what
	// evaluated. The file has their hashes too.
	Physics, Numerics, Execution map[string]any
	Versions, Runtime            map[string]any
}

// Encode returns the file of a result on a manifest, whose evaluation it repeats. random has
// the outcomes of random actions on the same pairs; nil if there are none.
// Source: clear_lewm/runner.py at ab8849c, version 2 at 0c9d94d.
func (r *Result) Encode(m *Manifest, random []bool, p Provenance) []byte {
	f := map[string]any{
		"schema_version": fmt.Sprintf("clear-lewm-result-v%d", m.Version),
		"task":           m.Task, "protocol": m.Raw, "policy": r.Policy, "policy_seed": m.PolicySeed, "criterion": m.criterion(),
		"dataset_name": strings.TrimSuffix(m.File, ".h5"), "dataset_file": m.File,
		"dataset_fingerprint": map[string]any{"kind": m.Kind, "value": m.Fingerprint},
		"manifest":            r.Manifest, "manifest_sha256": m.SHA256,
		"solver": map[string]any{"batch_size": nil, "num_samples": nil, "n_steps": nil, "topk": nil},
		"inference": map[string]any{"mode": r.Mode, "solver_target": nilled(r.Target), "actor_warmstart_requested": nil,
			"actor_warmstart_effective": nil, "direct_target_mode": nil, "direct_solver": nil},
		"metrics": metrics(r.Successes, random, m.PolicySeed), "episode_successes": r.Successes,
		"checkpoint": nil, "topology": topology(p.Routes),
		"environment": map[string]any{"task": m.Task, "physics": p.Physics, "numerics": p.Numerics, "execution": p.Execution,
			"physics_fingerprint": digest(p.Physics), "numerics_fingerprint": digest(p.Numerics), "execution_fingerprint": digest(p.Execution)},
		"versions": p.Versions, "runtime": p.Runtime,
	}
	if r.Searches() {
		// Each episode has its own noise, as with a batch of one.
		f["solver"] = map[string]any{"batch_size": 1, "num_samples": r.Candidates, "n_steps": r.Iterations, "topk": r.Elites}
	}
	if p.Weights != "" {
		f["checkpoint"] = map[string]any{"policy_id": r.Checkpoint, "runtime_sha256": p.Weights, "source": p.Source}
	}
	if r.Benchmark != "" {
		f["benchmark_version"] = r.Benchmark
	}
	if m.Version == 2 {
		f["benchmark_version"], f["initialization"] = "v0.9", m.initialization()
	}
	return pythonJSON(f, "  ")
}

// nilled returns nil for an empty text.
func nilled(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// criterion returns the rule of success as a result states it: keys of the protocol.
func (m *Manifest) criterion() map[string]any {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(m.Raw, &all); err != nil {
		panic("clear: a protocol that was parsed: " + err.Error())
	}
	out := map[string]any{}
	for key, value := range all {
		for _, task := range tasks {
			if strings.HasPrefix(key, task+"_") && !strings.HasSuffix(key, "_sustained_steps") {
				out[key] = value
			}
		}
	}
	out["reacher_angle_mode"], out["sustained_steps"] = m.Protocol.ReacherAngleMode, m.Hold()
	return out
}

// initialization returns how an episode starts, as a manifest of version 2 states it.
func (m *Manifest) initialization() map[string]any {
	if m.StartState == RestStart {
		return map[string]any{"mode": RestStart, "history_source": "executed-rollout", "history_len": m.History, "history_stride": m.Stride}
	}
	return map[string]any{"mode": m.StartState, "history_source": "single-observation", "history_len": m.History}
}

// topology returns the record of Two-Room's routes; nil without routes.
func topology(routes []bool) any {
	if routes == nil {
		return nil
	}
	episodes, valid := []any{}, 0
	for i, ok := range routes {
		episodes = append(episodes, map[string]any{"env_index": i, "route_valid": ok})
		if ok {
			valid++
		}
	}
	return map[string]any{"episodes": episodes, "route_valid_episodes": valid, "invalid_routes": len(routes) - valid}
}

// Submission is a submission to CLEAR-LeWM's table: what its authors state, and its results.
// Source: clear_lewm/submissions.py and docs/SUBMITTING_RESULTS.md at ab8849c.
type Submission struct {
	Schema string `json:"schema_version"`
	Method struct {
		Name       string `json:"name"`
		Repository string `json:"repository"` // of the code, an https URL
		Revision   string `json:"revision"`
		License    string `json:"license"`
	} `json:"method"`
	Contact struct {
		GitHub string `json:"github"` // name of an account
	} `json:"contact"`
	Benchmark struct {
		Version      string `json:"version"`             // v0.5 or v0.8
		Track        string `json:"training_data_track"` // one of dataTracks
		TrainingData struct {
			Description string  `json:"description"`
			Source      string  `json:"source"`
			Revision    string  `json:"revision"`
			License     string  `json:"license"`
			Fraction    float64 `json:"fraction,omitempty"` // of reduced data, in (0, 1]
		} `json:"training_data"`
	} `json:"benchmark"`
	Verification struct {
		Requested  string `json:"requested"`            // one of verifications
		Checkpoint string `json:"checkpoint,omitempty"` // an https URL
		Command    string `json:"command,omitempty"`
	} `json:"verification"`
	Results []Entry `json:"results"`
}

// Entry is a result file of a submission.
type Entry struct {
	Task     string `json:"task"`
	Protocol string `json:"protocol"`
	Path     string `json:"path"` // relative to the submission
	SHA256   string `json:"sha256"`
}

// Values of a Submission.
const (
	reducedData  = "reduced-data"
	reproducible = "reproducible"
)

var (
	benchmarks    = []string{"v0.5", "v0.8"}
	dataTracks    = []string{"standard-data", reducedData, "external-data"}
	verifications = []string{"self-reported", reproducible}
)

// ParseSubmission returns what the authors of a submission state: the keys and values of
// submission.json without its schema and results. The error names every key that is missing
// or has a value that CLEAR-LeWM does not accept.
func ParseSubmission(tree map[string]any) (*Submission, error) {
	b, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("%w (hint: numbers are finite)", err)
	}
	s := &Submission{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err = d.Decode(s)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s is %s, want %s", wrong.Field, wrong.Value, kindName(wrong.Type))
	}
	if err != nil {
		return nil, fmt.Errorf("%s (hint: its keys are those of CLEAR-LeWM's submission.json)", strings.TrimPrefix(err.Error(), "json: "))
	}
	if s.Schema != "" || s.Results != nil {
		return nil, errors.New("it has the key schema_version or results (hint: these are written for you)")
	}
	s.Schema = "clear-lewm-submission-v1"
	return s, s.check()
}

// check returns an error that names every key with a value that is not accepted.
func (s *Submission) check() error {
	var missing, bad []string
	need := func(key, value string) {
		if strings.TrimSpace(value) == "" {
			missing = append(missing, key)
		}
	}
	oneOf := func(key, value string, valid []string) {
		if need(key, value); value != "" && !slices.Contains(valid, value) {
			bad = append(bad, fmt.Sprintf("%s is %.40q, want one of %s", key, value, strings.Join(valid, ", ")))
		}
	}
	link := func(key, value string) {
		u, err := url.Parse(value)
		if need(key, value); value != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
			bad = append(bad, fmt.Sprintf("%s is %.80q, want an https URL", key, value))
		}
	}
	data := s.Benchmark.TrainingData
	need("method.name", s.Method.Name)
	link("method.repository", s.Method.Repository)
	need("method.revision", s.Method.Revision)
	need("method.license", s.Method.License)
	need("contact.github", s.Contact.GitHub)
	oneOf("benchmark.version", s.Benchmark.Version, benchmarks)
	oneOf("benchmark.training_data_track", s.Benchmark.Track, dataTracks)
	need("benchmark.training_data.description", data.Description)
	need("benchmark.training_data.source", data.Source)
	need("benchmark.training_data.revision", data.Revision)
	need("benchmark.training_data.license", data.License)
	if s.Benchmark.Track == reducedData && !(data.Fraction > 0 && data.Fraction <= 1) {
		bad = append(bad, fmt.Sprintf("benchmark.training_data.fraction is %g, want above 0 and at most 1", data.Fraction))
	}
	oneOf("verification.requested", s.Verification.Requested, verifications)
	if s.Verification.Requested == reproducible {
		link("verification.checkpoint", s.Verification.Checkpoint)
		need("verification.command", s.Verification.Command)
	}
	if len(missing) > 0 {
		bad = append([]string{"it lacks " + strings.Join(missing, ", ")}, bad...)
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s (hint: docs/report.md has an example)", strings.Join(bad, "; "))
	}
	return nil
}

// Encode returns the file submission.json.
func (s *Submission) Encode() []byte { return pythonJSON(s, "  ") }

// digest returns the SHA-256 of what Python's json.dumps writes with sorted keys and without
// spaces.
func digest(v map[string]any) string {
	sum := sha256.Sum256(bytes.TrimSpace(pythonJSON(v, "")))
	return hex.EncodeToString(sum[:])
}

// pythonJSON returns v and a line break as Python's json.dump writes them with sorted keys:
// ASCII only, < and > unescaped.
func pythonJSON(v any, indent string) []byte {
	b, err := json.Marshal(v)
	var sorted any // objects as maps, whose keys Go sorts
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		err = d.Decode(&sorted)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err == nil {
		err = e.Encode(sorted)
	}
	if err != nil {
		panic("clear: a value that does not marshal: " + err.Error())
	}
	// Only strings have other characters.
	var ascii []byte
	for _, c := range out.String() {
		switch high, low := utf16.EncodeRune(c); {
		case c <= '~':
			ascii = append(ascii, byte(c))
		case c > 0xFFFF:
			ascii = fmt.Appendf(ascii, `\u%04x\u%04x`, high, low)
		default:
			ascii = fmt.Appendf(ascii, `\u%04x`, c)
		}
	}
	return ascii
}
