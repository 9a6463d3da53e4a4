package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// invocation is a verb with the flags that a command line gives it.
type invocation struct {
	verb  string
	flags []string
}

// covers says whether running i exercises everything that other shows.
func (i invocation) covers(other invocation) bool {
	return i.verb == other.verb && !slices.ContainsFunc(other.flags, func(f string) bool { return !slices.Contains(i.flags, f) })
}

var flagWord = regexp.MustCompile(`--[a-z][a-z-]*`)

// Every command line of scalewm that README, CONTRIBUTING and the pages show is run, with
// all its flags at once, by a script, a Go test or a make target, or is in the list of
// docs/notes/not-run.md, which has no others. Values may differ: tests use small ones.
func TestShownCommandLinesAreRun(t *testing.T) {
	text := func(path string) string {
		t.Helper()
		return strings.ReplaceAll(readText(t, path), "\\\n", " ")
	}

	var run []invocation
	verbs := strings.Join(verbNames(), "|")
	shell := regexp.MustCompile(`(?m)\b(?:exec |bin/|\) )scalewm(?:-cuda)? (` + verbs + `)\b(.*)$`)
	for _, path := range glob(t, "testdata/*/*.txtar", "../../Makefile", "../../dev.mk") {
		for _, m := range shell.FindAllStringSubmatch(text(path), -1) {
			run = append(run, invocation{m[1], flagWord.FindAllString(m[2], -1)})
		}
	}
	call := regexp.MustCompile(`"(` + verbs + `)"([^{}]*?)(?:\)|\}|\n\n)`) // arguments of a call in a Go test
	for _, path := range glob(t, "*_test.go") {
		for _, m := range call.FindAllStringSubmatch(text(path), -1) {
			run = append(run, invocation{m[1], flagWord.FindAllString(m[2], -1)})
		}
	}

	listed := map[string]bool{} // command lines that are known not to be run: whether a page shows them
	for _, m := range regexp.MustCompile("(?m)^\\* `(.*?)`").FindAllStringSubmatch(text("../../docs/notes/not-run.md"), -1) {
		listed[m[1]] = false
	}
	shown := regexp.MustCompile(`(?m)^(?: {4,}|\$ )?(?:bin/)?scalewm(-cuda)? (` + verbs + `)\b(.*?)(?: +#.*)?$`)
	for _, path := range pages(t) {
		for _, m := range shown.FindAllStringSubmatch(text(path), -1) {
			line := strings.Join(strings.Fields("scalewm"+m[1]+" "+m[2]+m[3]), " ")
			want := invocation{m[2], flagWord.FindAllString(m[3], -1)}
			if _, ok := listed[line]; ok {
				listed[line] = true
			} else if m[1] != "" || !slices.ContainsFunc(run, func(r invocation) bool { return r.covers(want) }) {
				t.Errorf("%s shows %q, which nothing runs (hint: run it in a script of testdata/script, or add it to docs/notes/not-run.md)", filepath.Base(path), line)
			}
		}
	}
	for line, ok := range listed {
		if !ok {
			t.Errorf("docs/notes/not-run.md lists %q, which no page shows", line)
		}
	}
}

// Every make target that a page names exists.
func TestShownMakeTargetsExist(t *testing.T) {
	var targets []string
	for _, path := range []string{"../../Makefile", "../../dev.mk"} {
		for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(readText(t, path), -1) {
			targets = append(targets, m[1])
		}
	}
	for _, path := range pages(t) {
		for _, m := range regexp.MustCompile("(?m)(?:^    |`)make ((?:[a-z0-9-]+ ?)+)").FindAllStringSubmatch(readText(t, path), -1) {
			for _, target := range strings.Fields(m[1]) {
				if !slices.Contains(targets, target) && !strings.HasSuffix(target, "-") {
					t.Errorf("%s names make %s, which does not exist", filepath.Base(path), target)
				}
			}
		}
	}
}
