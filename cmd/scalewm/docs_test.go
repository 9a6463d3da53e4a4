package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commandLine finds `scalewm VERB ...` at the start of an indented line of a
// page, of a Makefile recipe or of a verb's example.
var commandLine = regexp.MustCompile(`(?m)^(?: {4,}|\t| *\$ )?(?:bin/)?scalewm ([a-z]+)(.*?)(?: +#.*)?$`)

// Every command line in a page, the Makefile or a help text must use a verb and flags that
// exist.
func TestShownCommandLinesExist(t *testing.T) {
	shown := map[string]string{} // where -> text
	for _, f := range append(pages(t), "../../Makefile", "../../dev.mk") {
		shown[f] = readText(t, f)
	}
	for _, name := range verbNames() {
		v, _ := lookupVerb(name)
		shown["scalewm "+name+" --help"] = v.example
	}
	lines := 0
	for where, text := range shown {
		for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
			lines++
			checkShown(t, where, m[1], strings.Fields(m[2]))
		}
	}
	if lines < 2*len(verbNames()) {
		t.Errorf("found only %d command lines: does the pattern still fit the pages?", lines)
	}
}

func checkShown(t *testing.T, where, name string, words []string) {
	t.Helper()
	if name == "help" {
		return
	}
	help, _, code := session(name, "--help")
	if code != exitDone {
		t.Errorf("%s shows the verb %q, which does not exist", where, name)
		return
	}
	for _, w := range words {
		flag, isFlag := strings.CutPrefix(strings.Trim(w, "[]"), "--")
		flag, _, _ = strings.Cut(flag, "=")
		if isFlag && flag != "help" && flag != "" && !strings.Contains(help, "  --"+flag+" ") {
			t.Errorf("%s: scalewm %s has no flag --%s", where, name, flag)
		}
	}
}

// pages returns the paths of all Markdown pages, except issue templates.
func pages(t *testing.T) []string {
	t.Helper()
	return glob(t, "../../*.md", "../../docs/*.md", "../../docs/notes/*.md")
}

// glob returns the files of several patterns, each of which must match one.
func glob(t *testing.T, patterns ...string) (all []string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		all = append(all, files...)
	}
	return all
}

// readText returns the content of a file.
func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A link to a file of this repository must not be dead.
func TestLinksOfThePagesLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, f := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(readText(t, f), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(f), m[1])); err != nil {
				t.Errorf("%s links %s: %v", f, m[1], err)
			}
		}
	}
}
