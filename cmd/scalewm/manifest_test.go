package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset/hdf5"
	"scalewm/eval/clear"
	"scalewm/eval/results"
)

// A manifest that is drawn by the procedure of CLEAR-LeWM (tested against its own code in
// package clear) has the starts that the protocol of its name draws itself, and an evaluation
// of it says so. Other rules, other data and edited manifests are errors before any work.
func TestManifest(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir := t.TempDir()
	data, text := filepath.Join(dir, "d.h5"), readText(t, "../../eval/clear/testdata/reference/protocols/manifest_moderate.json")
	if _, errs, code := session("collect", "tworoom", "--episodes", "40", "--out", data); code != exitDone {
		t.Fatal(errs)
	}
	// The protocol object is the template's; data, seed and pairs are those of this file.
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	of, err := clear.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f, err := hdf5.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := of.Selection()
	s.Draw.N, s.Draw.Seed = 6, 42
	rows, st, err := clear.Select(f, "tworoom", s)
	if err != nil {
		t.Fatal(err)
	}
	print, err := clear.Fingerprint(data)
	if err != nil {
		t.Fatal(err)
	}
	pairs := []map[string]any{}
	for i, row := range rows {
		for e, ep := range f.Episodes() {
			if step := row - ep.Offset; step >= 0 && step < ep.Len {
				pairs = append(pairs, map[string]any{"pair_id": i, "episode_id": e, "start_step": step, "goal_step": step + 25, "start_row": row, "goal_row": row + 25})
			}
		}
	}
	m["pairs"], m["statistics"], m["seed"], m["policy_seed"] = pairs, st, 42, 42
	m["dataset"] = map[string]any{"name": "d.h5", "episode_column": "ep_idx", "fingerprint": map[string]any{"kind": clear.MetadataSHA256, "value": print}}
	write := func(name string) string {
		b, err := json.Marshal(m)
		path := filepath.Join(dir, name)
		if err == nil {
			err = os.WriteFile(path, b, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	manifest := write("moderate.json")
	eval := func(out, sets, protocol string, flags ...string) (errs string, code int) {
		_, errs, code = session(append([]string{"eval", "--task", "tworoom", "--random", "--data", data, "--protocol", protocol, "--sets", sets, "--episodes", "6", "--out", filepath.Join(dir, out)}, flags...)...)
		return errs, code
	}
	type outcome struct {
		Spec struct {
			Protocol, Manifest, Set string
			Hash                    string `json:"set_hash"`
			OtherData               bool   `json:"other_data"`
		}
		Result struct{ Rows []results.Row }
	}
	read := func(out string) (cell outcome) {
		t.Helper()
		cells, _ := filepath.Glob(filepath.Join(dir, out, "cells", strings.Repeat("?", 32)+".json"))
		if len(cells) != 1 {
			t.Fatalf("cells of %s: %q", out, cells)
		}
		if err := json.Unmarshal([]byte(readText(t, cells[0])), &cell); err != nil {
			t.Fatal(err)
		}
		return cell
	}
	for out, sets := range map[string]string{"published": manifest, "own": "s42"} {
		if errs, code := eval(out, sets, "clear-moderate-0.8"); code != exitDone {
			t.Fatalf("%s: exit %d\n%s", sets, code, errs)
		}
	}
	first := read("published")
	published, own := first.Spec, read("own").Spec
	if published.Hash != own.Hash || published.Set != "m-moderate" || len(published.Manifest) != 64 || published.Protocol != "clear-moderate-0.8" || published.OtherData {
		t.Errorf("cells of the manifest %+v, of own pairs %+v", published, own)
	}
	if own.Protocol != "clear-moderate-0.8+own-pairs" || own.Manifest != "" {
		t.Errorf("the cell of own pairs %+v", own)
	}
	if kept := readText(t, filepath.Join(dir, "published", "manifests", published.Manifest+".json")); kept != readText(t, manifest) {
		t.Errorf("the folder keeps the manifest %s", kept)
	}
	for _, row := range first.Result.Rows {
		if row.Route != results.RouteValid && row.Route != results.RouteInvalid {
			t.Errorf("the row of a swept disc %+v", row)
		}
	}
	clearFiles(t, filepath.Join(dir, "published"), published.Manifest)
	// A manifest of another data set: the fingerprint is the only difference.
	fingerprint := m["dataset"].(map[string]any)["fingerprint"].(map[string]any)
	fingerprint["value"] = strings.Repeat("0", 64)
	foreign := write("foreign.json")
	fingerprint["value"] = print
	if errs, code := eval("bad", foreign, "clear-moderate-0.8"); code != exitUsage || !strings.Contains(errs, "evaluate on that file; --other-data takes the same rows of this one") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	for out, sets := range map[string]string{"foreign": foreign, "same": manifest} {
		if errs, code := eval(out, sets, "clear-moderate-0.8", "--other-data"); code != exitDone {
			t.Fatalf("%s: exit %d\n%s", sets, code, errs)
		}
	}
	if s := read("foreign").Spec; s.Protocol != "clear-moderate-0.8+other-data" || !s.OtherData || s.Hash != published.Hash {
		t.Errorf("the cell on other data %+v", s)
	}
	if s := read("same").Spec; s != published { // the flag changes nothing on the manifest's own data
		t.Errorf("the cell %+v, want %+v", s, published)
	}
	if errs, code := eval("bad", "s42", "clear-moderate-0.8", "--other-data"); code != exitUsage || !strings.Contains(errs, "--other-data: none of the sets is a manifest (hint: ") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	// Bad requests: other rules, and at last a manifest that was edited.
	for _, c := range []struct{ protocol, want string }{
		{"paper", "its protocol moderate has other collisions, unlike --protocol paper"},
		{"clear-strict-0.8", "has the success rule: upstream"},
		{"clear-moderate-0.8", "the goal is 26 rows on"},
	} {
		if c.protocol == "clear-moderate-0.8" {
			pairs[0]["goal_row"] = pairs[0]["goal_row"].(int) + 1
		}
		errs, code := eval("bad", write("bad.json"), c.protocol)
		if code != exitUsage || !strings.Contains(errs, c.want) || !strings.Contains(errs, "(hint: ") {
			t.Errorf("exit %d, want %q\n%s", code, c.want, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "bad")); err == nil {
		t.Error("a rejected manifest left files")
	}
}

// clearFiles writes the results of a folder in CLEAR-LeWM's format, reads the only one, which is
// of random actions on a manifest, and compares it with itself. Flags that do not belong
// together are usage errors.
func clearFiles(t *testing.T, dir, manifest string) {
	t.Helper()
	out, errs, code := session("report", dir, "--format", "clear")
	path := filepath.Join(dir, "clear", "random", "results", "tworoom-moderate.json")
	if r, err := clear.ParseResult([]byte(readText(t, path))); err != nil || code != exitDone || out != path+"\n" || r.ManifestSHA256 != manifest || !strings.Contains(errs, "note: no submission.json") {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
	}
	submission := filepath.Join(t.TempDir(), "submission.toml")
	page := readText(t, "../../docs/report.md")
	_, page, _ = strings.Cut(page, "\n    [method]\n")
	text, _, _ := strings.Cut("[method]\n"+page, "\n\nThe folder")
	if err := os.WriteFile(submission, []byte(strings.ReplaceAll(text, "\n    ", "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "submission")
	if out, errs, code := session("report", dir, "--format", "clear", "--submission", submission, "--random", path, "--out", other, "--json"); code != exitDone || !strings.Contains(out, `"files":[`) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for want, flags := range map[string][]string{
		"writes other files than a report (hint: ":                  {"--format", "clear,html"},
		"--submission has no effect without --format clear (hint: ": {"--submission", submission},
		"--same-device has no effect with --format clear (hint: ":   {"--format", "clear", "--same-device"},
		"--with has no effect with --format clear (hint: ":          {"--format", "clear", "--with", "x.csv"},
		"is on a manifest that no cell of":                          {"--format", "clear", "--random", "../../eval/clear/testdata/results/random.json"},
		"reading the submission " + path + ": ":                     {"--format", "clear", "--submission", path},
	} {
		if _, errs, code := session(append([]string{"report", dir}, flags...)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d\n%s", flags, code, errs)
		}
	}
}
