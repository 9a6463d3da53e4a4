package plan_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/hdf5"
	"scalewm/eval/plan"
	"scalewm/model/device"
)

// TestReference repeats recorded plans of the original solvers from their own
// noise: ours (testdata/planners.py made them) and those of SCALEWM_REFERENCE_DIR.
func TestReference(t *testing.T) {
	for _, dir := range []string{"testdata/reference", os.Getenv("SCALEWM_REFERENCE_DIR")} {
		cases, err := filepath.Glob(filepath.Join(dir, "planners*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if dir != "" {
				t.Run(filepath.Base(c), func(t *testing.T) { referencePlans(t, filepath.Join(c, "reference.h5")) })
			}
		}
	}
}

func referencePlans(t *testing.T, path string) {
	f, err := hdf5.OpenTree(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runs := 0
	for _, name := range groupsOf(f, "") {
		_, kind, err := f.Attr(name, "kind")
		if err != nil {
			continue // groups without a kind are not runs
		}
		runs++
		t.Run(name, func(t *testing.T) {
			if kind != "cem" {
				t.Skipf("planners: %s has no code yet", kind)
			}
			r := readRun(t, f, name)
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
}

// groupsOf lists the groups right below prefix.
func groupsOf(f *hdf5.Tree, prefix string) []string {
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
func plansOf(f *hdf5.Tree, run string) []string {
	var out []string
	for i := 0; ; i++ {
		p := fmt.Sprintf("%s/plan%d", run, i)
		if !f.Has(p + "/target") {
			return out
		}
		out = append(out, p)
	}
}

// array is a recorded array and its shape.
type array struct {
	v     []float64
	shape []int
}

// at reads the array broadcast to more axes by its last ones, as NumPy does.
func (a array) at(index ...int) float64 {
	i := 0
	for axis, n := range a.shape {
		k := index[len(index)-len(a.shape)+axis]
		if n == 1 {
			k = 0
		}
		i = i*n + k
	}
	return a.v[i]
}

// run is a recorded configuration and its cost.
type run struct {
	f       *hdf5.Tree
	cem     plan.CEM
	e, h, d int
	w, freq array
	amp     float64
}

func read(t *testing.T, f *hdf5.Tree, name string) array {
	t.Helper()
	v, shape, err := f.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return array{v, shape}
}

func readRun(t *testing.T, f *hdf5.Tree, name string) run {
	number := func(object, attr string, def float64) float64 {
		v, _, err := f.Attr(object, attr)
		if err != nil {
			if math.IsNaN(def) {
				t.Fatal(err)
			}
			return def
		}
		return v
	}
	need := math.NaN()
	return run{f: f,
		cem: plan.CEM{Candidates: int(number(name, "samples", need)), Iterations: int(number(name, "iterations", need)),
			Elites: int(number(name, "elites", need)), VarScale: number(name, "var_scale", 1)},
		e: int(number(name, "environments", need)), h: int(number(name, "horizon", need)),
		d: int(number(name, "action_dim", need) * number(name, "action_block", need)),
		w: read(t, f, name+"/cost/w"), freq: read(t, f, name+"/cost/freq"), amp: number(name+"/cost", "amp", need)}
}

// recorded is the cost and the noise of one plan.
type recorded struct {
	run
	dev           device.Device
	target, phase array
	noise         array
}

// Costs implements plan.Cost: float64, rounded once to float32, of candidates as float32.
func (r *recorded) Costs(dst, candidates device.Mat) error {
	x := make([]float64, candidates.Len())
	r.dev.Download64(x, candidates)
	out := make([]float64, dst.Len())
	for i := range out {
		out[i] = r.cost(i/dst.Cols, x[i*candidates.Cols:(i+1)*candidates.Cols])
	}
	r.dev.Upload64(dst, out)
	return nil
}

func (r *recorded) cost(e int, x []float64) float64 {
	sum := 0.0
	for h := range r.h {
		line := 0.0
		for d := range r.d {
			c := float64(float32(x[h*r.d+d]))
			diff := c - r.target.at(e, h, d)
			sum += r.w.at(e, h, d)*diff*diff + r.amp*(1-math.Cos(r.freq.at(e, h, d)*c+r.phase.at(e, h)))
			line += c
		}
		sum += 0.1 * line * line
	}
	return float64(float32(sum))
}

// Normal implements plan.Noise.
func (r *recorded) Normal(dst device.Mat, iteration int) {
	r.dev.Upload64(dst, r.noise.v[iteration*dst.Len():(iteration+1)*dst.Len()])
}

// check repeats one plan: equal elites, mean and deviation after each iteration,
// and the final actions within 1e-5 (reference-cases B).
func (r run) check(t *testing.T, d device.Device, name string) {
	rec := &recorded{run: r, dev: d, target: read(t, r.f, name+"/target"), phase: read(t, r.f, name+"/phase"), noise: read(t, r.f, name+"/noise")}
	index, means, stds := read(t, r.f, name+"/elite_index"), read(t, r.f, name+"/mean"), read(t, r.f, name+"/std")
	width := r.h * r.d
	p := plan.Problem{Episodes: r.e, Horizon: r.h, Width: width, Cost: rec, Noise: rec}
	if r.f.Has(name + "/init_action") {
		p.Init = device.NewMat(d, r.e, width)
		init := read(t, r.f, name+"/init_action")
		for e, per := 0, len(init.v)/r.e; e < r.e; e++ { // a shorter one is completed with zeros
			d.Upload64(p.Init.RowRange(e, 1).Columns(0, per), init.v[e*per:(e+1)*per])
		}
	}
	p.Trace = func(s plan.Step) {
		it, mean, std, elites := s.Iteration, s.Mean, s.Std, s.Elites
		n := r.e * r.cem.Elites
		got, want := make([]int32, n), make([]int32, n)
		d.DownloadInts(got, elites)
		for i := range want {
			want[i] = int32(index.v[it*n+i])
		}
		for e := range r.e { // sets: the original's order of ties is its own
			a, b := got[e*r.cem.Elites:(e+1)*r.cem.Elites], want[e*r.cem.Elites:(e+1)*r.cem.Elites]
			slices.Sort(a)
			slices.Sort(b)
			if !slices.Equal(a, b) {
				t.Errorf("iteration %d, episode %d: elites %v, want %v", it, e, a, b)
			}
		}
		near(t, fmt.Sprintf("iteration %d: mean", it), values(d, mean), means.v[it*r.e*width:(it+1)*r.e*width], 1e-5)
		near(t, fmt.Sprintf("iteration %d: std", it), values(d, std), stds.v[it*r.e*width:(it+1)*r.e*width], 1e-5)
	}
	found, err := r.cem.Solve(context.Background(), d, p)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "final actions", values(d, found.Actions), read(t, r.f, name+"/final_actions").v, 1e-5)
	near(t, "reported cost", found.Cost, read(t, r.f, name+"/reported_cost").v, 1e-4)
}

func values(d device.Device, m device.Mat) []float64 {
	x := make([]float64, m.Len())
	d.Download64(x, m)
	return x
}
