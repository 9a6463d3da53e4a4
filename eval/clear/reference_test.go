package clear

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// families has the test of each family of reference files by its name. It takes the
// path of one file. The files reference_FAMILY_test.go fill it in.
var families = map[string]func(t *testing.T, path string){}

// TestReference compares the rules of protocols with values of CLEAR-LeWM at ab8849c:
// committed ones, which testdata/reference.py and reference_rules.py make, and those of the folder protocols
// of SCALEWM_REFERENCE_DIR. Each file is a subtest, named after it. A file's family is
// its name up to the first _ or dot.
func TestReference(t *testing.T) {
	own := "testdata/reference/protocols"
	folders := []string{own}
	if dir := os.Getenv("SCALEWM_REFERENCE_DIR"); dir != "" {
		// A relative path may also count from the folder of the repository.
		if _, err := os.Stat(dir); err != nil && !filepath.IsAbs(dir) {
			dir = filepath.Join("../..", dir)
		}
		// First, so that its files have the plain names if there are two of a name.
		folders = []string{filepath.Join(dir, "protocols"), own}
	}
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if os.IsNotExist(err) && folder != own {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name, isJSON := strings.CutSuffix(e.Name(), ".json")
			if !isJSON {
				continue
			}
			t.Run(name, func(t *testing.T) { referenceFile(t, filepath.Join(folder, e.Name())) })
		}
	}
}

// referenceFile runs the test of a file's family.
func referenceFile(t *testing.T, path string) {
	family := filepath.Base(path)
	family = family[:strings.IndexAny(family, "_.")]
	test, known := families[family]
	if !known {
		t.Fatalf("unknown family %q", family)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Manifests are inputs, of any content. Others are JSON and may state their family.
	var stated struct{ Family *string }
	if family != "manifest" {
		if err := json.Unmarshal(b, &stated); err != nil {
			t.Fatal(err)
		}
		if stated.Family != nil && *stated.Family != family {
			t.Fatalf("its key family is %q", *stated.Family)
		}
	}
	test(t, path)
}

// load reads the JSON of a reference file.
func load(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
