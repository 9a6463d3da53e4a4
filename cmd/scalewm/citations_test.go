package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// strangers matches names of documents that are not in the repository.
	strangers = regexp.MustCompile(`\b[a-z]+-spec\b|\breference-cases\b|\bDESIGN\b|\bml-engine\b`)
	// cited matches a citation in a comment, linked one in a page.
	cited  = regexp.MustCompile(`docs/([a-z/-]+\.md)#([a-z0-9-]+)`)
	linked = regexp.MustCompile(`\]\(([a-z./-]+\.md)?#([a-z0-9-]+)\)`)
	// Targets of citations: explicit anchors, and headings as GitHub names them.
	explicit = regexp.MustCompile(`<a id="([a-z0-9-]+)"></a>`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	unnamed  = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors returns the anchors of every page in docs.
func anchors(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, page := range pages(t) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range explicit.FindAllSubmatch(b, -1) {
			ids = append(ids, string(m[1]))
		}
		slices.Sort(ids)
		if len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Errorf("%s gives an anchor twice: %v", filepath.Base(page), ids)
		}
		for _, m := range heading.FindAllSubmatch(b, -1) {
			ids = append(ids, strings.ReplaceAll(unnamed.ReplaceAllString(strings.ToLower(string(m[1])), ""), " ", "-"))
		}
		name, _ := filepath.Rel("../../docs", page)
		out[name] = ids
	}
	return out
}

// Comments and pages name no document that a reader cannot open, and every anchor in docs
// that they cite exists.
func TestCitationsLead(t *testing.T) {
	known := anchors(t)
	citations := 0
	check := func(where, page, anchor string) {
		citations++
		if !slices.Contains(known[page], anchor) {
			t.Errorf("%s cites docs/%s#%s, which is not there", where, page, anchor)
		}
	}
	texts := []string{".go", ".c", ".h", ".cu", ".cuh", ".cpp", ".py", ".sh", ".toml", ".md", ".cff", "Makefile"}
	root := "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "fetched" || d.Name() == "out" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.Type()&fs.ModeSymlink != 0 && d.Name() != "fetched" {
			if to, err := os.Readlink(path); err != nil || filepath.IsAbs(to) {
				t.Errorf("%s is a link to %q, a place of one machine (hint: git rm it)", path, to)
			}
			return nil
		}
		if d.IsDir() || d.Name() == "citations_test.go" || !slices.ContainsFunc(texts, func(end string) bool { return strings.HasSuffix(d.Name(), end) }) {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		where, _ := filepath.Rel(root, path)
		for i, line := range strings.Split(string(b), "\n") {
			if m := strangers.FindString(line); m != "" {
				t.Errorf("%s:%d names %q, which is not in the repository (hint: cite an anchor of docs/sources.md)", where, i+1, m)
			}
		}
		for _, m := range cited.FindAllStringSubmatch(string(b), -1) {
			check(where, m[1], m[2])
		}
		if filepath.Ext(where) == ".md" {
			for _, m := range linked.FindAllStringSubmatch(string(b), -1) {
				page := where
				if m[1] != "" {
					page = filepath.Join(filepath.Dir(where), m[1])
				}
				page, _ = filepath.Rel("docs", page)
				check(where, page, m[2])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if citations < 100 {
		t.Errorf("found only %d citations: does the pattern still fit them?", citations)
	}
}
