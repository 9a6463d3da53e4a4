package infer

import (
	"fmt"
	"math"

	"scalewm/eval/results"
)

// This file has the numbers of the paper's argument from metric leverage: what a direction
// of the latents weighs in the planning cost, and whether the task state is read from it.

// Shares of the expected planning cost, between 0 and 1: that which the task state explains
// linearly, and that which lies in the directions of the state's linear readout, be it
// accurate or not.
const (
	Explained = "explained_share"
	Readout   = "readout_share"
)

// Leading is the number of principal components whose leverage is in the table.
const Leading = 8

// Leverage returns the What of the metric leverage 2λ of component k, counted from 1.
func Leverage(k int) string { return fmt.Sprintf("leverage_%d", k) }

// R2Alone returns the What of the R² of the task state from component k alone, the mean
// over the state's components.
func R2Alone(k int) string { return fmt.Sprintf("r2_of_component_%d", k) }

// leverage adds the metric leverage of a checkpoint's leading components.
func (t *Table) leverage(c *Checkpoint) {
	if c.Leverage == nil {
		return
	}
	n := Number{Place: c.Place(), Of: c.Arm, Seed: &c.Seed, From: c.ids, N: c.Leverage.N, Unit: "frame"}
	for k := range min(Leading, len(c.Leverage.Components), len(c.Leverage.R2)) {
		x := n.put(pointEstimate(c.Leverage.Components[k]))
		x.What = Leverage(k + 1)
		t.add(x)
		x = n.put(pointEstimate(float64(c.Leverage.R2[k])))
		x.What = R2Alone(k + 1)
		t.add(x)
	}
}

// ofLeverage adapts a number of the analysis to a measure of a checkpoint.
func ofLeverage(of func(*results.Leverage) float64) func(*Checkpoint) float64 {
	return func(c *Checkpoint) float64 {
		if c.Leverage == nil {
			return math.NaN()
		}
		return of(c.Leverage)
	}
}
