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
var commandLine = regexp.MustCompile(`(?m)^(?:    |\t| *\$ )?(?:bin/)?scalewm ([a-z]+)(.*?)(?: +#.*)?$`)

// Every command line in a page, the Makefile or a help text must use a verb and flags that
// exist.
func TestShownCommandLinesExist(t *testing.T) {
	shown := map[string]string{} // where -> text
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, "../../README.md", "../../Makefile") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		shown[filepath.Base(f)] = string(b)
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

// A link to a file of this repository must not be dead.
func TestLinksOfThePagesLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, "../../README.md", "../../CHANGELOG.md") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(f), m[1])); err != nil {
				t.Errorf("%s links %s: %v", filepath.Base(f), m[1], err)
			}
		}
	}
}
