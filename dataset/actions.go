package dataset

import (
	"fmt"
	"math"
	"strings"
)

const (
	// maxChoices is the largest number of values of discrete actions. More are a quantity.
	maxChoices = 64
	// farOutside is the distance from the centre of an action's range, in half ranges, beyond
	// which no recorder of the task stores actions; z-scores do not reach it often either.
	farOutside = 3
	// outsideShare is the share of numbers that may be that far.
	outsideShare = .01
)

// CheckActions returns an error for actions that training would misread:
//
//   - discrete ones, which are names of choices, not quantities;
//   - those in other units than the task's, such as targets in pixels for a task whose
//     actions are in [-1, 1]. low and high are its bounds for each number; nil skips this.
//
// Actions a little beyond the bounds, as in the published Push-T set, are fine.
func CheckActions(src Source, low, high []float64) error {
	if n := choices(src); n > 0 {
		return fmt.Errorf("its actions are numbers of choices, 0 to %d, not quantities (hint: %s)", n-1, oneHot(n))
	}
	c, err := FindColumn(src, "action")
	if err != nil || len(low) != c.Width || len(high) != c.Width {
		return err
	}
	var all, outside int
	least, greatest := math.Inf(1), math.Inf(-1)
	for _, e := range src.Episodes() {
		v, err := src.Read("action", e.Offset, e.Offset+e.Len)
		if err != nil {
			return err
		}
		for i, a := range v {
			if math.IsNaN(a) {
				continue
			}
			d := i % c.Width
			all++
			if math.Abs(2*a-low[d]-high[d]) > farOutside*(high[d]-low[d]) {
				outside++
			}
			least, greatest = min(least, a), max(greatest, a)
		}
	}
	if float64(outside) <= outsideShare*float64(all) {
		return nil
	}
	return fmt.Errorf("its actions range from %.4g to %.4g, and those of the task from %g to %g (hint: absolute targets in pixels of Push-T become relative as (target - agent) / 100, and DINO-WM's relative ones as rel_actions / 100; --task %s trains on any actions)",
		least, greatest, low[0], high[0], NoTask)
}

// oneHot is how discrete actions become quantities.
func oneHot(n int) string {
	return fmt.Sprintf("one-hot encode them in NumPy: action = np.eye(%d, dtype=np.float32)[action.ravel().astype(int)]", n)
}

// choices returns the number of choices if actions are discrete, else 0. They are whole
// numbers from 0, few different ones, in a column of integers or of one number. Columns
// of several numbers that are 0 or 1 are buttons or one-hot already, and so is a single
// float that has two values.
func choices(src Source) int {
	c, err := FindColumn(src, "action")
	if err != nil {
		return 0
	}
	integer := strings.Contains(c.DType, "int")
	if !integer && c.Width > 1 {
		return 0
	}
	values := map[float64]bool{}
	for _, e := range src.Episodes() {
		v, err := src.Read("action", e.Offset, e.Offset+e.Len)
		if err != nil {
			return 0 // Check reports it
		}
		for _, a := range v {
			if math.IsNaN(a) {
				continue
			}
			if a < 0 || a != math.Trunc(a) || a >= 1e6 {
				return 0
			}
			if values[a] = true; len(values) > maxChoices {
				return 0
			}
		}
	}
	if len(values) < 2 || len(values) == 2 && (!integer || c.Width > 1) {
		return 0
	}
	most := 0
	for a := range values {
		most = max(most, int(a))
	}
	return most + 1
}
