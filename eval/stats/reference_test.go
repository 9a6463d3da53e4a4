package stats_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	. "scalewm/eval/stats"
	"slices"
	"strings"
	"testing"
)

// Tolerances of the comparisons: relative for values above 1, absolute below.
const (
	tolValue    = 1e-10
	tolP        = 1e-9
	tolSpectrum = 1e-8
)

// num is a number of a reference file; null means NaN.
type num float64

func (v *num) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*v = num(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(v))
}

func plain(x []num) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func plainRows(x [][]num) [][]float64 {
	out := make([][]float64, len(x))
	for i, v := range x {
		out[i] = plain(v)
	}
	return out
}

// reference is the content of stats/reference.json. Other keys are ignored.
type reference struct {
	Paired       map[string]map[string]json.RawMessage `json:"wilcoxon_and_t"`
	Ranks        map[string]rankCase                   `json:"rank_correlation"`
	Bootstrap    *bootstrapCase
	McNemar      []mcnemarCase
	Wilson       []wilsonCase
	Multiplicity *multiplicityCase
	Embedding    *embeddingCase `json:"embedding_analyses"`
	Wide         *spectrumCase  `json:"wide_pca"`
	Health       *healthCase    `json:"latent_health"`
	RankMetrics  *rankingCase   `json:"rank_metrics"`
}

// TestReference compares with every folder stats* below testdata/reference (computed
// with SciPy by testdata/stats.py) and below SCALEWM_REFERENCE_DIR.
func TestReference(t *testing.T) {
	dirs := []string{"testdata/reference"}
	if d := os.Getenv("SCALEWM_REFERENCE_DIR"); d != "" {
		dirs = append(dirs, d)
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "stats") {
				t.Run(e.Name(), func(t *testing.T) { runReference(t, filepath.Join(dir, e.Name(), "reference.json")) })
			}
		}
	}
}

func runReference(t *testing.T, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ref reference
	if err := json.Unmarshal(b, &ref); err != nil {
		t.Fatal(err)
	}
	judged := 0
	part := func(name string, present bool, f func(t *testing.T)) {
		if present {
			judged++
			t.Run(name, f)
		}
	}
	part("wilcoxon_and_t", ref.Paired != nil, func(t *testing.T) {
		for name, c := range ref.Paired {
			t.Run(name, func(t *testing.T) { pairedCase(t, c) })
		}
	})
	part("rank_correlation", ref.Ranks != nil, func(t *testing.T) {
		for name, c := range ref.Ranks {
			t.Run(name, func(t *testing.T) { c.judge(t) })
		}
	})
	part("InnerBootstrap", ref.Bootstrap != nil, func(t *testing.T) { ref.Bootstrap.judge(t) })
	part("mcnemar", ref.McNemar != nil, func(t *testing.T) { judgeMcNemar(t, ref.McNemar) })
	part("wilson", ref.Wilson != nil, func(t *testing.T) { judgeWilson(t, ref.Wilson) })
	part("multiplicity", ref.Multiplicity != nil, func(t *testing.T) { ref.Multiplicity.judge(t) })
	part("embedding_analyses", ref.Embedding != nil, func(t *testing.T) { ref.Embedding.judge(t) })
	part("wide_pca", ref.Wide != nil, func(t *testing.T) { ref.Wide.judge(t) })
	part("latent_health", ref.Health != nil && ref.Embedding != nil, func(t *testing.T) { ref.Health.judge(t, ref.Embedding.Z) })
	part("rank_metrics", ref.RankMetrics != nil, func(t *testing.T) { ref.RankMetrics.judge(t) })
	if judged == 0 {
		t.Error("the file holds none of the family's parts")
	}
}

// near compares with a tolerance that is relative above 1. If want is NaN, any number
// that is not finite is accepted.
func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.IsNaN(want) {
		if !math.IsNaN(got) && !math.IsInf(got, 0) {
			t.Errorf("%s = %v, want none", what, got)
		}
		return
	}
	if !(math.Abs(got-want) <= tol*max(1, math.Abs(want))) {
		t.Errorf("%s = %.15g, want %.15g", what, got, want)
	}
}

func nearAll(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		near(t, fmt.Sprintf("%s[%d]", what, i), got[i], want[i], tol)
	}
}

// field reads one key of a case. Absent keys are not compared.
func field[T any](t *testing.T, c map[string]json.RawMessage, key string) (v T, ok bool) {
	t.Helper()
	raw, ok := c[key]
	if ok {
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	return v, ok
}

func number(t *testing.T, c map[string]json.RawMessage, key string, got, tol float64) {
	t.Helper()
	if want, ok := field[num](t, c, key); ok {
		near(t, key, got, float64(want), tol)
	}
}

func pairedCase(t *testing.T, c map[string]json.RawMessage) {
	listed, ok := field[[]num](t, c, "difference_a_minus_b_rounded")
	if !ok {
		a, _ := field[[]num](t, c, "a")
		b, _ := field[[]num](t, c, "b")
		for i := range a {
			listed = append(listed, num(math.Round(float64(a[i]-b[i])*1e9)/1e9))
		}
	}
	d := plain(listed)
	if want, ok := field[struct{ P num }](t, c, "wilcox/exact/two-sided"); ok && !tiesOrZeros(d) { // where SciPy's exact law is the right one
		near(t, "wilcox/exact/two-sided p", SignedRankExact(d), float64(want.P), tolP)
	}
	number(t, c, "signed_rank_enumerated_two_sided_zeros_dropped", SignedRankExact(d), tolP)
	number(t, c, "signflip_sum_exact_two_sided", signFlipSums(d), tolP)
}

func tiesOrZeros(d []float64) bool {
	size := make([]float64, len(d))
	for i, v := range d {
		size[i] = math.Abs(v)
	}
	slices.Sort(size)
	return len(slices.Compact(size)) != len(d) || slices.Contains(d, 0)
}

type coefficient struct{ Value num }

func (c *coefficient) judge(t *testing.T, what string, got float64) {
	t.Helper()
	if c != nil {
		near(t, what, got, float64(c.Value), tolValue)
	}
}

type rankCase struct {
	X, Y              []num
	RanksX            []num `json:"ranks_x"`
	Pearson, Spearman *coefficient
	TauB              *coefficient `json:"kendall_tau_b"`
}

func (c *rankCase) judge(t *testing.T) {
	x, y := plain(c.X), plain(c.Y)
	if c.RanksX != nil {
		nearAll(t, "ranks_x", Ranks(x), plain(c.RanksX), 0)
	}
	c.Pearson.judge(t, "pearson", Pearson(x, y))
	c.Spearman.judge(t, "spearman", Spearman(x, y))
	c.TauB.judge(t, "kendall_tau_b", KendallB(x, y))
}
