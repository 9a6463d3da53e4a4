package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A rule lists the packages of this project and the libraries that the packages below `of`
// may import in addition to the standard library. The rule with the longest `of` applies.
// Entries of ours are prefixes of import paths without "scalewm/"; one that ends in "$" is
// exact. "C" is cgo.
type rule struct {
	of        string
	ours      []string
	libraries []string
}

// The table of docs/architecture.md, lowest layer first.
var layers = []rule{
	{of: "third_party"},
	{of: "mujoco", ours: []string{"mujoco", "third_party"}},
	{of: "mujoco/internal/mjc", libraries: []string{"C"}},

	{of: "envs", ours: []string{"envs", "mujoco", "third_party"}},
	{of: "envs/tworoom/disc"},
	{of: "envs/vector", ours: []string{"envs$"}},

	{of: "dataset", ours: []string{"envs$", "dataset/parallel", "dataset$", "dataset/safefile", "dataset/rng"},
		libraries: []string{"gonum.org/v1/gonum"}}, // the ridge regression of Check
	{of: "dataset/rng", ours: []string{"dataset/rng"}},
	{of: "dataset/cell", ours: []string{"dataset/safefile"}},
	{of: "dataset/parallel"},
	{of: "dataset/safefile"},
	{of: "dataset/hdf5", ours: []string{"envs$", "dataset/parallel", "dataset$", "dataset/safefile", "dataset/hdf5"},
		libraries: []string{"C", "github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "golang.org/x/sys"}},
	{of: "dataset/hdf5/hdf5test", libraries: []string{"C"}},
	{of: "dataset/remote", ours: []string{"dataset/parallel", "dataset/safefile", "dataset/remote"}, libraries: []string{"github.com/minio/minio-go/v7"}},
	{of: "dataset/collect", ours: []string{"dataset", "envs"}},
	{of: "dataset/convert", ours: []string{"envs$", "dataset$", "dataset/parallel", "dataset/safefile", "dataset/hdf5", "dataset/tensorfile"}, libraries: []string{"github.com/parquet-go/parquet-go", "github.com/klauspost/compress"}},
	{of: "dataset/export", ours: []string{"envs$", "dataset$", "dataset/parallel", "dataset/safefile", "dataset/hdf5"}, libraries: []string{"github.com/parquet-go/parquet-go", "github.com/klauspost/compress"}},
	{of: "dataset/tensorfile", ours: []string{"dataset/safefile"}},
	{of: "dataset/replay", ours: []string{"dataset", "envs"}},

	{of: "model", ours: []string{"model", "dataset$", "dataset/rng", "dataset/tensorfile"}},
	{of: "model/device", ours: []string{"model/device", "dataset/rng"}},
	{of: "model/device/ref", ours: []string{"model/device", "dataset/rng"}, libraries: []string{"gonum.org/v1/gonum"}},
	{of: "model/device/cpu", ours: []string{"model/device", "dataset/rng"}, libraries: []string{"C", "golang.org/x/sys"}},
	{of: "model/device/cuda", ours: []string{"model/device", "dataset/rng"}},
	{of: "model/device/cuda/emu", ours: []string{"model/device/cuda"}, libraries: []string{"C"}},
	{of: "model/device/cuda/roofline", ours: []string{"model/device/cuda"}},
	{of: "model/device/cuda/emu/driver", ours: []string{"model/device", "model/device/cuda", "third_party"}},
	{of: "model/device/cuda/gpu", ours: []string{"model/device"}, libraries: []string{"C", "gorgonia.org/cu"}},
	{of: "model/device/cuda/compile", ours: []string{"model/device/cuda/kernels"}, libraries: []string{"gorgonia.org/cu"}},
	{of: "model/nn", ours: []string{"model/nn", "model/device"}},
	{of: "model/amortised", ours: []string{"model$", "model/device", "model/nn", "dataset/safefile", "dataset/tensorfile"}},
	{of: "model/dinowm", ours: []string{"model$", "model/device", "model/dinov2", "model/dinowm", "model/nn", "model/weights", "dataset/rng", "dataset/tensorfile"}},
	{of: "model/dinov2", ours: []string{"model/device", "model/nn", "model/weights", "dataset/safefile", "dataset/tensorfile"}},
	{of: "model/encode", ours: []string{"envs$", "dataset$", "dataset/cell", "dataset/hdf5", "dataset/safefile", "model$", "model/weights", "dataset/tensorfile"}},
	{of: "model/features", ours: []string{"dataset/parallel", "dataset$", "dataset/cell", "dataset/safefile", "dataset/rng"}},
	{of: "model/lewm", ours: []string{"model$", "model/device", "model/nn", "model/weights", "model/lewm", "dataset/tensorfile"}},
	{of: "model/objective", ours: []string{"model$", "model/device", "model/nn", "model/objective", "dataset/rng"},
		libraries: []string{"gonum.org/v1/gonum"}}, // eigenvalues of the latents' covariance, for the metrics
	{of: "model/train", ours: []string{"envs$", "model$", "model/device", "model/nn", "model/objective", "model/train", "model/weights", "dataset$", "dataset/rng", "dataset/cell", "dataset/safefile", "dataset/tensorfile"}},
	{of: "model/train/metrics", ours: []string{"dataset/safefile"}, libraries: []string{"google.golang.org/protobuf"}},
	{of: "model/weights", ours: []string{"model/weights", "dataset/safefile", "dataset/tensorfile"}},

	{of: "eval", ours: []string{"envs", "dataset", "model", "eval"}},
	{of: "eval/external", ours: []string{"envs$", "eval$", "eval/plan", "eval/results", "model$", "model/device", "dataset$", "dataset/safefile"}},
	{of: "eval/pipeline", ours: []string{"envs", "dataset", "model", "eval"}, libraries: []string{"github.com/BurntSushi/toml"}},
	{of: "eval/submit", ours: []string{"eval/pipeline", "eval/results", "dataset/safefile"}, libraries: []string{"sigs.k8s.io/yaml"}},
	{of: "eval/presets", ours: []string{"model$"}, libraries: []string{"github.com/BurntSushi/toml"}},
	{of: "eval/protocol", ours: []string{"eval/results", "eval/success", "eval/words", "dataset/safefile"}, libraries: []string{"github.com/BurntSushi/toml"}},
	{of: "eval/success", ours: []string{"envs$", "envs/tworoom/disc"}},
	{of: "eval/results", ours: []string{"eval/presets", "eval/starts", "eval/success", "dataset/cell", "dataset/safefile", "model$", "model/train/metrics"}},
	{of: "eval/results/resultstest", ours: []string{"eval/results", "dataset/cell", "model$", "model/train/metrics"}},
	{of: "eval/starts", ours: []string{"dataset/rng"}},
	{of: "eval/clear", ours: []string{"eval/starts", "eval/success", "envs$", "envs/tworoom/disc", "dataset$", "dataset/hdf5", "dataset/rng/numpy", "dataset/safefile"}},
	{of: "eval/words", ours: []string{"eval/results", "envs$"}},
	{of: "eval/plan", ours: []string{"eval/plan", "model/device", "dataset/rng"}},
	{of: "eval/stats", ours: []string{"eval/stats"}, libraries: []string{"gonum.org/v1/gonum"}},
	{of: "eval/geometry", ours: []string{"dataset/parallel", "eval/stats"}, libraries: []string{"gonum.org/v1/gonum", "gorgonia.org/gorgonia", "gorgonia.org/tensor"}},
	{of: "eval/infer", ours: []string{"eval/clear", "eval/results", "eval/stats", "eval/words", "model$", "dataset/cell", "dataset/parallel", "dataset/safefile", "dataset/rng"}},
	{of: "eval/report", ours: []string{"dataset/safefile", "eval/infer", "eval/report/doc", "eval/results", "eval/stats", "eval/words", "envs$", "model$", "model/train/metrics"}},
	{of: "eval/report/doc"},

	{of: "cmd/scalewm", ours: []string{"envs", "dataset", "model", "eval", "mujoco", "third_party"},
		libraries: []string{"C", "github.com/cheggaaa/pb/v3", "golang.org/x/sys"}},
	{of: "cmd/libscalewm", ours: []string{"envs", "dataset", "model", "eval", "mujoco", "third_party"}, libraries: []string{"C"}},
}

// Tests may also use these libraries. Gorgonia is a reference for the gradients of model
// only.
var (
	layerOrder    = []string{"third_party", "mujoco", "envs", "dataset", "model", "eval", "cmd"}
	testLibraries = []string{"github.com/google/go-cmp", "github.com/rogpeppe/go-internal", "github.com/chromedp/chromedp", "github.com/chromedp/cdproto",
		"github.com/BurntSushi/toml", "github.com/klauspost/compress", "gonum.org/v1/gonum"}
	oracleLibraries = []string{"gorgonia.org/gorgonia", "gorgonia.org/tensor"}
)

// pkg is the output of `go list -json` for a package.
type pkg struct {
	ImportPath, Dir                    string
	Standard                           bool
	Imports, TestImports, XTestImports []string
	Module                             *struct{ Path string }
}

func listPackages(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-test", "-json=ImportPath,Dir,Standard,Imports,TestImports,XTestImports,Module", "./...")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	all := map[string]pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

func TestImportsFollowTheFloors(t *testing.T) {
	all := listPackages(t)
	for path, p := range all {
		name, ours := strings.CutPrefix(path, "scalewm/")
		if !ours || strings.Contains(name, " ") || strings.HasSuffix(name, ".test") { // "p [p.test]" are test variants
			continue
		}
		r, ok := ruleOf(name)
		if !ok {
			t.Errorf("%s is in no layer: give it a rule here and in docs/architecture.md", name)
			continue
		}
		for _, imp := range p.Imports {
			if !r.allows(imp, all) {
				t.Errorf("%s may not import %s", name, imp)
			}
		}
		for _, imp := range append(p.TestImports, p.XTestImports...) {
			if !testAllows(name, imp, all) {
				t.Errorf("tests of %s may not import %s", name, imp)
			}
		}
	}
}

// The default binary must start on a machine without a GPU, and no package may use the old
// math/rand instead of dataset/rng.
func TestImportsOfTheBinary(t *testing.T) {
	all := listPackages(t)
	seen := map[string]bool{}
	var walk func(path string)
	walk = func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		for _, imp := range all[path].Imports {
			walk(imp)
		}
	}
	walk("scalewm/cmd/scalewm")
	for path := range seen {
		if strings.HasPrefix(path, "gorgonia.org/cu") {
			t.Errorf("the binary links %s", path)
		}
	}
	for path, p := range all {
		if strings.HasPrefix(path, "scalewm/") && slices.Contains(p.Imports, "math/rand") {
			t.Errorf("%s imports math/rand: streams come from dataset/rng", path)
		}
	}
}

// ruleOf returns the rule that applies to a package.
func ruleOf(name string) (rule, bool) {
	best := -1
	for i, r := range layers {
		if below(name, r.of) && (best < 0 || len(r.of) > len(layers[best].of)) {
			best = i
		}
	}
	if best < 0 {
		return rule{}, false
	}
	return layers[best], true
}

// below reports whether path is prefix or below it.
func below(path, prefix string) bool {
	if exact, ok := strings.CutSuffix(prefix, "$"); ok {
		return path == exact
	}
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

func (r rule) allows(imp string, all map[string]pkg) bool {
	if name, ours := strings.CutPrefix(imp, "scalewm/"); ours {
		return slices.ContainsFunc(r.ours, func(p string) bool { return below(name, p) })
	}
	return all[imp].Standard || slices.ContainsFunc(r.libraries, func(l string) bool { return below(imp, l) })
}

func testAllows(name, imp string, all map[string]pkg) bool {
	other, ours := strings.CutPrefix(imp, "scalewm/")
	if ours {
		return other == name || layerOf(other) <= layerOf(name) && layerOf(other) < len(layerOrder)-1
	}
	libraries := testLibraries
	if below(name, "model") {
		libraries = append(slices.Clone(libraries), oracleLibraries...)
	}
	r, _ := ruleOf(name)
	return r.allows(imp, all) || slices.ContainsFunc(libraries, func(l string) bool { return below(imp, l) })
}

func layerOf(name string) int {
	return slices.IndexFunc(layerOrder, func(f string) bool { return below(name, f) })
}

// The rules reject forbidden imports: one example for each kind.
func TestImportsRulesBite(t *testing.T) {
	all := map[string]pkg{"fmt": {Standard: true}}
	for _, c := range []struct {
		of, imp string
		ok      bool
	}{
		{"envs/tworoom", "scalewm/envs", true},
		{"envs/tworoom", "scalewm/dataset/rng", false}, // a task is handed its stream
		{"dataset", "scalewm/envs", true},
		{"dataset", "scalewm/envs/policy", false},
		{"dataset/collect", "scalewm/envs/policy", true},
		{"model/train", "scalewm/eval/plan", false}, // upstairs
		{"model/train", "scalewm/dataset/hdf5", false},
		{"eval/plan", "scalewm/model/device/cpu", true},
		{"eval/plan", "scalewm/model/lewm", false}, // planners see a cost, never a model
		{"eval/results", "scalewm/eval/stats", false},
		{"eval/stats", "gonum.org/v1/gonum/stat", true},
		{"eval/stats", "gonum.org/v1/gonumX", false},
		{"model/nn", "gorgonia.org/gorgonia", false},
		{"model/nn", "fmt", true},
		{"envs", "C", false},
	} {
		r, ok := ruleOf(c.of)
		if !ok || r.allows(c.imp, all) != c.ok {
			t.Errorf("%s importing %s: allowed %v, want %v", c.of, c.imp, !c.ok, c.ok)
		}
	}
	for _, c := range []struct {
		of, imp string
		ok      bool
	}{
		{"model/nn", "gorgonia.org/gorgonia", true},
		{"eval/plan", "gorgonia.org/gorgonia", false},
		{"dataset", "scalewm/model", false},
		{"eval", "scalewm/envs/tworoom", true},
		{"eval", "scalewm/cmd/scalewm", false},
	} {
		if testAllows(c.of, c.imp, all) != c.ok {
			t.Errorf("tests of %s importing %s: allowed %v, want %v", c.of, c.imp, !c.ok, c.ok)
		}
	}
}
