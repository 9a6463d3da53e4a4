package clear

import (
	"testing"
)

func init() { families["fingerprint"] = referenceFingerprint }

// referenceFingerprint checks the metadata-sha256 of schemas.
func referenceFingerprint(t *testing.T, path string) {
	var file struct {
		Cases []struct {
			Schema    []column
			SizeBytes int64 `json:"size_bytes"`
			SHA256    string
		}
	}
	load(t, path, &file)
	if len(file.Cases) == 0 {
		t.Fatal("it has no cases")
	}
	for i, c := range file.Cases {
		if got := fingerprint(c.Schema, c.SizeBytes); got != c.SHA256 {
			t.Errorf("case %d: %s, want %s", i, got, c.SHA256)
		}
	}
}
