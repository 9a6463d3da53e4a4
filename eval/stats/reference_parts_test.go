package stats_test

import (
	"fmt"
	"math"
	. "scalewm/eval/stats"
	"slices"
	"strconv"
	"testing"

	"scalewm/eval/geometry"
	"scalewm/model/objective"
)

type bootstrapCase struct {
	A, B          [][]num
	ResampleIndex [][][]int `json:"resample_index"`
	Observed      *num
	First         []num `json:"replicates_first_20"`
	Sum           *num  `json:"replicate_sum"`
	SE            *num  `json:"se_ddof1"`
	Percentile95  []num `json:"percentile_95_linear"`
	Percentile90  []num `json:"percentile_90_linear"`
}

func (c *bootstrapCase) judge(t *testing.T) {
	d := plainRows(c.A)
	for s := range d {
		for e := range d[s] {
			d[s][e] -= float64(c.B[s][e])
		}
	}
	means := make([]float64, len(c.ResampleIndex))
	var sum float64
	for i, index := range c.ResampleIndex {
		means[i] = ResampledMean(d, func(s, e, _ int) int { return index[s][e] })
		sum += means[i]
	}
	given(t, "observed", ResampledMean(d, func(_, e, _ int) int { return e }), c.Observed)
	nearAll(t, "replicates_first_20", means[:len(c.First)], plain(c.First), tolValue)
	given(t, "replicate_sum", sum, c.Sum)
	_, sd := MeanSD(means)
	given(t, "se_ddof1", sd, c.SE)
	slices.Sort(means)
	limits := func(what string, tail float64, want []num) {
		if want != nil {
			nearAll(t, what, []float64{Quantile(means, tail), Quantile(means, 1-tail)}, plain(want), tolValue)
		}
	}
	limits("percentile_95_linear", 0.025, c.Percentile95)
	limits("percentile_90_linear", 0.05, c.Percentile90)
}

// given compares a number with that of the file, if the file has it.
func given(t *testing.T, what string, got float64, want *num) {
	t.Helper()
	if want != nil {
		near(t, what, got, float64(*want), tolValue)
	}
}

type mcnemarCase struct {
	B, C                   int
	Exact, MidP, BinomTest *num
}

func judgeMcNemar(t *testing.T, cases []mcnemarCase) {
	for _, c := range cases {
		exact, mid := McNemar(c.B, c.C)
		for what, v := range map[string]struct {
			got  float64
			want *num
		}{"exact": {exact, c.Exact}, "midp": {mid, c.MidP}, "binomtest": {exact, c.BinomTest}} {
			if v.want != nil {
				near(t, fmt.Sprintf("%s (%d, %d)", what, c.B, c.C), v.got, float64(*v.want), tolP)
			}
		}
	}
}

type wilsonCase struct {
	K, N int
	CI95 []num
}

func judgeWilson(t *testing.T, cases []wilsonCase) {
	for _, c := range cases {
		if c.CI95 != nil {
			iv := Wilson(float64(c.K), float64(c.N), 0.95)
			nearAll(t, fmt.Sprintf("wilson of %d/%d", c.K, c.N), []float64{iv.Lo, iv.Hi}, plain(c.CI95), tolValue)
		}
	}
}

type multiplicityCase struct {
	P, Holm           []num
	BenjaminiHochberg []num `json:"benjamini_hochberg"`
}

func (c *multiplicityCase) judge(t *testing.T) {
	nearAll(t, "holm", Holm(plain(c.P)), plain(c.Holm), tolP)
	nearAll(t, "benjamini_hochberg", BenjaminiHochberg(plain(c.P)), plain(c.BenjaminiHochberg), tolP)
}

type spectrumCase struct {
	Z           [][]num
	Kept        int   `json:"kept_components"`
	Eigenvalues []num `json:"eigenvalues_ddof1"`
}

func (c *spectrumCase) judge(t *testing.T) geometry.Components {
	p, err := geometry.Analyse(samples(c.Z))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Eigenvalues) != c.Kept {
		t.Errorf("%d components kept, want %d", len(p.Eigenvalues), c.Kept)
	}
	nearAll(t, "eigenvalues_ddof1", p.Eigenvalues, plain(c.Eigenvalues), tolSpectrum)
	return p
}

type embeddingCase struct {
	spectrumCase
	Q             [][]num
	Shuffle       []int
	Spectrum      []num            `json:"normalised_spectrum"`
	Participation *num             `json:"participation_ratio"`
	EffectiveRank *num             `json:"effective_rank_exp_entropy"`
	Ridge         map[string][]num `json:"ridge_r2_per_dim_topk"`
	Pearson       *num             `json:"distance_pearson"`
	Spearman      *num             `json:"distance_spearman"`
	Pairs         *num
}

func (c *embeddingCase) judge(t *testing.T) {
	p := c.spectrumCase.judge(t)
	nearAll(t, "normalised_spectrum", p.Spectrum(), plain(c.Spectrum), tolSpectrum)
	if c.Participation != nil {
		near(t, "participation_ratio", p.ParticipationRatio(), float64(*c.Participation), tolSpectrum)
	}
	if c.EffectiveRank != nil {
		near(t, "effective_rank_exp_entropy", objective.EffectiveRank(p.Eigenvalues), float64(*c.EffectiveRank), tolSpectrum)
	}
	q := samples(c.Q)
	for text, want := range c.Ridge {
		k, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Linear(q, c.Shuffle, k)
		if err != nil {
			t.Fatal(err)
		}
		nearAll(t, "ridge R2 of the top "+text, got, plain(want), tolSpectrum)
	}
	c.distances(t, q)
}

// distances accepts both readings of q, because the format does not say whether a q
// that is not standardized must be standardized first, as the authors do.
func (c *embeddingCase) distances(t *testing.T, q geometry.Samples[float64]) {
	if c.Pearson == nil || c.Spearman == nil {
		return
	}
	squared := func(s geometry.Samples[float64]) []float64 {
		return geometry.SquaredDistances(s, geometry.Components{})
	}
	dz, dq := squared(samples(c.Z)), squared(geometry.Standardised(q))
	if raw := squared(q); math.Abs(Pearson(dz, raw)-float64(*c.Pearson)) < math.Abs(Pearson(dz, dq)-float64(*c.Pearson)) {
		dq = raw
	}
	given(t, "distance_pearson", Pearson(dz, dq), c.Pearson)
	given(t, "distance_spearman", Spearman(dz, dq), c.Spearman)
	given(t, "pairs", float64(len(dz)), c.Pairs)
}

func samples(rows [][]num) geometry.Samples[float64] {
	s := geometry.Samples[float64]{N: len(rows), D: len(rows[0])}
	for _, row := range rows {
		s.X = append(s.X, plain(row)...)
	}
	return s
}

type healthCase struct {
	EffectiveRank num `json:"eff_rank"`
	NormMean      num `json:"z_norm_mean"`
	NormSD        num `json:"z_norm_std_ddof1"`
}

func (c *healthCase) judge(t *testing.T, z [][]num) {
	var flat []float64
	for _, row := range plainRows(z) {
		flat = append(flat, row...)
	}
	h := objective.Measure(flat, len(z[0]))
	near(t, "eff_rank", h.EffectiveRank, float64(c.EffectiveRank), tolSpectrum)
	near(t, "z_norm_mean", h.NormMean, float64(c.NormMean), tolValue)
	near(t, "z_norm_std_ddof1", h.NormStd, float64(c.NormSD), tolValue)
}

type rankingCase struct {
	A, B                 []num
	Elites               int `json:"k_elite"`
	Tau, Regret, Overlap num
	EliteRegret          num `json:"elite_regret"`
	ValueRegret          num `json:"value_regret"`
}

func (c *rankingCase) judge(t *testing.T) {
	m := RankMetrics(plain(c.A), plain(c.B), c.Elites)
	near(t, "tau", m.Tau, float64(c.Tau), tolValue)
	near(t, "regret", m.Regret, float64(c.Regret), tolValue)
	near(t, "overlap", m.Overlap, float64(c.Overlap), tolValue)
	near(t, "elite_regret", m.EliteRegret, float64(c.EliteRegret), tolValue)
	near(t, "value_regret", m.ValueRegret, float64(c.ValueRegret), tolValue)
}
