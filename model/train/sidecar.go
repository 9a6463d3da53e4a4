package train

import (
	"encoding/json"

	"scalewm/model"
)

// writtenTerms have a weight in every preset.
var writtenTerms = []string{model.Prediction, model.SIGReg, model.Correlation, model.Regression}

// unwritten are weights that the JSON of a Config leaves out: it names trainings and recipes, whose ids must stay, and
// did without them before presets had them.
var unwritten = model.Weights{model.Prediction: {model.Others: 1}, model.Correlation: {model.Others: .1}, model.Regression: {model.Others: .1}}

// written is a Config in JSON. Weights has those that no other key has.
type written struct {
	Optimiser
	SIGReg float64 `json:"sigreg"`
	Loss
	Scale map[string]float64 `json:"scale_weight"`
	Aux   map[string]float64 `json:"aux_weight"`
	Intervals
	Weights model.Weights `json:"weights,omitempty"`
}

// MarshalJSON writes the recipe as sidecars and the specs of trainings have it.
func (c Config) MarshalJSON() ([]byte, error) {
	w := written{Optimiser: c.Optimiser, SIGReg: c.Weights[model.SIGReg][model.Others], Loss: c.Loss, Intervals: c.Intervals, Weights: model.Weights{}}
	for term, byTask := range c.Weights {
		for task, v := range byTask {
			if old, ok := unwritten[term][task]; (!ok || old != v) && (term != model.SIGReg || task != model.Others) {
				w.Weights = w.Weights.With(term, task, v)
			}
		}
	}
	w.Scale, w.Aux = w.Weights[model.Correlation], w.Weights[model.Regression]
	delete(w.Weights, model.Correlation)
	delete(w.Weights, model.Regression)
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Config) UnmarshalJSON(text []byte) error {
	var w written
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*c = Config{w.Optimiser, unwritten.With(model.SIGReg, model.Others, w.SIGReg), w.Loss, w.Intervals}
	for _, more := range []model.Weights{w.Weights, {model.Correlation: w.Scale, model.Regression: w.Aux}} {
		for term, byTask := range more {
			for task, v := range byTask {
				c.Weights = c.Weights.With(term, task, v)
			}
		}
	}
	return nil
}
