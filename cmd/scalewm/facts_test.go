package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"scalewm/eval/pipeline"
	"scalewm/model"
)

// Facts that pages repeat from the code. Each row says that a page has a text; the text
// is formed from the value in the code.
func TestPagesRepeatTheCode(t *testing.T) {
	root := func(path string) string {
		t.Helper()
		return readText(t, filepath.Join("../..", path))
	}
	find := func(path, pattern string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)` + pattern).FindStringSubmatch(root(path))
		if m == nil {
			t.Fatalf("%s has nothing like %s", path, pattern)
		}
		return m[1]
	}
	sigreg := func(preset string) string {
		t.Helper()
		p, err := pipeline.LoadPreset(preset)
		if err != nil {
			t.Fatal(err)
		}
		weight, _ := p.Train.Weights.On(model.SIGReg, model.Others)
		return strings.TrimPrefix(fmt.Sprint(weight), "0")
	}
	version := find("Makefile", `^VERSION := (.*)$`)
	golang := find("go.mod", `^go (\d+\.\d+)`)
	for _, c := range []struct{ page, text string }{
		{"CITATION.cff", "\nversion: " + version + "\n"},
		{"CHANGELOG.md", "\n## " + version + " ("},
		{"README.md", "Go " + golang},
		{"Dockerfile", "FROM golang:" + golang},
		{".github/workflows/ci.yml", "container: golang:" + golang},
		{"docs/train.md", sigreg("nano")},
		{"docs/train.md", sigreg("paper")},
		{"docs/protocol.md", sigreg("nano")},
		{"docs/protocol.md", sigreg("paper")},
		{"docs/notes/experiments.md", "SIGReg weight 0" + sigreg("nano")},
	} {
		if !strings.Contains(root(c.page), c.text) {
			t.Errorf("%s does not say %q", c.page, c.text)
		}
	}

	// Every variable that a source reads is in the table, and the table has no other.
	named := regexp.MustCompile(`\bSCALEWM_[A-Z0-9_]+\b`)
	guard := regexp.MustCompile(`_H$`) // of C headers
	listed, read := map[string]bool{}, map[string]bool{}
	for _, v := range named.FindAllString(root("docs/environment.md"), -1) {
		listed[v] = true
	}
	for _, path := range tracked(t) {
		if filepath.Ext(path) == ".md" {
			continue
		}
		for _, v := range named.FindAllString(root(path), -1) {
			read[v] = read[v] || !guard.MatchString(v)
		}
	}
	for v, really := range read {
		if really && !listed[v] {
			t.Errorf("docs/environment.md lacks %s", v)
		}
	}
	for v := range listed {
		if !read[v] {
			t.Errorf("docs/environment.md has %s, which nothing reads", v)
		}
	}
}

// tracked lists the text files of the repository, from its root.
func tracked(t *testing.T) []string {
	t.Helper()
	ends := []string{".go", ".c", ".h", ".py", ".sh", ".txtar", ".md", ".mk", ".toml", ".yml", "Makefile", ".ci/run", ".ci/test-all", ".ci/testsum"}
	var out []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "fetched", "out", "bin", "dist"}, d.Name()):
			return filepath.SkipDir
		case !d.IsDir() && slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(path, end) }):
			path, err = filepath.Rel("../..", path)
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
