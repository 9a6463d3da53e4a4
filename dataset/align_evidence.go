package dataset

import (
	"cmp"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// The limits of a verdict. Correct data must never be accused, so that a shift needs
// more evidence to be a problem than to be a note.
const (
	minAlignRows = 60     // fewer rows decide nothing
	minGain      = .1     // R2 of a lag that stands out
	otherGain    = 1. / 3 // R2 of the other lags at most, as a share of it
	minBest      = .75    // share of the parts in which it is best
	strongGain   = .4     // likewise, for a problem
	strongOther  = .3
	strongBest   = .9
	whiteShare   = .1   // actions of which what came before explains less are independent
	followShare  = 1e-4 // an action of which less is new follows from the one before it
)

// evidence is what a comparison with one view found, by lag -1, 0, +1.
type evidence struct {
	from string
	gain [3]float64 // see Alignment.R2
	// Held-out R2 of the action, which rows t and t+1 explain together, and row t+1 alone;
	// and rows t-1, t and the action before it.
	two, next, before [3]float64
	// earlier is two at lag -2.
	earlier float64
	// own is how much of an action the one before it explains.
	own         float64
	best, parts int
	lag         int
}

// top is the R2 of the best lag.
func (e evidence) top() float64 { return e.gain[e.lag+1] }

// compare orders evidence by the R2 of the best lag.
func (e evidence) compare(other evidence) int { return cmp.Compare(e.top(), other.top()) }

// clear reports whether a lag stands out and has one explanation.
func (e evidence) clear() bool {
	return e.standsOut(minGain, otherGain, minBest) && !e.read() && !e.momentum()
}

func (e evidence) standsOut(gain, other, best float64) bool {
	for k, g := range e.gain {
		if k != e.lag+1 && g > other*e.top() {
			return false
		}
	}
	return e.top() >= gain && float64(e.best) >= best*float64(e.parts)
}

// read reports whether action[t+1] may be what a policy made of row t+1, and not what
// led to it: row t+1 alone tells it, and what came before tells some of it, as states
// change slowly.
func (e evidence) read() bool {
	if e.lag < 1 {
		return false
	}
	more := e.two[2] - e.next[2]
	needsBoth := more > e.two[2]/2 || more > 1e-4 && more > (1-e.next[2])/2
	return !needsBoth && e.before[2] > whiteShare
}

// momentum reports whether the lag may be one too small because what is seen has no
// velocity: rows t and t+1 show the sum of the actions before, and of independent ones
// none much better than its neighbours.
func (e evidence) momentum() bool {
	if e.lag > 0 || e.own >= 2*whiteShare {
		return false
	}
	around := []float64{e.earlier, e.two[0], e.two[1], e.two[2]}[e.lag+1:]
	return around[1] < .3 && max(around[0], around[2]) > around[1]/2
}

// strong reports whether a shift is the only likely explanation. A world that answers a
// row late, or whose momentum hides the last action, gives lag -1 with correct data. For
// momentum, rows t and t+1 tell action[t-1] little better than the ones around it.
// Delays are known of real machines, whose actions depend on each other.
func (e evidence) strong() bool {
	if !e.clear() || !e.standsOut(strongGain, strongOther, strongBest) {
		return false
	}
	sharp := e.two[0] >= .3 && max(e.two[1], e.earlier) <= e.two[0]/2
	return e.lag > 0 || e.own < 2*whiteShare && (sharp || e.two[0]-e.two[1] >= .5)
}

// weigh fits the actions at each lag to what a view shows.
func weigh(v view, s *samples) evidence {
	w, a := v.width, s.width
	x := mat.NewDense(len(s.at), 4*w+4*a, nil)
	for i, t := range s.at {
		row := x.RawRowView(i)
		before, now, next := v.row(t-1), v.row(t), v.row(t+1)
		for j := range w {
			row[j], row[w+j], row[2*w+j], row[3*w+j] = now[j], now[j]-before[j], next[j]-now[j], next[j]
		}
		copy(row[4*w:], s.actions[(t-2)*a:(t+2)*a])
	}
	r := newRidge(x, s.fold, s.folds)
	// Names of the blocks of columns.
	now, change, step, next := span(0, w), span(w, w), span(2*w, w), span(3*w, w)
	action := func(lag int) []int { return span(4*w+(lag+2)*a, a) }

	e := evidence{from: v.name, parts: s.parts}
	e.earlier = r.share(slices.Concat(now, step), action(-2))
	won := make([][3]float64, s.parts)
	for k, lag := range []int{-1, 0, 1} {
		target, previous := action(lag), action(lag-1)
		all := r.total(target)
		past := r.errors(slices.Concat(now, change, previous), target)
		full := r.errors(slices.Concat(now, change, step, previous), target)
		fresh := sum(r.errors(previous, target))
		if lag == 0 {
			e.own = 1 - fresh/max(all, fresh, 1e-300)
		}
		if fresh <= followShare*all {
			continue
		}
		e.two[k], e.next[k] = r.share(slices.Concat(now, step), target), r.share(next, target)
		e.before[k] = 1 - sum(past)/all
		e.gain[k] = (sum(past) - sum(full)) / fresh
		for i, p := range s.part {
			won[p][k] += past[i] - full[i]
		}
	}
	for k, g := range e.gain {
		if g > e.gain[e.lag+1] {
			e.lag = k - 1
		}
	}
	for _, g := range won {
		if g[e.lag+1] == max(g[0], g[1], g[2]) {
			e.best++
		}
	}
	return e
}

// span returns n consecutive numbers from the first.
func span(from, n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = from + i
	}
	return s
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}
