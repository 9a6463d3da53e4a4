package model

import (
	"fmt"
	"strconv"
	"strings"
)

// Replacement says which components of a search are replaced, to find out why planning
// succeeds or fails. An arm with one is named REPLACEMENT@METHOD, such as probe@lewm.
// The zero value replaces nothing: candidates are predicted by the model, and their cost
// is the distance of latents.
type Replacement struct {
	// Simulator says that candidates are executed in the task's simulator. Their cost is
	// that of the state or of the frame that they reach.
	Simulator bool
	Metric    Metric
	K         int // components of LeadingComponents, else 0
}

// Metric is how a search compares what a candidate reaches with the goal.
type Metric string

const (
	// LatentDistance is the model's own cost, the squared distance of latents.
	LatentDistance Metric = ""
	// StateDistance is the squared distance in the standardised task state q.
	StateDistance Metric = "state"
	// ProbedState is the same in the q that a linear probe reads from latents.
	ProbedState Metric = "probe"
	// WhitenedLatents is the squared distance of latents that are whitened by the
	// covariance of the training data.
	WhitenedLatents Metric = "whiten"
	// LeadingComponents is the squared distance in the first K principal components.
	LeadingComponents Metric = "topk"
)

// OracleState is the method that searches in the simulator for the goal's state, without a
// model.
const OracleState = "oracle-state"

// replacements are the names that ParseReplacement parses, except topk=K.
var replacements = []struct {
	name string
	Replacement
}{
	{"oracle-latent", Replacement{Simulator: true}},
	{"oracle-probe", Replacement{Simulator: true, Metric: ProbedState}},
	{"probe", Replacement{Metric: ProbedState}},
	{"whiten", Replacement{Metric: WhitenedLatents}},
}

// leadingPrefix begins the name of a metric of leading components, topk=K.
const leadingPrefix = string(LeadingComponents) + "="

// ParseReplacement parses the part of an arm's name before a method.
func ParseReplacement(name string) (Replacement, error) {
	for _, r := range replacements {
		if r.name == name {
			return r.Replacement, nil
		}
	}
	if digits, ok := strings.CutPrefix(name, leadingPrefix); ok {
		k, err := strconv.Atoi(digits)
		if err == nil && k > 0 && strconv.Itoa(k) == digits {
			return Replacement{Metric: LeadingComponents, K: k}, nil
		}
	}
	return Replacement{}, fmt.Errorf("%q replaces no component of a search (hint: oracle-latent, oracle-probe, probe, whiten or topk=K, as in probe@%s)", name, Baseline)
}

// String returns the name that ParseReplacement parses, and "" for the zero value and for
// that of OracleState, which is a method.
func (r Replacement) String() string {
	if r.Metric == LeadingComponents {
		return leadingPrefix + strconv.Itoa(r.K)
	}
	for _, x := range replacements {
		if x.Replacement == r {
			return x.name
		}
	}
	return ""
}

// Draws reports whether every candidate's last frame is drawn and encoded.
func (r Replacement) Draws() bool { return r.Simulator && r.Metric != StateDistance }

// OfLatents reports whether the metric is computed from latents by a linear map that is
// fitted to frames of the training data.
func (r Replacement) OfLatents() bool {
	return r.Metric != LatentDistance && r.Metric != StateDistance
}
