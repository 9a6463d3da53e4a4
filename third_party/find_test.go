package thirdparty

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCandidates(t *testing.T) {
	for name, tc := range map[string]struct {
		variable, exe, checkout string
		want                    []string
	}{
		"variable alone counts": {"/v", "/e", "/c", []string{"/v", "/v/lib.so"}},
		"beside, then checkout": {"", "/e", "/c", []string{"/e/lib.so", "/c/third_party/fetched/part/lib.so"}},
		"nothing known":         {"", "", "", nil},
	} {
		if got := Candidates(tc.variable, tc.exe, tc.checkout, "part", "lib.so"); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// A program that runs anywhere in a checkout finds the files downloaded there. Outside of a
// checkout it looks only next to itself.
func TestPlacesOfACheckout(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a/b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	outside := Places("", "part", "lib.so")
	writeFile(t, filepath.Join(root, "third_party/manifest.toml"), "")
	want := filepath.Join(root, "third_party/fetched/part/lib.so")
	if inside := Places("", "part", "lib.so"); !slices.Contains(inside, want) || slices.Contains(outside, want) {
		t.Errorf("inside %v, outside %v, want %s", inside, outside, want)
	}
	if got := Places("/v", "part", "lib.so"); !slices.Equal(got, []string{"/v", "/v/lib.so"}) {
		t.Errorf("with a variable: %v", got)
	}
}
