package hdf5

import (
	"regexp"
	"testing"
)

func TestLibraryVersions(t *testing.T) {
	h, d, err := LibraryVersions()
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^1\.\d+\.\d+$`).MatchString(h) || !regexp.MustCompile(`^1\.\d+`).MatchString(d) {
		t.Errorf("libhdf5 %q, libdeflate %q", h, d)
	}
}
