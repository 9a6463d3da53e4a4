package dataset

import (
	"fmt"
	"slices"
	"strings"
)

// Alignment says which action of a data set leads from row t to row t+1. In a sound
// one that is action[t], lag 0. Recorders that store an action with the row that it
// leads to give lag +1: action[t+1] leads from row t to row t+1.
type Alignment struct {
	// Found says whether one lag stands out. Otherwise Why says why not.
	Found bool `json:"found"`
	Lag   int  `json:"lag"`
	// Strong says that the data leave no other explanation for a lag other than 0.
	Strong bool   `json:"strong"`
	Why    string `json:"why,omitempty"`
	// From is what the actions were compared with: "pixels" or names of columns.
	From string `json:"from,omitempty"`
	// R2 has, for the lags -1, 0 and +1, the share of what is new in an action, given the
	// action before it, that row t+1 adds to what rows t-1 and t explain: 1 at most, and
	// about 0 or below if nothing. It is measured on rows that the fit has not seen.
	R2 [3]float64 `json:"r2"`
	// Best counts the parts of the data set (episodes, if there are enough) in which the
	// lag explains more than each of the others.
	Best  int `json:"best"`
	Parts int `json:"parts"`
	Rows  int `json:"rows"` // rows t that were used
}

// judge makes one statement of what the views show.
func judge(all []evidence) Alignment {
	top := slices.MaxFunc(all, evidence.compare)
	e := top
	if clear := slices.DeleteFunc(slices.Clone(all), func(e evidence) bool { return !e.clear() }); len(clear) > 0 {
		e = slices.MaxFunc(clear, evidence.compare)
	}
	a := Alignment{Lag: e.lag, From: e.from, R2: e.gain, Best: e.best, Parts: e.parts}
	switch {
	case e.own > 1-followShare:
		a.Why = "each action follows from the one before it"
	case e.top() < minGain:
		a.Why = "what is seen next hardly depends on the actions"
	case e.read():
		a.Why = "each row alone tells its action, as if a policy had read it"
	case e.momentum():
		a.Why = "actions show late where velocities are not seen"
	case !e.clear():
		a.Why = "the lags differ too little"
	default:
		a.Found = true
	}
	for _, other := range all {
		// Frames do not show velocities, and so an action one row later than the state does.
		late := other.lag == e.lag-1 && other.top() < e.top()/2
		if a.Found && a.Lag != 0 && other.lag != e.lag && (other.clear() || other.top() > e.top()) && !late {
			a.Found, a.Why = false, fmt.Sprintf("%s point to lag %+d, %s to lag %+d", e.from, e.lag, other.from, other.lag)
		}
	}
	a.Strong = a.Found && a.Lag != 0 && slices.ContainsFunc(all, func(o evidence) bool { return o.lag == a.Lag && o.strong() })
	return a
}

// add appends the alignment to a report: a problem if a shift is certain, else a note.
func (a Alignment) add(r *CheckReport) {
	figures := fmt.Sprintf("of what is new in an action, the next row explains (held out) %s; lag %+d is best in %d of %d parts; from %s",
		a.percent(), a.Lag, a.Best, a.Parts, a.From)
	switch {
	case !a.Found && a.From == "":
		r.note("cannot tell whether the actions belong to their rows: %s", a.Why)
	case !a.Found:
		r.note("cannot tell whether the actions belong to their rows: %s (%s)", a.Why, figures)
	case a.Lag == 0:
		r.note("action[t] leads from row t to row t+1, as it should (%s)", figures)
	case a.Lag > 0 && a.Strong:
		r.add("actions are shifted by one row: action[t] leads to row t, not from it (%s) (hint: `scalewm data convert FILE --actions leading --out NEW.h5` moves them up by a row)", figures)
	case a.Lag > 0:
		r.note("actions may be shifted by one row: action[t] seems to lead to row t, not from it (%s) (hint: if so, `scalewm data convert FILE --actions leading --out NEW.h5` moves them up by a row)", figures)
	case a.Strong:
		r.add("actions are shifted by one row: action[t] leads from row t+1, not from row t (%s) (hint: row t needs action[t-1]; write the episodes again as .npz and convert them)", figures)
	default:
		r.note("actions may be shifted by one row: action[t] shows first in row t+2, as if it led from row t+1; a world that answers late or has momentum looks the same (%s)", figures)
	}
}

func (r *CheckReport) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// percent lists R2 by lag.
func (a Alignment) percent() string {
	var s []string
	for k, g := range a.R2 {
		s = append(s, fmt.Sprintf("%.0f %% at lag %+d", 100*max(g, 0), k-1))
	}
	return strings.Join(s, ", ")
}
