package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// session runs one command line as a shell would.
func session(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = exitCode(run(context.Background(), args, &out, &errs), &errs)
	return out.String(), errs.String(), code
}

func TestEveryVerbHelps(t *testing.T) {
	for _, name := range verbNames() {
		t.Run(name, func(t *testing.T) {
			v, _ := lookupVerb(name)
			if v.summary == "" || !strings.Contains(v.example, "scalewm "+name) {
				t.Errorf("summary %q, example %q: both are needed", v.summary, v.example)
			}
			for _, args := range [][]string{{name, "--help"}, {name, "-h"}, {"help", name}} {
				out, errs, code := session(args...)
				if code != exitDone || errs != "" {
					t.Fatalf("%v: exit %d, stderr %q", args, code, errs)
				}
				for _, want := range []string{"scalewm " + name + ": " + v.summary, "Usage: scalewm " + name, "Example:\n  " + strings.Split(v.example, "\n")[0]} {
					if !strings.Contains(out, want) {
						t.Errorf("%v does not print %q:\n%s", args, want, out)
					}
				}
			}
		})
	}
}

// All common spellings of help and version work.
func TestWordsInPlaceOfAVerb(t *testing.T) {
	for line, want := range map[string]string{
		"help": "Usage: scalewm VERB", "help help": "Usage: scalewm VERB", "--help -h": "Usage: scalewm VERB", "-help": "Usage: scalewm VERB",
		"help data convert": "Usage: scalewm data", "help train --help": "Usage: scalewm train", "-h train": "Usage: scalewm train",
		"--version": "scalewm " + fullVersion() + "\n", "version": "scalewm " + fullVersion() + "\n",
	} {
		out, errs, code := session(strings.Fields(line)...)
		if code != exitDone || errs != "" || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, %q, %q", line, code, out, errs)
		}
	}
}

// An unknown flag is a usage error before, between and after positional
// arguments; the file named does not exist, so that no verb gets far if it is missed.
func TestUnknownFlagAnywhere(t *testing.T) {
	for _, name := range verbNames() {
		for _, args := range [][]string{
			{name, "--no-such-flag"},
			{name, "--no-such-flag", "nowhere.h5"},
			{name, "nowhere.h5", "--no-such-flag"},
			{name, "info", "--no-such-flag", "nowhere.h5"},
			{name, "info", "nowhere.h5", "--no-such-flag"},
			{name, "nowhere.h5", "nowhere2.h5", "-no-such-flag=3"},
		} {
			out, errs, code := session(args...)
			if code != exitUsage || !strings.Contains(errs, "no-such-flag") || strings.Count(errs, "\n") != 1 || out != "" {
				t.Errorf("%v: exit %d, stdout %q, stderr %q; want exit 2 and one line naming the flag", args, code, out, errs)
			}
		}
	}
}

func TestFlagsStandAnywhere(t *testing.T) {
	for _, args := range [][]string{
		{"--n", "3", "--deep", "a", "b"},
		{"a", "--n", "3", "--deep", "b"},
		{"a", "b", "--deep", "--n=3"},
		{"-n", "3", "a", "-deep", "--", "b"},
	} {
		c := newCommand(verb{name: "x"}, nil, nil)
		n, deep := c.Int("n", 0, ""), c.Bool("deep", false, "")
		pos, err := c.parse(args, 2, 2)
		if err != nil || strings.Join(pos, " ") != "a b" || *n != 3 || !*deep {
			t.Errorf("%v: positional %v, n %d, deep %v, %v", args, pos, *n, *deep, err)
		}
	}
	c := newCommand(verb{name: "x"}, nil, nil)
	if pos, err := c.parse([]string{"--", "--n", "-"}, 0, -1); err != nil || strings.Join(pos, " ") != "--n -" {
		t.Errorf("after --: %v, %v", pos, err)
	}
}

// A count is an integer of at least 0. The error names the flag as it is typed.
func TestCounts(t *testing.T) {
	for text, want := range map[string]string{"0": "", "12": "", "-1": "--n: it must not be negative", "x": "--n: it must be a whole number"} {
		c := newCommand(verb{name: "x"}, nil, nil)
		n := c.Count("n", 7, "")
		_, err := c.parse([]string{"--n", text}, 0, 0)
		if want == "" && (err != nil || strconv.Itoa(*n) != text) {
			t.Errorf("--n %s: %d, %v", text, *n, err)
		}
		if want != "" && (exitCode(err, &bytes.Buffer{}) != exitUsage || !strings.Contains(err.Error(), want)) {
			t.Errorf("--n %s: %v, want %q", text, err, want)
		}
	}
	c := newCommand(verb{name: "x"}, nil, nil)
	if n := c.Count("n", 7, ""); *n != 7 || c.Lookup("n").DefValue != "7" {
		t.Errorf("the default is %d, shown as %s", *n, c.Lookup("n").DefValue)
	}
}

func TestCountOfArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"a", "b", "c"}} {
		c := newCommand(verb{name: "x", args: "F G"}, nil, nil)
		if _, err := c.parse(args, 1, 2); exitCode(err, &bytes.Buffer{}) != exitUsage {
			t.Errorf("%d arguments where 1 or 2 are wanted: %v", len(args), err)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "no verb given"},
		{[]string{"colect"}, `unknown verb "colect"`},
		{[]string{"help", "nothing"}, `unknown verb "nothing"`},
		{[]string{"tasks", "extra"}, `unexpected argument "extra"`},
		{[]string{"report", ""}, "report: an argument is empty"},
		{[]string{"train", "--steps", "0"}, "at least 1"},
		{[]string{"eval", "--verify", "0"}, "at least 1"},
		{[]string{"replay", "f.h5", "--episodes", "0"}, "at least 1"},
		{[]string{"report", ".", "--format", "all,pdf"}, `unknown format "pdf"`},
	} {
		_, errs, code := session(c.args...)
		if code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, stderr %q, want exit 2 and %q", c.args, code, errs, c.want)
		}
	}
}

func TestHelpListsEveryVerb(t *testing.T) {
	out, errs, code := session("help")
	if code != exitDone || errs != "" {
		t.Fatalf("exit %d, stderr %q", code, errs)
	}
	for _, name := range verbNames() {
		if !strings.Contains(out, "\n  "+name+" ") {
			t.Errorf("help does not list %s", name)
		}
	}
}

// Every verb has a page in docs, which the index links.
func TestEveryVerbHasItsPage(t *testing.T) {
	index, err := os.ReadFile("../../docs/index.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range verbNames() {
		text, err := os.ReadFile(filepath.Join("../../docs", name+".md"))
		if err != nil {
			t.Errorf("verb %s has no page: %v", name, err)
		} else if !strings.Contains(string(text), "scalewm "+name) {
			t.Errorf("docs/%s.md shows no command line of the verb", name)
		}
		if !strings.Contains(string(index), "("+name+".md)") {
			t.Errorf("docs/index.md does not link %s.md", name)
		}
	}
}
