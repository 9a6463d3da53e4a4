//go:build gpu

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"scalewm/model/device/cuda"
	"scalewm/model/device/cuda/kernels"
)

// TestEveryKernelCompiles: each kernel that the engine launches on a target is in
// its PTX, once, and none is there that nobody launches.
func TestEveryKernelCompiles(t *testing.T) {
	dir := t.TempDir()
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile(`\.visible \.entry (\w+)\(`)
	local := regexp.MustCompile(`(?s)\.visible \.entry (\w+)\([^{]*\{[^}]*\.local `)
	for _, target := range targets {
		files, err := filepath.Glob(filepath.Join(dir, "*.sm_"+target+".ptx"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no PTX for sm_%s (%v)", target, err)
		}
		var found []string
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), ".target sm_"+target) {
				t.Errorf("%s is for another target", filepath.Base(f))
			}
			for _, m := range entry.FindAllStringSubmatch(string(text), -1) {
				found = append(found, m[1])
			}
			for _, m := range local.FindAllStringSubmatch(string(text), -1) {
				if m[1] != "sigreg" { // whose sincosf has room for arguments above 100,000
					t.Errorf("sm_%s: %s keeps an array in local memory: a loop over it is not unrolled", target, m[1])
				}
			}
		}
		want := slices.Sorted(slices.Values(cuda.Kernels("sm_" + target)))
		if slices.Sort(found); !slices.Equal(found, want) {
			t.Errorf("kernels for sm_%s:\n%v\nlaunched:\n%v", target, found, want)
		}
	}
}

// TestWarpgroupsOverlap: products of warpgroups run beside the code that asks for them.
// Where other code comes too near to their registers the compiler makes each wait for the
// one before, and says so: that is an error, as every warning.
func TestWarpgroupsOverlap(t *testing.T) {
	for _, source := range kernels.Sources() {
		if source.For("sm_80") {
			continue
		}
		p, err := compiled(source, "sm_90a")
		if err != nil {
			t.Error(err)
			continue
		}
		if err := p.Destroy(); err != nil {
			t.Error(err)
		}
	}
}
