package torch

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"testing"
)

// The fixture must equal what the installed PyTorch draws.
func TestPeersTorch(t *testing.T) {
	python := os.Getenv("SCALEWM_PEERS")
	if python == "" {
		t.Skip("peers: SCALEWM_PEERS names no Python with PyTorch")
	}
	fresh, err := exec.Command(python, "testdata/fixture.py").Output()
	if err != nil {
		t.Fatalf("running PyTorch: %v", err)
	}
	stored, err := os.ReadFile("testdata/draws.json")
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	for b, v := range map[*[]byte]*map[string]any{&fresh: &got, &stored: &want} {
		if err := json.Unmarshal(*b, v); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(*v, func(k string, _ any) bool { return k == "torch" }) // its version
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("the installed PyTorch draws other numbers than testdata/draws.json has")
	}
}
