package results

import (
	"fmt"
	"math"
	"strings"
)

// Selection has the measures by which checkpoints are ranked without a simulator
// (docs/sources.md#selection-measures). Squared distances of latents are divided by Scale.
type Selection struct {
	Clips    int              `json:"clips"`    // recorded clips whose actions the model predicted
	Episodes int              `json:"episodes"` // that the clips are from
	Frames   int              `json:"frames"`   // of the sample behind the measures of latents
	Scale    float64          `json:"scale"`    // mean squared distance of the latents of two frames
	PerBlock []SelectionBlock `json:"per_block"`
	// The measures of latents. A missing one is null, and Missing says why.
	ProbeR2       Number      `json:"probe_r2"`       // R2 of the linear probe of all components, mean over those of full q
	Alignment     Number      `json:"alignment"`      // Spearman's correlation of the distances of latents and of q
	SIGReg        Number      `json:"sigreg"`         // the loss term SIGReg with the sample as its batch
	EffectiveRank Number      `json:"effective_rank"` // participation ratio over P*D
	Missing       string      `json:"missing,omitempty"`
	PerClip       []ClipScore `json:"per_clip"`
}

// SelectionBlock has the means over clips of predictions a number of blocks ahead.
type SelectionBlock struct {
	Block
	// NextRank is the share of the other clips' frames that are nearer to the prediction
	// than the true frame is: 0 best, 1 worst.
	NextRank float64 `json:"next_rank"`
}

// ClipScore has the measures of one clip, by which checkpoints are paired. All but
// Sensitivity are means over the numbers of blocks.
type ClipScore struct {
	Episode      int     `json:"episode"`
	Error        float64 `json:"error"`
	NoChange     float64 `json:"no_change"`
	OtherActions float64 `json:"other_actions"`
	NextRank     float64 `json:"next_rank"`
	// Sensitivity is the squared distance between the predictions with the clip's actions and
	// with another clip's, 5 blocks ahead or at the end of shorter clips.
	Sensitivity float64 `json:"sensitivity"`
}

// SelectionMeasure is a measure of a Selection. The score by which it ranks checkpoints is
// the measure itself or, if a lower one is better, its negative.
type SelectionMeasure struct {
	Name  string
	Lower bool // lower is better
	// Of computes a measure of clips, for all of them or a part; nil for measures of latents.
	Of     func([]ClipScore) float64
	latent func(*Selection) Number
}

// SelectionMeasures are the measures in the order of tables.
var SelectionMeasures = []SelectionMeasure{
	{Name: "rollout_error", Lower: true, Of: clipMean(clipError)},
	{Name: "over_copy_last", Lower: true, Of: clipRatio(func(c ClipScore) float64 { return c.NoChange })},
	{Name: "over_shuffled", Lower: true, Of: clipRatio(func(c ClipScore) float64 { return c.OtherActions })},
	{Name: "next_rank", Lower: true, Of: clipMean(func(c ClipScore) float64 { return c.NextRank })},
	{Name: "action_sensitivity", Of: clipMean(func(c ClipScore) float64 { return c.Sensitivity })},
	{Name: "probe_r2", latent: func(s *Selection) Number { return s.ProbeR2 }},
	{Name: "alignment", latent: func(s *Selection) Number { return s.Alignment }},
	{Name: "sigreg", Lower: true, latent: func(s *Selection) Number { return s.SIGReg }},
	{Name: "effective_rank", latent: func(s *Selection) Number { return s.EffectiveRank }},
}

func clipError(c ClipScore) float64 { return c.Error }

// clipMean returns a function that computes the mean of a number over clips, NaN of none.
func clipMean(of func(ClipScore) float64) func([]ClipScore) float64 {
	return func(clips []ClipScore) (mean float64) {
		for _, c := range clips {
			mean += of(c)
		}
		return mean / float64(len(clips))
	}
}

// clipRatio returns a function that computes the mean error over the mean of a baseline.
func clipRatio(baseline func(ClipScore) float64) func([]ClipScore) float64 {
	return func(clips []ClipScore) float64 { return clipMean(clipError)(clips) / clipMean(baseline)(clips) }
}

// Value returns the measure of s, NaN if s is nil or lacks it.
func (m SelectionMeasure) Value(s *Selection) Number {
	switch {
	case s == nil:
		return Number(math.NaN())
	case m.Of != nil:
		return Number(m.Of(s.PerClip))
	}
	return m.latent(s)
}

// Sign is the factor from the measure to the score, which is better if higher.
func (m SelectionMeasure) Sign() float64 {
	if m.Lower {
		return -1
	}
	return 1
}

// SelectionMeasureOf returns the measure of a name.
func SelectionMeasureOf(name string) (SelectionMeasure, error) {
	var names []string
	for _, m := range SelectionMeasures {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return SelectionMeasure{}, fmt.Errorf("unknown measure %q (hint: %s)", name, strings.Join(names, ", "))
}
