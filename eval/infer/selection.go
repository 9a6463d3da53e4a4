package infer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"scalewm/dataset/rng"
	"scalewm/eval/results"
	"scalewm/eval/stats"
	"scalewm/eval/words"
)

// This file ranks checkpoints by measures without a simulator, and says how well such
// measures predict success where it is known (docs/sources.md#selection-measures).

// DefaultMeasure is the measure by which checkpoints are ranked.
const DefaultMeasure = "rollout_error"

// Kinds of selections: what distinguishes the checkpoints.
const (
	WithinMethods = "within methods" // training seeds of a method
	AcrossMethods = "across methods" // methods with the same training seed
	AcrossSteps   = "across steps"   // steps of a training
)

// predictive lists, by task and kind, the measures that were found to predict success: the
// 95 % interval of their correlation is above 0 (docs/notes/replaced.md#measures). Tasks that
// are not listed are untested.
var predictive = map[string]map[string][]string{
	"tworoom": {
		AcrossMethods: {"rollout_error", "over_shuffled", "probe_r2", "alignment"},
		AcrossSteps:   {"rollout_error", "over_copy_last", "over_shuffled", "next_rank", "probe_r2", "alignment", "sigreg", "effective_rank"},
	},
	"pointmaze": {
		AcrossSteps: {"rollout_error", "over_copy_last", "over_shuffled", "next_rank", "probe_r2", "sigreg", "effective_rank"},
	},
	"reacher": {
		AcrossMethods: {"next_rank", "probe_r2"},
		AcrossSteps:   {"rollout_error", "over_copy_last", "over_shuffled", "next_rank", "action_sensitivity", "probe_r2", "alignment", "sigreg", "effective_rank"},
	},
}

// Candidate is a checkpoint of a selection.
type Candidate struct {
	Run      string                    `json:"run"`   // its folder or file
	Score    results.Number            `json:"score"` // higher is better; set by Rank
	Measures map[string]results.Number `json:"measures"`
	PerBlock []results.SelectionBlock  `json:"per_block"`
	Missing  string                    `json:"missing,omitempty"` // why it has no measures, or not all
	Method   results.Arm               `json:"method"`
	Seed     int                       `json:"seed"`
	Step     int                       `json:"step"`
	Weights  string                    `json:"weights"`           // SHA-256 of the file
	Seen     bool                      `json:"seen"`              // the training has seen the rows
	Success  *float64                  `json:"success,omitempty"` // in percent; set by AddSuccess
	clips    []results.ClipScore
}

// Add adds the measures of a checkpoint.
func (c *Candidate) Add(s *results.Selection) {
	c.Measures, c.PerBlock = map[string]results.Number{}, []results.SelectionBlock{}
	for _, m := range results.SelectionMeasures {
		c.Measures[m.Name] = m.Value(s)
	}
	if s != nil {
		c.PerBlock, c.Missing, c.clips = s.PerBlock, s.Missing, s.PerClip
	}
}

// score returns the score of a candidate by a measure, NaN if it has none.
func (c Candidate) score(m results.SelectionMeasure) float64 {
	return m.Sign() * float64(c.Measures[m.Name])
}

// Selected is the result of a selection.
type Selected struct {
	Task      string       `json:"task"`
	Measure   string       `json:"measure"`
	Ranking   []Candidate  `json:"ranking"`   // best first
	Recommend *string      `json:"recommend"` // a Run, or nil
	Reason    string       `json:"reason"`
	Predicts  []Prediction `json:"predicts,omitempty"` // set by Predict
}

// Rank ranks checkpoints of a task by a measure, and recommends the best one if it is
// better than each other one by more than the noise of the clips.
func Rank(task string, all []Candidate, m results.SelectionMeasure) Selected {
	s := Selected{Task: task, Measure: m.Name, Ranking: slices.Clone(all)}
	for i := range s.Ranking {
		s.Ranking[i].Score = results.Number(s.Ranking[i].score(m))
	}
	slices.SortStableFunc(s.Ranking, func(a, b Candidate) int { return cmp.Compare(b.Score, a.Score) }) // NaN is last
	var best bool
	if best, s.Reason = s.recommend(m); best {
		s.Recommend = &s.Ranking[0].Run
	}
	return s
}

// recommend reports whether the first of the ranking is recommended, and why or why not.
func (s Selected) recommend(m results.SelectionMeasure) (best bool, reason string) {
	ranked := slices.DeleteFunc(slices.Clone(s.Ranking), func(c Candidate) bool { return c.Score != c.Score })
	if len(ranked) < 2 {
		return false, fmt.Sprintf("%s with a value of %s: there is nothing to compare", words.Count(len(ranked), "checkpoint"), m.Name)
	}
	kind := kindOf(ranked)
	found, tested := predictive[s.Task]
	works := found[kind]
	switch {
	case tested && len(works) == 0:
		return false, fmt.Sprintf("on %s no measure was found to predict success %s", s.Task, kind)
	case tested && !slices.Contains(works, m.Name):
		return false, fmt.Sprintf("on %s %s was not found to predict success %s (--measure: %s)", s.Task, m.Name, kind, words.Listing(works))
	case m.Of == nil:
		return false, fmt.Sprintf("%s has no interval over episodes, so that differences cannot be told from noise", m.Name)
	}
	var tied []string
	for _, c := range ranked[1:] {
		if i := pairedInterval(m, ranked[0].clips, c.clips); !(i.Lo > 0) { // or NaN, of one episode
			tied = append(tied, c.Run)
		}
	}
	if len(tied) > 0 {
		return false, fmt.Sprintf("%s is the best by %s, but its difference from %s is within the noise of the clips (paired 95 %% interval over episodes)", ranked[0].Run, m.Name, strings.Join(tied, ", "))
	}
	reason = fmt.Sprintf("the best by %s, by more than the noise of the clips (paired 95 %% intervals over episodes)", m.Name)
	if !tested {
		reason += "; untested on this task: whether the measure predicts success is unknown"
	}
	if ranked[0].Measures["over_copy_last"] >= 1 {
		reason += "; its predictions are no better than the last latent, unchanged"
	}
	if ranked[0].Seen && slices.ContainsFunc(ranked, func(c Candidate) bool { return !c.Seen }) {
		reason += "; its training has seen these rows, which others have not"
	}
	return true, reason
}

// kindOf returns the kind of a selection among candidates.
func kindOf(all []Candidate) string {
	first, kind := all[0], AcrossSteps
	for _, c := range all {
		switch {
		case c.Method != first.Method:
			return AcrossMethods
		case c.Seed != first.Seed:
			kind = WithinMethods
		}
	}
	return kind
}

// pairedInterval returns the 95 % interval of the score of a minus that of b, on the same
// clips: Student's, of the pseudo-values of a jackknife that leaves out one episode at a
// time. It is NaN for one episode.
func pairedInterval(m results.SelectionMeasure, a, b []results.ClipScore) stats.Interval {
	without := func(clips []results.ClipScore, episode int) float64 {
		return m.Of(slices.DeleteFunc(slices.Clone(clips), func(c results.ClipScore) bool { return c.Episode == episode }))
	}
	var episodes []int
	for _, c := range a {
		episodes = append(episodes, c.Episode)
	}
	slices.Sort(episodes)
	episodes = slices.Compact(episodes)
	var pseudo []float64
	n, all := float64(len(episodes)), m.Of(a)-m.Of(b)
	for _, e := range episodes {
		pseudo = append(pseudo, m.Sign()*(n*all-(n-1)*(without(a, e)-without(b, e))))
	}
	return stats.StudentMean(pseudo, 0.95)
}

// Prediction says how well a measure predicted success on a task. Groups are methods, seeds
// or trainings (see Kinds); correlations are those of the deviations from the mean of the
// group.
type Prediction struct {
	Task     string         `json:"task"`
	Measure  string         `json:"measure"`
	Kind     string         `json:"kind"`
	Runs     int            `json:"runs"`
	Groups   int            `json:"groups"`
	Spearman results.Number `json:"spearman"` // of score and success: positive if the measure predicts
	Lo       results.Number `json:"lo"`       // 95 % interval
	Hi       results.Number `json:"hi"`
	// HitRate is the share of groups in which no checkpoint succeeds more often than the one
	// of the highest score, with Wilson's interval.
	HitRate results.Number `json:"hit_rate"`
	HitLo   results.Number `json:"hit_lo"`
	HitHi   results.Number `json:"hit_hi"`
	// Regret is the success of the best checkpoint minus that of the one of the highest
	// score, in points, the mean over groups with a bootstrap interval.
	Regret   results.Number `json:"regret"`
	RegretLo results.Number `json:"regret_lo"`
	RegretHi results.Number `json:"regret_hi"`
	// Chance is the expected regret of a choice at random.
	Chance results.Number `json:"chance_regret"`
}

// AddSuccess sets the success of those candidates of a task that have cells in a results
// folder. It returns an error if none has.
func AddSuccess(ctx context.Context, folder, task string, all []Candidate) error {
	found, err := results.Load(ctx, folder)
	if err != nil {
		return err
	}
	success, err := successes(task, all, found.Cells)
	if err != nil {
		return fmt.Errorf("reading success from %s: %w", folder, err)
	}
	for i, c := range all {
		if v, ok := success[c.Weights]; ok {
			all[i].Success = &v
		}
	}
	return nil
}

// Predict adds how well each measure predicted the success of the ranked checkpoints whose
// success is known.
func (s *Selected) Predict() {
	known := slices.DeleteFunc(slices.Clone(s.Ranking), func(c Candidate) bool { return c.Success == nil })
	s.Predicts = []Prediction{}
	for _, m := range results.SelectionMeasures {
		for _, kind := range []string{WithinMethods, AcrossMethods, AcrossSteps} {
			if p, ok := predictions(m, kind, known); ok {
				p.Task = s.Task
				s.Predicts = append(s.Predicts, p)
			}
		}
	}
}

// successes returns the success of candidates in percent by their weights: the mean over
// the evaluations (solver, tier, set, settings) that all candidates with cells have.
func successes(task string, all []Candidate, cells []results.Cell) (map[string]float64, error) {
	rates := map[string]map[string]float64{} // by weights, then by evaluation
	for _, c := range cells {
		if c.Spec.Task != task || c.Spec.Arm().Replaced() || !slices.ContainsFunc(all, func(o Candidate) bool { return o.Weights == c.Spec.Weights }) {
			continue
		}
		if rates[c.Spec.Weights] == nil {
			rates[c.Spec.Weights] = map[string]float64{}
		}
		rates[c.Spec.Weights][evaluation(c.Spec)] = c.Result.Rate()
	}
	if len(rates) == 0 {
		return nil, fmt.Errorf("it has no cells of these checkpoints on %s (hint: `scalewm eval --weights RUN --out FOLDER` evaluates one)", task)
	}
	out := map[string]float64{}
	for weights, of := range rates {
		var common []float64
		for key, v := range of {
			shared := true
			for _, other := range rates {
				_, has := other[key]
				shared = shared && has
			}
			if shared {
				common = append(common, v)
			}
		}
		if len(common) == 0 {
			return nil, fmt.Errorf("no evaluation is common to all %d checkpoints with cells (hint: evaluate all with the same solver, tier, sets and settings)", len(rates))
		}
		slices.Sort(common) // the same sum in every run
		out[weights] = mean(common)
	}
	return out, nil
}

// evaluation identifies what a cell evaluates, independent of the checkpoint.
func evaluation(s results.Spec) string {
	s.Method, s.TrainSeed, s.Weights, s.Recipe, s.Q, s.LossWeight, s.Backbone, s.Trained, s.Actions, s.Temperature = "", 0, "", "", "", 0, "", "", "", 0
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a struct of texts and numbers
	}
	return string(b)
}

// training identifies a training.
type training struct {
	method results.Arm
	seed   int
}

// predictions computes how well a measure predicts success among checkpoints of one kind. It
// reports false if no group has two of them. Across steps all count, else those of the
// last step of each training.
func predictions(m results.SelectionMeasure, kind string, all []Candidate) (Prediction, bool) {
	last := map[training]int{}
	for _, c := range all {
		t := training{c.Method, c.Seed}
		last[t] = max(last[t], c.Step)
	}
	groups := map[training][]Candidate{}
	var order []training
	for _, c := range all {
		t := training{c.Method, c.Seed}
		if math.IsNaN(c.score(m)) || kind != AcrossSteps && c.Step != last[t] {
			continue
		}
		switch kind {
		case WithinMethods:
			t.seed = 0
		case AcrossMethods:
			t.method = results.Arm{}
		}
		if groups[t] == nil {
			order = append(order, t)
		}
		groups[t] = append(groups[t], c)
	}
	order = slices.DeleteFunc(order, func(t training) bool { return len(groups[t]) < 2 })
	p := Prediction{Measure: m.Name, Kind: kind, Groups: len(order)}
	var x, y, regrets []float64
	var of []training
	hits, chance := 0.0, 0.0
	for _, t := range order {
		best, total, chosen := 0.0, 0.0, groups[t][0]
		for _, c := range groups[t] {
			x, y, of = append(x, c.score(m)), append(y, *c.Success), append(of, t)
			best, total = max(best, *c.Success), total+*c.Success
			if c.score(m) > chosen.score(m) {
				chosen = c
			}
		}
		regrets = append(regrets, best-*chosen.Success)
		chance += (best - total/float64(len(groups[t]))) / float64(len(order))
		if *chosen.Success == best {
			hits++
		}
	}
	if p.Runs = len(x); p.Groups == 0 {
		return p, false
	}
	y = centred(y, of)
	for i, v := range y { // equal successes have equal ranks despite rounding
		y[i] = math.Round(v*1e9) / 1e9
	}
	rho := stats.Spearman(centred(x, of), y)
	around := stats.SpearmanInterval(rho, len(x), len(order), 0.95)
	rate := stats.Wilson(hits, float64(len(order)), 0.95)
	p.Spearman, p.Lo, p.Hi = results.Number(rho), results.Number(around.Lo), results.Number(around.Hi)
	p.HitRate, p.HitLo, p.HitHi = results.Number(hits/float64(len(order))), results.Number(rate.Lo), results.Number(rate.Hi)
	p.Regret, p.RegretLo, p.RegretHi, p.Chance = results.Number(mean(regrets)), results.Number(math.NaN()), results.Number(math.NaN()), results.Number(chance)
	if len(regrets) > 1 {
		i := stats.Bootstrap([][]float64{regrets}, rng.Stream("selection regret", m.Name, kind)).Interval(0.95)
		p.RegretLo, p.RegretHi = results.Number(i.Lo), results.Number(i.Hi)
	}
	return p, true
}
