package report

import (
	"os"
	"path/filepath"
	"testing"
)

// Files of a report are distinguished from other files with the same names.
func TestOurs(t *testing.T) {
	dir := t.TempDir()
	for name, b := range rendered(t, complete(t)) {
		for want, text := range map[bool][]byte{true: b, false: []byte("<!DOCTYPE html>\nNobody's page.\n")} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
				t.Fatal(err)
			}
			if ours, err := Ours(dir, name); err != nil || ours != want {
				t.Errorf("%s that begins %.20q: %v, %v; want %v", name, text, ours, err, want)
			}
		}
	}
	if ours, err := Ours(dir, "report.none"); err != nil || !ours {
		t.Errorf("a missing file: %v, %v", ours, err)
	}
}
