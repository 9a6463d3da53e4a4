package plan_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/hdf5/hdf5test"
	"scalewm/eval/plan"
	"scalewm/model/device"
)

// committed is the folder that testdata/planners.py writes.
const committed = "testdata/reference"

// TestReference repeats recorded plans of stable-worldmodel's solvers with their
// noise: those recorded by testdata/planners.py and those in SCALEWM_REFERENCE_DIR.
func TestReference(t *testing.T) { eachPlanners(t, devices) }

func eachPlanners(t *testing.T, devices func(*testing.T) map[string]device.Device) {
	for _, dir := range []string{committed, os.Getenv("SCALEWM_REFERENCE_DIR")} {
		cases, err := filepath.Glob(filepath.Join(dir, "planners*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if dir != "" {
				t.Run(filepath.Base(c), func(t *testing.T) { referencePlans(t, filepath.Join(c, "reference.h5"), dir == committed, devices) })
			}
		}
	}
}

func referencePlans(t *testing.T, path string, ours bool, devices func(*testing.T) map[string]device.Device) {
	f := hdf5test.Open(t, path)
	runs := 0
	for _, name := range groupsOf(f, "") {
		_, kind, err := f.Attr(name, "kind")
		if err != nil {
			continue // groups without a kind are not runs
		}
		runs++
		t.Run(name, func(t *testing.T) {
			r := readRun(t, f, name, kind, ours)
			if r.solver == nil {
				t.Skipf("planners: %s has no code yet", kind)
			}
			for i, plan := range plansOf(f, name) {
				for engine, d := range devices(t) {
					t.Run(fmt.Sprintf("plan%d/%s", i, engine), func(t *testing.T) { r.check(t, d, plan) })
				}
			}
		})
	}
	if runs == 0 {
		t.Fatal("no group has the attribute kind")
	}
	t.Run("filters", func(t *testing.T) { referenceFilters(t, f) })
}

// referenceFilters compares the spectrum of the taps with recorded factors, if a file
// has them.
func referenceFilters(t *testing.T, f *hdf5test.Tree) {
	for _, name := range f.Names() {
		var h int
		var beta float64
		label, ok := strings.CutPrefix(name, "icem_filter/")
		if n, _ := fmt.Sscanf(label, "H%d_beta%g", &h, &beta); !ok || n != 2 {
			continue
		}
		want, taps := read(t, f, name).v, plan.Taps(h, beta)
		for k := range min(len(want), h/2+1) {
			got := 0.0
			for i, tap := range taps {
				got += tap * math.Cos(2*math.Pi*float64(i*k)/float64(h))
			}
			if math.Abs(got-want[k]) > 1e-6*math.Abs(want[k]) {
				t.Errorf("%s: factor %d is %g, want %g", name, k, got, want[k])
			}
		}
	}
}

// groupsOf lists the groups directly below prefix.
func groupsOf(f *hdf5test.Tree, prefix string) []string {
	var out []string
	for _, n := range f.Names() {
		rest, ok := strings.CutPrefix(n, prefix)
		g, _, deeper := strings.Cut(rest, "/")
		if ok && deeper && !slices.Contains(out, prefix+g) {
			out = append(out, prefix+g)
		}
	}
	return out
}

// plansOf lists plan0, plan1, ... of a run in order.
func plansOf(f *hdf5test.Tree, run string) []string {
	var out []string
	for i := 0; ; i++ {
		p := fmt.Sprintf("%s/plan%d", run, i)
		if !f.Has(p + "/target") {
			return out
		}
		out = append(out, p)
	}
}
