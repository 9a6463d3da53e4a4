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

// TestEveryKernelCompiles checks that the kernels in the PTX of a target, which `make
// cuda` wrote, are exactly those that the engine launches on it, once each. It also checks
// that none keeps an array in local memory, which happens when a loop over registers is
// not unrolled.
func TestEveryKernelCompiles(t *testing.T) {
	const dir = "../gpu/ptx"
	entry := regexp.MustCompile(`\.visible \.entry (\w+)\(`)
	local := regexp.MustCompile(`(?s)\.visible \.entry (\w+)\([^{]*\{[^}]*\.local `)
	for _, target := range targets {
		files, err := filepath.Glob(filepath.Join(dir, "*.sm_"+target+".ptx"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no PTX for sm_%s: %v (hint: make cuda)", target, err)
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
				if m[1] != "sigreg" { // its sincosf needs local memory for arguments above 100,000
					t.Errorf("sm_%s: %s keeps an array in local memory (hint: unroll the loop over it)", target, m[1])
				}
			}
		}
		want := slices.Sorted(slices.Values(cuda.Kernels("sm_" + target)))
		if slices.Sort(found); !slices.Equal(found, want) {
			t.Errorf("kernels for sm_%s:\n%v\nlaunched:\n%v", target, found, want)
		}
	}
}

// TestWarpgroupsOverlap checks that wgmma runs asynchronously. If other code touches
// its registers too early, the assembler serializes the instructions and warns; the
// warning is an error.
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
