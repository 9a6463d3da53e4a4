package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"scalewm/model"
)

// Methods are defined in model/method.go. Apart from that file, the folder of a family and
// tests, no code names a trained method or its family: it looks properties up in the table.
func TestMethodsAreNamedOnce(t *testing.T) {
	names := model.MethodNames(model.Method.Trained)
	for _, m := range model.Methods() {
		if m.HasModel() && !slices.Contains(names, m.Family) {
			names = append(names, m.Family)
		}
	}
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		if err != nil || d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata" || d.Name() == "fetched") {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") || rel == "model/method.go" || strings.HasPrefix(rel, "eval/results/resultstest/") {
			return nil
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err == nil && slices.Contains(names, text) && !strings.HasPrefix(rel, "model/"+text+"/") {
				t.Errorf("%s names %q (hint: model.LookUp, model.MethodNames or a constant of model)", rel, text)
			}
			return true
		})
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files, %v", files, err)
	}
}
