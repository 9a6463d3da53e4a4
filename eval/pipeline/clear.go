package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"scalewm/dataset/safefile"
	"scalewm/eval/clear"
	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/model"
)

// ClearRequest describes the files in the format of CLEAR-LeWM that WriteClear writes.
type ClearRequest struct {
	Dir        string   // the results folder
	Out        string   // where the files are written
	Submission string   // TOML file with what the authors of a submission state; "" for results alone
	Random     []string // CLEAR-LeWM's result files of random actions, instead of the folder's own
	Force      bool     // replace existing files
}

// ClearWritten is the result of WriteClear.
type ClearWritten struct {
	Files  []string `json:"files"` // paths, sorted
	Notes  []string `json:"notes"` // what the files lack, and what CLEAR-LeWM does not accept
	Unread []string `json:"unread"`
}

// bundle has the files of one arm, training seed, solver and tier: a result for each manifest
// and, if the authors state what they must, submission.json.
type bundle struct {
	entries []clear.Entry
	files   map[string][]byte // by path below Out
	cells   map[string]string // ids of the cells of these files
}

// WriteClear writes a result file for each cell on a manifest, in the folder
// ARM-SEED-SOLVER-TIER/results, and a submission next to them. It returns an error, and writes
// nothing, if a manifest is missing, if two cells would have one file, if a file exists and
// has other bytes, or if a submission has no result of random actions to compare with.
func WriteClear(ctx context.Context, r ClearRequest) (w ClearWritten, err error) {
	x := clearExport{ClearRequest: r, manifests: map[string]*clear.Manifest{}, bundles: map[string]*bundle{}}
	if r.Submission != "" {
		if x.stated, err = readSubmission(r.Submission); err != nil {
			return w, err
		}
	}
	if x.contents, err = results.Load(ctx, r.Dir); err != nil {
		return w, err
	}
	w.Unread = x.contents.Unread()
	if err = x.readRandom(); err == nil {
		err = x.addAll()
	}
	if err != nil {
		return w, fmt.Errorf("writing results for CLEAR-LeWM: %w", err)
	}
	x.submit()
	w.Files, err = x.write()
	w.Notes = slices.Compact(slices.Sorted(slices.Values(x.notes)))
	return w, err
}

// clearExport is a WriteClear in progress.
type clearExport struct {
	ClearRequest
	stated    *clear.Submission // nil without a submission
	contents  results.Contents
	manifests map[string]*clear.Manifest // by SHA-256
	random    map[string][]bool          // outcomes of random actions, by the SHA-256 of the manifest
	theirs    map[string]bool            // whether these are of a given file
	bundles   map[string]*bundle         // by folder
	notes     []string
}

func (x *clearExport) note(format string, args ...any) {
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
}

// readSubmission reads what the authors of a submission state.
func readSubmission(path string) (*clear.Submission, error) {
	b, err := safefile.Read(path, safefile.MaxRecord)
	if err != nil {
		return nil, fmt.Errorf("reading the submission: %w (hint: docs/report.md has an example)", err)
	}
	s, err := parseSubmission(string(b))
	if err != nil {
		return nil, Requestf("reading the submission %s: %w", path, err)
	}
	return s, nil
}

// parseSubmission parses the TOML text of a submission.
func parseSubmission(text string) (*clear.Submission, error) {
	if err := protocol.CheckLines(text); err != nil {
		return nil, err
	}
	var tree map[string]any
	if _, err := toml.Decode(text, &tree); err != nil {
		return nil, fmt.Errorf("%w (hint: docs/report.md has an example)", err)
	}
	return clear.ParseSubmission(tree)
}

// readRandom finds the outcomes of random actions: those of the folder's cells, which given
// files replace.
func (x *clearExport) readRandom() error {
	x.random, x.theirs = map[string][]bool{}, map[string]bool{}
	for _, c := range x.contents.Cells {
		if s := c.Spec; s.Random() && s.Manifest != "" && !s.OtherData && s.Episodes > 0 {
			x.random[s.Manifest] = successes(c)
		}
	}
	for _, path := range x.Random {
		r, err := clear.ReadResult(path)
		switch {
		case err != nil:
			return err
		case r.Mode != clear.ModeRandom:
			return Requestf("%s is a result of %.40q, not of random actions (hint: CLEAR-LeWM's are results/VERSION/TASK-PROTOCOL-random-seed42-n100.json)", path, r.Policy)
		case !slices.ContainsFunc(x.contents.Cells, func(c results.Cell) bool { return c.Spec.Manifest == r.ManifestSHA256 }):
			return Requestf("%s is on a manifest that no cell of %s is on (hint: its manifest is %.80q, with the SHA-256 %.12s)", path, x.Dir, r.Manifest, r.ManifestSHA256)
		}
		x.random[r.ManifestSHA256], x.theirs[r.ManifestSHA256] = r.Successes, true
	}
	return nil
}

// successes returns the outcomes of a cell in the order of its episodes.
func successes(c results.Cell) []bool {
	out := make([]bool, len(c.Result.Rows))
	for _, row := range c.Result.Rows {
		out[row.Episode] = row.Success
	}
	return out
}

// addAll adds a result for each cell on a manifest.
func (x *clearExport) addAll() error {
	for _, c := range x.contents.Cells {
		switch {
		case c.Spec.Manifest == "":
			continue
		case c.Spec.OtherData:
			x.note("left out: cell %s, on other data than its manifest's", c.ID)
			continue
		case c.Spec.Replaced() != model.Replacement{}:
			x.note("left out: cell %s, of %s: a component of its search is replaced, which CLEAR-LeWM's results cannot say", c.ID, c.Spec.Arm())
			continue
		}
		if err := x.add(c); err != nil {
			return fmt.Errorf("cell %s: %w", c.ID, err)
		}
	}
	if len(x.bundles) == 0 {
		return fmt.Errorf("%s has no cells on a manifest of CLEAR-LeWM and its data (hint: `scalewm eval --protocol clear-moderate-0.8 --sets FILE`)", x.Dir)
	}
	return nil
}

// add adds the result of a cell and, if the authors state what they must, its entry in the
// submission.
func (x *clearExport) add(c results.Cell) error {
	m, err := x.manifest(c)
	if err != nil {
		return err
	}
	s := c.Spec
	random := x.random[s.Manifest]
	if s.Random() {
		random = nil // of itself
	}
	for what, n := range map[string]int{"it": s.Episodes, "the result of random actions": cmp.Or(len(random), len(m.Pairs))} {
		if n != len(m.Pairs) {
			return fmt.Errorf("%s has %d episodes, and its manifest %d (hint: evaluate it again)", what, n, len(m.Pairs))
		}
	}
	folder, name := bundleName(s), strings.TrimPrefix(s.Set, "m-") // the inverse of clear.SetName
	b := x.bundles[folder]
	if b == nil {
		b = &bundle{files: map[string][]byte{}, cells: map[string]string{}}
		x.bundles[folder] = b
	}
	path := filepath.Join("results", s.Task+"-"+name+".json")
	if other := b.cells[path]; other != "" {
		return fmt.Errorf("it and the cell %s would both be %s (hint: they differ in a setting or in their manifest; evaluate them into separate folders)", other, filepath.Join(folder, path))
	}
	b.files[path], b.cells[path] = x.result(c, m, name).Encode(m, random, x.provenance(c, m)), c.ID
	if x.stated == nil || s.Random() {
		return nil
	}
	return x.enter(b, path, c, m)
}

// enter adds a file of a bundle to its submission, if CLEAR-LeWM takes results on the manifest.
func (x *clearExport) enter(b *bundle, path string, c results.Cell, m *clear.Manifest) error {
	sum := sha256.Sum256(b.files[path])
	e := clear.Entry{Task: m.Task, Protocol: m.Protocol.Name, Path: filepath.ToSlash(path), SHA256: hex.EncodeToString(sum[:])}
	why := m.Submittable(x.stated.Benchmark.Version)
	switch {
	case why != "":
		x.note("not part of a submission: cell %s, %s on %s (seed %d); %s", c.ID, e.Protocol, e.Task, m.Seed, why)
		return nil
	case x.random[m.SHA256] == nil:
		return Requestf("no result of random actions on its manifest, which a submission needs (hint: --random FILE with CLEAR-LeWM's own)")
	case slices.ContainsFunc(b.entries, func(o clear.Entry) bool { return o.Task == e.Task && o.Protocol == e.Protocol }):
		return fmt.Errorf("its arm has results on two manifests of %s with the seed %d (hint: evaluate them into separate folders)", e.Protocol, m.Seed)
	case !x.theirs[m.SHA256]:
		x.note("CLEAR-LeWM's validator accepts the rate of its own random actions only; that of %s on %s is from %s (hint: --random FILE)", e.Protocol, e.Task, x.Dir)
	}
	if len(c.Spec.Weights) != hex.EncodedLen(sha256.Size) {
		x.note("CLEAR-LeWM's validator accepts a checkpoint with a SHA-256 only; that of cell %s is %q (hint: weights= in Python)", c.ID, c.Spec.Weights)
	}
	b.entries = append(b.entries, e)
	return nil
}

// bundleName returns the folder of a cell's bundle.
func bundleName(s results.Spec) string {
	parts := []string{s.Arm().String()}
	if !s.Random() {
		parts = append(parts, fmt.Sprintf("s%d", s.TrainSeed), s.Solver, s.Tier)
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "-")
}

// manifest returns the manifest of a cell, of which its results folder has a copy.
func (x *clearExport) manifest(c results.Cell) (*clear.Manifest, error) {
	sum := c.Spec.Manifest // a name, as every text of a spec
	if m := x.manifests[sum]; m != nil {
		return m, nil
	}
	path := results.Folder(filepath.Dir(filepath.Dir(x.contents.Paths[c.ID]))).Manifest(sum)
	m, err := clear.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the manifest %s of the set %s is missing (hint: copy the file with this SHA-256 there, or repeat the evaluation)", path, c.Spec.Set)
	case err != nil:
		return nil, err
	case m.SHA256 != sum:
		return nil, fmt.Errorf("the manifest %s has the SHA-256 %.12s (hint: it was edited; fetch it again)", path, m.SHA256)
	}
	x.manifests[sum] = m
	return m, nil
}

// result returns the result of a cell on the manifest with a file name.
func (x *clearExport) result(c results.Cell, m *clear.Manifest, name string) *clear.Result {
	s := c.Spec
	r := &clear.Result{Evaluation: m.Evaluation, Policy: s.Arm().String(), Checkpoint: bundleName(s), Manifest: name + ".json", Mode: clear.ModeCEM, Successes: successes(c),
		Candidates: s.Candidates, Iterations: s.Iterations, Elites: s.Elites}
	if x.stated != nil {
		r.Benchmark = x.stated.Benchmark.Version
	}
	switch {
	case s.Random():
		r.Mode = clear.ModeRandom
	case s.Solver == "":
		r.Mode = clear.ModeDirect
	case s.Proposed():
		r.Mode = clear.ModePrior
	}
	if s.Solver != "" {
		r.Target = "scalewm." + s.Solver
	}
	return r
}

// provenance returns what else is known about a cell.
func (x *clearExport) provenance(c results.Cell, m *clear.Manifest) clear.Provenance {
	s := c.Spec
	run, timed := x.contents.Runs[c.ID]
	program := map[string]any{"program": "scalewm", "version": cmp.Or(run.Version, "unknown")}
	with := func(more map[string]any) map[string]any {
		maps.Copy(more, program)
		return more
	}
	p := clear.Provenance{
		Weights:   s.Weights,
		Source:    map[string]any{"train_seed": s.TrainSeed, "recipe": s.Recipe},
		Routes:    x.routes(c, m),
		Physics:   with(map[string]any{"task": s.Task, "collision": cmp.Or(s.Collision, "official"), "substeps": cmp.Or(s.Substeps, "first")}),
		Numerics:  with(map[string]any{"device": c.Result.Device, "precision": s.Precision}),
		Execution: with(map[string]any{"rules": s.Rules.Full(), "noise": "a stream of scalewm for each episode, not of policy_seed"}),
		Versions:  map[string]any{"scalewm": program["version"]},
		Runtime:   map[string]any{"custom_runtime": true},
	}
	if s.ProposalWeights != "" {
		p.Source["proposal_sha256"] = s.ProposalWeights
	}
	if timed {
		p.Runtime["evaluation_seconds"] = run.Seconds
	}
	if x.stated != nil {
		p.Source["repository"], p.Source["revision"] = x.stated.Method.Repository, x.stated.Method.Revision
	}
	return p
}

// routes returns whether the route of each Two-Room episode was valid; nil if that is unknown.
func (x *clearExport) routes(c results.Cell, m *clear.Manifest) []bool {
	if !m.Swept() {
		return nil
	}
	out, invalid := make([]bool, len(c.Result.Rows)), 0
	for _, row := range c.Result.Rows {
		if row.Route == "" {
			x.note("no topology, which CLEAR-LeWM's validator requires: cell %s does not say which routes were valid (hint: an earlier version evaluated it; delete it and evaluate again)", c.ID)
			return nil
		}
		if out[row.Episode] = row.Route == results.RouteValid; !out[row.Episode] {
			invalid++
		}
	}
	if invalid > 0 {
		x.note("CLEAR-LeWM's validator rejects a result with invalid routes: cell %s has %d", c.ID, invalid)
	}
	return out
}

// submit adds the file submission.json to each bundle that has results for it.
func (x *clearExport) submit() {
	if x.stated == nil {
		x.note("no submission.json, and no source of the checkpoints: --submission FILE states the method, its authors and its training data (docs/report.md)")
		return
	}
	of := 0
	for _, b := range x.bundles {
		if len(b.entries) == 0 {
			continue
		}
		s := *x.stated
		s.Results = b.entries
		slices.SortFunc(s.Results, func(a, b clear.Entry) int { return strings.Compare(a.Path, b.Path) })
		b.files["submission.json"] = s.Encode()
		of++
	}
	if of > 0 {
		x.note("a submission needs a METHOD_CARD.md next to submission.json, which you write")
	}
	if of > 1 {
		x.note("%d submissions have the name %s: submit one of them, or change method.name", of, x.stated.Method.Name)
	}
}

// write writes all files, unless one of them exists and differs.
func (x *clearExport) write() (paths []string, err error) {
	files := map[string][]byte{}
	for folder, b := range x.bundles {
		for path, text := range b.files {
			files[filepath.Join(x.Out, folder, path)] = text
		}
	}
	paths = slices.Sorted(maps.Keys(files))
	for _, path := range paths {
		there, err := safefile.Read(path, safefile.MaxSet)
		if !x.Force && !errors.Is(err, fs.ErrNotExist) && !bytes.Equal(there, files[path]) {
			return nil, fmt.Errorf("writing results for CLEAR-LeWM: %s exists and differs (hint: another --out, or replace it with --force)", path)
		}
	}
	for _, path := range paths {
		if err := safefile.WriteBytes(path, files[path]); err != nil {
			return nil, err
		}
	}
	return paths, nil
}
