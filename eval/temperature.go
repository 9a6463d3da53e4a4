package eval

import (
	"fmt"
	"slices"
	"strconv"

	"scalewm/model"
)

// stockTemperature is the original's default, and DINO-WM's in every table.
const stockTemperature = 0.5

// published are the temperatures of the paper's tables, chosen on set s101 with
// the LeWM arm and shared by the LeWM family (docs/sources.md#mppi-temperature).
var published = map[string]float64{"pusht": 64, "reacher": 32, "cube": 32, "tworoom": 64, "pointmaze": 256}

// publishedElsewhere is used on other tasks: the published ones' median.
const publishedElsewhere = 64

// Ladder are the temperatures that tuning tries.
func Ladder() []float64 { return []float64{.5, 2, 8, 32, 64, 128, 256, 512} }

// Temperature says where MPPI's temperature comes from.
type Temperature struct {
	source string  // stock, paper, tuned or value
	value  float64 // where the source is value, or tuning is done
}

// ParseTemperature reads stock, paper, tuned or a positive number.
func ParseTemperature(s string) (Temperature, error) {
	if slices.Contains([]string{"stock", "paper", "tuned"}, s) {
		return Temperature{source: s}, nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0 && v <= 1e9) {
		return Temperature{}, fmt.Errorf("unknown temperature %q (hint: stock, paper, tuned or a positive number)", s)
	}
	return Temperature{source: "value", value: v}, nil
}

// NeedsTuning says that the temperature has to be chosen first, see Tune.
func (t Temperature) NeedsTuning() bool { return t.source == "tuned" && t.value == 0 }

// Chosen is t after tuning.
func (t Temperature) Chosen(c Choice) Temperature {
	if t.source == "tuned" {
		t.value = c.Temperature
	}
	return t
}

// Assumed says that the paper is asked for a temperature on a task that it does
// not have, so that For answers with a default.
func (t Temperature) Assumed(task string) bool {
	_, ok := published[task]
	return t.source == "paper" && !ok
}

// For is the temperature of a method on a task. One whose costs have another scale
// than the baseline's keeps the stock one beside any that was chosen for the baseline.
func (t Temperature) For(task, method string) (float64, error) {
	switch {
	case t.source == "value":
		return t.value, nil
	case t.source == "stock" || model.MethodOf(method).Group == "":
		return stockTemperature, nil
	case t.source == "tuned" && t.value > 0:
		return t.value, nil
	case t.source == "tuned":
		return 0, fmt.Errorf("the temperature of mppi on %s is not tuned yet (hint: evaluate the %s checkpoint with --temperature tuned into the same folder first)", task, model.Baseline)
	}
	if v, ok := published[task]; ok {
		return v, nil
	}
	return publishedElsewhere, nil
}
