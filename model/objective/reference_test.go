package objective

import (
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"scalewm/dataset/hdf5/hdf5test"
	"scalewm/model/device"
	"scalewm/model/device/ref"
	"scalewm/model/nn"
)

// TestReference compares the losses with values and gradients from PyTorch, for the
// cases in testdata/reference (written by testdata/losses.py) and those in
// SCALEWM_REFERENCE_DIR.
func TestReference(t *testing.T) {
	for _, path := range referenceCases(t, "losses") {
		t.Run(filepath.Base(path), func(t *testing.T) { checkLosses(t, filepath.Join(path, "reference.h5")) })
	}
}

func referenceCases(t *testing.T, family string) []string {
	t.Helper()
	var paths []string
	for _, dir := range []string{"testdata/reference", os.Getenv("SCALEWM_REFERENCE_DIR")} {
		if dir == "" {
			continue
		}
		found, err := filepath.Glob(filepath.Join(dir, family+"*"))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// lossCase is a group of a file, whose arrays have one size.
type lossCase struct {
	*testing.T
	bench
	tree  *hdf5test.Tree
	group string
	b, t  int
	float float64 // tolerance of gradients: 1e-9, or 1e-6 where they are stored as float32
}

func checkLosses(t *testing.T, path string) {
	tree := hdf5test.Open(t, path)
	groups := map[string]bool{}
	for _, n := range tree.Names() {
		g, rest, _ := strings.Cut(n, "/")
		if rest == "z" {
			groups[g] = true
		}
	}
	if len(groups) == 0 {
		t.Fatal("no group holds z")
	}
	for g := range groups {
		t.Run(g, func(t *testing.T) {
			b := bench{dev: ref.New()}
			b.p = &nn.Pass{Dev: b.dev, Arena: device.NewArena(b.dev), Train: true}
			c := &lossCase{T: t, bench: b, tree: tree, group: g}
			_, shape := c.read("z")
			c.b, c.t = shape[0], shape[1]
			c.float = 1e-9
			if c.b*c.t > 256 {
				c.float = 1e-6 // "large groups hold gradients as float32"
			}
			for _, name := range c.cases("sigreg") {
				t.Run("sigreg/"+name, func(t *testing.T) { c.with(t).sigreg(name) })
			}
			for _, name := range c.cases("scale") {
				t.Run("scale/"+name, func(t *testing.T) { c.with(t).scale(name) })
			}
			for _, name := range c.cases("aux") {
				t.Run("aux/"+name, func(t *testing.T) { c.with(t).auxiliary(name) })
			}
		})
	}
}

func (c *lossCase) with(t *testing.T) *lossCase { d := *c; d.T = t; return &d }

func (c *lossCase) read(name string) ([]float64, []int) {
	c.Helper()
	v, shape, err := c.tree.Read(c.group + "/" + name)
	if err != nil {
		c.Fatal(err)
	}
	return v, shape
}

func (c *lossCase) cases(kind string) []string {
	set := map[string]bool{}
	for _, n := range c.tree.Names() {
		if rest, ok := strings.CutPrefix(n, c.group+"/"+kind+"/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			set[name] = true
		}
	}
	var names []string
	for n := range set {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// rows uploads an array, with its last axis as columns.
func (c *lossCase) rows(v []float64, cols int) device.Mat {
	m := device.NewMat(c.dev, len(v)/cols, cols)
	c.dev.Upload64(m, v)
	return m
}

func mapped(v []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = f(v[i])
	}
	return out
}

// duplicate returns x[2*floor(b/2)] for clip-major data: each clip of even index twice.
func (c *lossCase) duplicate(v []float64) []float64 {
	out, clip := make([]float64, len(v)), len(v)/c.b
	for b := range c.b {
		copy(out[b*clip:(b+1)*clip], v[2*(b/2)*clip:])
	}
	return out
}

// z returns a variant of the group's latents and their width
// (docs/sources.md#loss-cases).
func (c *lossCase) z(name string) ([]float64, int) {
	z, shape := c.read("z")
	d := shape[2]
	switch name {
	case "plain":
	case "times3":
		z = mapped(z, func(v float64) float64 { return 3*v + 1 })
	case "zero":
		z = make([]float64, len(z))
	case "tiny":
		z = mapped(z, func(v float64) float64 { return 1e-5 * v })
	case "duplicated_rows":
		z = c.duplicate(z)
	case "all_rows_equal":
		first := z[:d]
		z = make([]float64, len(z))
		for i := range z {
			z[i] = first[i%d]
		}
	default:
		c.Fatalf("unknown variant %q of z", name)
	}
	return z, d
}

func (c *lossCase) q(name string, z []float64, d int) ([]float64, int) {
	q, shape := c.read("q")
	dq := shape[2]
	switch name {
	case "plain":
	case "constant":
		q = mapped(q, func(float64) float64 { return .7 })
	case "duplicated_rows":
		q = c.duplicate(q)
	case "linear_in_z":
		return mapped(z, func(v float64) float64 { return .5 * v }), d
	case "opposite_sign":
		return mapped(z, func(v float64) float64 { return -2 * v }), d
	case "nearly_constant":
		q = mapped(q, func(v float64) float64 { return .7 + 1e-4*v })
	case "near_guard":
		q = mapped(q, func(v float64) float64 { return .7 + 5e-3*v })
	default:
		c.Fatalf("unknown variant %q of q", name)
	}
	return q, dq
}

func (c *lossCase) sigreg(name string) {
	z, d := c.z(name)
	raw, shape := c.read("directions_raw")
	loss, g := device.NewMat(c.dev, 1, 1), device.NewMat(c.dev, c.b*c.t, d)
	SIGReg(c.p, loss, g, c.rows(z, d), c.rows(raw, shape[1]), c.t, 1)
	c.value("sigreg/"+name+"/value", c.values(loss)[0])
	c.gradient("sigreg/"+name+"/grad_z", c.values(g))
}

func (c *lossCase) scale(name string) {
	variant, single := strings.CutSuffix(name, "__single_episode")
	zname, qname, ok := strings.Cut(strings.TrimPrefix(variant, "z_"), "__q_")
	if !ok {
		c.Fatalf("a case named %q", name)
	}
	z, d := c.z(zname)
	q, dq := c.q(qname, z, d)
	from := "pairs"
	if single {
		from = "pairs_single_episode"
	}
	pv, _ := c.read(from)
	idx := make([]int32, len(pv))
	for i, v := range pv {
		idx[i] = int32(v)
	}
	for form, f := range map[string]device.CorrelationForm{"authors": device.Authors, "paper": device.Paper} {
		result, g := device.NewMat(c.dev, 1, 2), device.NewMat(c.dev, c.b*c.t, d)
		Correlation(c.p, result, g, c.rows(z, d), c.rows(q, dq), device.NewInts(c.dev, idx), f, 1)
		base := "scale/" + name + "/" + form + "/"
		skipped, _ := c.read(base + "skipped")
		got := c.values(result)
		if got[1] != skipped[0] {
			c.Errorf("%s: skipped %g, want %g", form, got[1], skipped[0])
		}
		if skipped[0] != 0 {
			for _, v := range append(c.values(g), got[0]) {
				if v != 0 {
					c.Fatalf("%s: skipped but not exactly zero", form)
				}
			}
			continue
		}
		c.value(base+"value", got[0])
		c.gradient(base+"grad_z", c.values(g))
	}
}

func (c *lossCase) auxiliary(name string) {
	variant, ok := map[string][2]string{"plain": {"plain", "plain"}, "q_constant": {"plain", "constant"},
		"z_zero": {"zero", "plain"}, "duplicated_rows": {"duplicated_rows", "duplicated_rows"}}[name]
	if !ok {
		c.Fatalf("unknown case %q of aux", name)
	}
	z, d := c.z(variant[0])
	q, dq := c.q(variant[1], z, d)
	var s nn.Set
	hidden, _ := c.read("aux_head/net.0.bias")
	a := NewAux(&s, d, len(hidden), dq)
	s.Alloc(c.dev, true)
	for _, p := range s.Params {
		v, _ := c.read("aux_head/" + strings.TrimPrefix(p.Name, AuxPrefix))
		c.dev.Upload64(p.Value, v)
	}
	loss, g := device.NewMat(c.dev, 1, 1), device.NewMat(c.dev, c.b*c.t, d)
	a.Loss(c.p, loss, g, c.rows(z, d), c.rows(q, dq), 1)
	c.value("aux/"+name+"/value", c.values(loss)[0])
	c.gradient("aux/"+name+"/grad_z", c.values(g))
	for _, p := range s.Params {
		c.gradient("aux/"+name+"/grad_head/"+strings.TrimPrefix(p.Name, AuxPrefix), c.values(p.Grad))
	}
}

// value compares within 1e-10 relative, plus the rounding of 1 - correlation.
func (c *lossCase) value(name string, got float64) {
	c.Helper()
	want, _ := c.read(name)
	if math.Abs(got-want[0]) > 1e-10*math.Abs(want[0])+1e-14 {
		c.Errorf("%s: %.15g, want %.15g", name, got, want[0])
	}
}

// gradient compares within 1e-9 in relative L2 norm, or 1e-6 where float32 is stored.
func (c *lossCase) gradient(name string, got []float64) {
	c.Helper()
	want, _ := c.read(name)
	var diff, norm float64
	for i := range want {
		diff += (got[i] - want[i]) * (got[i] - want[i])
		norm += want[i] * want[i]
	}
	if math.Sqrt(diff) > c.float*math.Sqrt(norm)+1e-15 {
		c.Errorf("%s: off by %g of %g", name, math.Sqrt(diff), math.Sqrt(norm))
	}
}
