package convert

import "fmt"

// span is the rows [from, to) of an episode in arrays of all episodes.
type span struct{ from, to int }

// cutAtEnds returns the episodes of n rows, each of which ends where one of the flags
// is not 0. Rows after the last end are an episode too.
func cutAtEnds(n int, flags ...array) (all []span, err error) {
	for _, f := range flags {
		if f.rows() != n || f.width() != 1 {
			return nil, fmt.Errorf("its ends of episodes have the shape %v for %d rows (hint: one number per row)", f.shape, n)
		}
	}
	from := 0
	for t := range n {
		end := t == n-1
		for _, f := range flags {
			end = end || f.number(t) != 0
		}
		if end {
			all, from = append(all, span{from, t + 1}), t+1
		}
	}
	return all, nil
}

// dropLastAction replaces the action of the last row of an episode with NaN, for
// layouts in which it leads nowhere. Integers have no NaN and keep it.
func (r *rows) dropLastAction() (err error) {
	for _, name := range []string{"action", "actions"} {
		a, ok := r.arrays[name]
		if !ok || a.rows() == 0 || a.dtype[0] != 'f' {
			continue
		}
		if r.arrays[name], err = a.slice(0, a.rows()-1).padded(); err != nil {
			return err
		}
		r.leftOut = append(r.leftOut, "the last action of each episode leads nowhere and becomes NaN")
	}
	return nil
}
