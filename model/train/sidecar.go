package train

import (
	"encoding/json"

	"scalewm/model"
)

// requiredTerms must have a weight in every preset, whichever methods it trains.
var requiredTerms = []string{model.Prediction, model.SIGReg, model.Correlation, model.Regression}

// impliedWeights are weights that the JSON form of a Config omits. That form is part
// of the specs whose hashes name runs and recipes: written out, these weights would
// change the ids of existing runs, whose sidecars do not have them.
var impliedWeights = model.Weights{model.Prediction: {model.Others: 1}, model.Correlation: {model.Others: .1}, model.Regression: {model.Others: .1}}

// configJSON is the layout of a Config in JSON. SIGReg's weight for other tasks, and
// the weights of correlation and regression, have keys of their own. Weights holds
// the rest.
type configJSON struct {
	Optimiser
	SIGReg float64 `json:"sigreg"`
	Loss
	Scale map[string]float64 `json:"scale_weight"`
	Aux   map[string]float64 `json:"aux_weight"`
	Intervals
	Weights model.Weights `json:"weights,omitempty"`
}

// MarshalJSON encodes the recipe for sidecars and for the specs of runs.
func (c Config) MarshalJSON() ([]byte, error) {
	w := configJSON{Optimiser: c.Optimiser, SIGReg: c.Weights[model.SIGReg][model.Others], Loss: c.Loss, Intervals: c.Intervals, Weights: model.Weights{}}
	for term, byTask := range c.Weights {
		for task, v := range byTask {
			if old, ok := impliedWeights[term][task]; (!ok || old != v) && (term != model.SIGReg || task != model.Others) {
				w.Weights = w.Weights.With(term, task, v)
			}
		}
	}
	w.Scale, w.Aux = w.Weights[model.Correlation], w.Weights[model.Regression]
	delete(w.Weights, model.Correlation)
	delete(w.Weights, model.Regression)
	return json.Marshal(w)
}

// UnmarshalJSON decodes what MarshalJSON encodes. Weights that are absent have their
// implied values.
func (c *Config) UnmarshalJSON(text []byte) error {
	var w configJSON
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*c = Config{w.Optimiser, impliedWeights.With(model.SIGReg, model.Others, w.SIGReg), w.Loss, w.Intervals}
	for _, more := range []model.Weights{w.Weights, {model.Correlation: w.Scale, model.Regression: w.Aux}} {
		for term, byTask := range more {
			for task, v := range byTask {
				c.Weights = c.Weights.With(term, task, v)
			}
		}
	}
	return nil
}
