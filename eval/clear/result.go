package clear

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"scalewm/dataset/safefile"
)

// MaxResult bounds a result. The paths of Two-Room's episodes, which are most of it, take
// 5 kB each.
const MaxResult safefile.Limit = 16 << 20

// maxBudget bounds each number of a search.
const maxBudget = 1 << 20

// Modes of inference. Files before v0.5 do not state theirs, which is CEM, and CLEAR-LeWM
// writes CEM for random actions too.
const (
	ModeRandom = "random" // a result without a checkpoint
	ModeDirect = "direct" // a policy answers without a search
	ModeCEM    = "cem"
)

// modes are the modes that files state: a search whose model has no policy, one that
// does not use it, one that starts from it, and the policy alone.
var modes = []string{ModeCEM, "pure-cem", "prior-initialized-cem", ModeDirect}

// Result is the outcome of one policy on the pairs of a manifest. ParseResult has checked
// that it does not contradict itself.
type Result struct {
	Evaluation
	SHA256         string // of the file's bytes, in hex
	Benchmark      string // version of CLEAR-LeWM, such as v0.8; "" before it was stated
	Policy         string // name or label
	Checkpoint     string // its path in CLEAR-LeWM's data; "" for random actions
	Manifest       string // path of the manifest's file
	ManifestSHA256 string // of its bytes, in hex
	Mode           string // of inference
	Target         string // class of the solver, such as stable_worldmodel.solver.CEMSolver; "" if it is not stated

	// The numbers of a search; 0 for others.
	Candidates, Iterations, Elites int

	Successes []bool // in the order of the manifest's pairs
}

// Searches reports whether a solver searched for the actions.
func (r *Result) Searches() bool { return r.Mode != ModeRandom && r.Mode != ModeDirect }

// Solver returns the name of the solver, such as cem; "" without a search.
func (r *Result) Solver() string {
	if !r.Searches() {
		return ""
	}
	name := r.Target[strings.LastIndexByte(r.Target, '.')+1:]
	if name = strings.ToLower(strings.TrimSuffix(name, "Solver")); name == "" {
		return ModeCEM
	}
	return name
}

// IsResult reports whether a file is a result of any version, or part of one that was not
// written to its end.
func IsResult(b []byte) bool {
	return hasSchema(b, "clear-lewm-result-") || !json.Valid(b) && bytes.Contains(b, []byte(`"episode_successes"`))
}

// ReadResult reads a result file.
func ReadResult(path string) (*Result, error) {
	b, err := safefile.Read(path, MaxResult)
	if err != nil {
		return nil, fmt.Errorf("reading the result: %w", err)
	}
	r, err := ParseResult(b)
	if err != nil {
		return nil, fmt.Errorf("reading the result %s: %w", path, err)
	}
	return r, nil
}

// ParseResult parses the bytes of a result of version 1 or 2.
// Source: clear_lewm/runner.py and submissions.py at ab8849c, runner.py at 0c9d94d (v0.9).
func ParseResult(b []byte) (*Result, error) {
	if !utf8.Valid(b) || !json.Valid(b) {
		return nil, errors.New("it is not valid JSON (hint: is it complete? NaN and Infinity are not JSON either)")
	}
	o := parseObject(b, "the result")
	version := readVersion(o, "clear-lewm-result-")
	sum := sha256.Sum256(b)
	r := &Result{Evaluation: readEvaluation(o), SHA256: hex.EncodeToString(sum[:]), Benchmark: optional(o, "benchmark_version", ""),
		Policy: need[string](o, "policy"), Manifest: need[string](o, "manifest"), ManifestSHA256: need[string](o, "manifest_sha256"), Successes: readSuccesses(o)}
	if version == 2 {
		r.readInitialization(o, "velocity_field", "zeroed_pairs", "policy_history_applied", "max_history_frames")
	}
	if o.err == nil && !isSHA256(r.ManifestSHA256) {
		o.fail(fmt.Errorf("its manifest_sha256 is %.40q, want 64 hex digits (hint: fetch the file again)", r.ManifestSHA256))
	}
	if o.err == nil {
		o.err = r.Rule().Check(r.Task)
	}
	r.readInference(o)
	r.checkMetrics(o)
	return r, o.err
}

// isSHA256 reports whether s is a SHA-256 in hex, as Python writes it.
var isSHA256 = regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString

// readSuccesses reads the outcomes, each of which is true or false.
func readSuccesses(o *object) (out []bool) {
	list := need[[]*bool](o, "episode_successes")
	if at := slices.Index(list, nil); o.err == nil && (at >= 0 || len(list) == 0) {
		o.fail(fmt.Errorf("its episode_successes are %s (hint: one true or false for each episode)", shown(o.fields["episode_successes"])))
		return nil
	}
	for _, x := range list {
		out = append(out, *x)
	}
	return out
}

// part returns the object under a key. If that is missing or null, ok is false.
func part(o *object, key string) (p *object, ok bool) {
	raw := optional[*json.RawMessage](o, key, nil)
	if o.err != nil || raw == nil {
		return nil, false
	}
	p = parseObject(*raw, "its "+key)
	return p, p.err == nil
}

// readInference reads who acted, and what a search spent.
func (r *Result) readInference(o *object) {
	r.Mode = ModeRandom
	if c, ok := part(o, "checkpoint"); ok {
		r.Mode = ModeCEM
		r.Checkpoint = need[string](c, "policy_id")
		o.err = c.err
	}
	if in, ok := part(o, "inference"); ok && r.Mode != ModeRandom {
		r.Mode = need[string](in, "mode")
		if target := optional[*string](in, "solver_target", nil); target != nil {
			r.Target = *target
		}
		if in.err == nil && !slices.Contains(modes, r.Mode) {
			in.fail(fmt.Errorf("unknown mode %.40q (hint: one of %v)", r.Mode, modes))
		}
		o.err = in.err
	}
	if o.err != nil || !r.Searches() {
		return
	}
	raw := need[json.RawMessage](o, "solver")
	if o.err != nil {
		return
	}
	s := parseObject(raw, "its solver")
	r.Candidates, r.Iterations, r.Elites = need[int](s, "num_samples"), need[int](s, "n_steps"), need[int](s, "topk")
	if s.err == nil && (min(r.Iterations, r.Elites) < 1 || r.Elites > r.Candidates || max(r.Candidates, r.Iterations) > maxBudget) {
		s.fail(fmt.Errorf("a search with %d samples, %d steps and the best %d (hint: from 1 to %d, and at most all samples are the best)", r.Candidates, r.Iterations, r.Elites, maxBudget))
	}
	o.err = s.err
}

// checkMetrics records an error if the metrics contradict the outcomes.
func (r *Result) checkMetrics(o *object) {
	raw := need[json.RawMessage](o, "metrics")
	if o.err != nil {
		return
	}
	m := parseObject(raw, "its metrics")
	n, hits := len(r.Successes), 0
	for _, success := range r.Successes {
		if success {
			hits++
		}
	}
	want := 100 * float64(hits) / float64(n)
	switch episodes, rate := need[int](m, "episodes"), need[float64](m, "success_rate_percent"); {
	case m.err != nil:
	case episodes != n:
		m.fail(fmt.Errorf("it states %d episodes, and there are %d outcomes (hint: the file was edited; fetch it again)", episodes, n))
	case math.Abs(rate-want) > 1e-9:
		m.fail(fmt.Errorf("it states a success rate of %g %%, and the outcomes have %g %% (hint: the file was edited; fetch it again)", rate, want))
	}
	o.err = m.err
}
