package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// forbidden maps selectors that a library may not use to the reason.
var forbidden = map[string]string{
	"filepath.Glob": "a folder's name may hold * ? [, so fs.Glob(os.DirFS(folder), ...)",
	"os.Exit":       "only cmd ends the process",
	"os.Stdout":     "libraries are silent: report through a progress func",
	"os.Stderr":     "libraries are silent: report through a progress func",
	"fmt.Print":     "libraries are silent: report through a progress func",
	"fmt.Printf":    "libraries are silent: report through a progress func",
	"fmt.Println":   "libraries are silent: report through a progress func",
	"log.Print":     "libraries are silent: report through a progress func",
	"log.Printf":    "libraries are silent: report through a progress func",
	"log.Fatal":     "libraries return errors",
	"rand.New":      "streams come from dataset/rng",
	"rand.NewPCG":   "streams come from dataset/rng",
}

// maySeed reports whether a folder may create random streams: dataset/rng, and conformance
// suites, which are tests.
func maySeed(dir string) bool {
	return strings.Contains(filepath.ToSlash(dir), "dataset/rng") || strings.HasSuffix(dir, "test")
}

// forTests reports whether a file belongs to tests only: no program imports testing.
func forTests(f *ast.File) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` })
}

// breaches returns the forbidden selectors of a file.
func breaches(f *ast.File) map[token.Pos]string {
	found := map[token.Pos]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && forbidden[x.Name+"."+sel.Sel.Name] != "" {
				found[sel.Pos()] = x.Name + "." + sel.Sel.Name
			}
		}
		return true
	})
	return found
}

// TestRulesOfLibraries checks every source file outside cmd: none does what only cmd may
// do, such as exiting, and every package has a package comment.
func TestRulesOfLibraries(t *testing.T) {
	commented := map[string]bool{}
	set := token.NewFileSet()
	root := "../.."
	files := 0
	for _, floor := range []string{"mujoco", "envs", "dataset", "model", "eval"} {
		err := filepath.WalkDir(filepath.Join(root, floor), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Error(err)
				return nil
			}
			if f.Name.Name == "main" {
				return nil // a generator, run by hand
			}
			files++
			dir := filepath.Dir(path)
			commented[dir] = commented[dir] || f.Doc.Text() != ""
			if forTests(f) {
				return nil
			}
			for pos, what := range breaches(f) {
				if strings.HasPrefix(what, "rand.") && maySeed(dir) {
					continue
				}
				t.Errorf("%s: %s: %s", set.Position(pos), what, forbidden[what])
			}
			return nil
		})
		if err != nil && floor != "mujoco" { // the folder is empty until the binding comes
			t.Fatal(err)
		}
	}
	for dir, ok := range commented {
		if !ok {
			t.Errorf("%s has no package comment: say what it is for and what it must not know", dir)
		}
	}
	if files < 20 {
		t.Errorf("read only %d files", files)
	}
}

func TestRulesBite(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
func f() { os.Exit(1); fmt.Println(); s := fmt.Sprintf(""); rand.New(nil) }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(breaches(f)); n != 3 {
		t.Errorf("found %d breaches, want 3", n)
	}
}

// The program stays a thin layer of flags, progress and printing: at most 240 lines of code
// per verb, comments not counted. Everything else belongs in the packages below it.
func TestProgramStaysThin(t *testing.T) {
	limit := 240 * len(verbs)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
				lines++
			}
		}
	}
	if lines < 1000 || lines >= limit {
		t.Errorf("%d lines of code outside tests, want fewer than %d", lines, limit)
	}
}
