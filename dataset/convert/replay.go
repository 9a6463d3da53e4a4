package convert

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// replayStep is what the flags of a row in a replay buffer say.
type replayStep struct {
	// first and last say that the row begins or ends an episode, and zero that its
	// action is all zeros.
	first, last, zero bool
}

// replayMarks are the arrays with the flags of rows.
var replayMarks = []string{"is_first", "is_last", "step_type"}

// replaySteps returns the flags of a file's rows.
func replaySteps(path string) ([]replayStep, error) {
	arrays, err := readNPZ(path, func(name string) bool { return name == "action" || slices.Contains(replayMarks, name) }, &[]string{})
	if err != nil {
		return nil, err
	}
	return replayStepsOf(arrays)
}

// replayStepsOf returns the flags of rows. Without flags they are one episode.
func replayStepsOf(arrays map[string]array) ([]replayStep, error) {
	action, ok := arrays["action"]
	if !ok {
		return nil, errors.New("it has no array action (hint: is it a file of another program?)")
	}
	steps := make([]replayStep, action.rows())
	for _, name := range replayMarks {
		if a, ok := arrays[name]; ok && (a.rows() != len(steps) || a.width() != 1) {
			return nil, fmt.Errorf("its array %s has the shape %v for %d rows (hint: is the file complete?)", name, a.shape, len(steps))
		}
	}
	types, typed := arrays["step_type"]
	first, flagged := arrays["is_first"]
	last, ended := arrays["is_last"]
	for t := range steps {
		s := &steps[t]
		// The types of steps of dm_env: 0 is the first of an episode and 2 the last.
		switch {
		case typed:
			s.first, s.last = types.number(t) == 0, types.number(t) == 2
		case flagged:
			s.first = first.number(t) != 0
		default:
			s.first = t == 0
		}
		s.last = s.last || ended && last.number(t) != 0
		s.zero = true
		for k := range action.width() {
			s.zero = s.zero && action.number(t*action.width()+k) == 0
		}
	}
	return steps, nil
}

// replayAlignment returns what the zeros say: all first rows have them, or all last
// ones.
func replayAlignment(steps []replayStep) (Alignment, error) {
	var firsts, zeroFirsts, lasts, zeroLasts int
	for _, s := range steps {
		if s.first {
			firsts++
			zeroFirsts += count(s.zero)
		}
		if s.last {
			lasts++
			zeroLasts += count(s.zero)
		}
	}
	leading, leaving := firsts > 0 && zeroFirsts == firsts, lasts > 0 && zeroLasts == lasts
	switch {
	case leading && !leaving:
		return Leading, nil
	case leaving && !leading:
		return Leaving, nil
	}
	return "", fmt.Errorf("it cannot be known whether an action led to the image of its row (DreamerV2) or leaves it (DreamerV3): of %d rows with is_first %d have an action of zeros, of %d with is_last %d (hint: --actions leading or --actions leaving says it)",
		firsts, zeroFirsts, lasts, zeroLasts)
}

// count returns 1 for true.
func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// replayChains returns the files in the order of their rows. The names of DreamerV3
// are TIME-ID-SUCCESSOR-LENGTH.npz, and each file precedes the one that it names.
// Every other file is a chain by itself.
func replayChains(files []string) (all [][]string) {
	part := func(path string, i int) string {
		if parts := strings.Split(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), "-"); len(parts) == 4 {
			return parts[i]
		}
		return ""
	}
	byID, next, follows := map[string]string{}, map[string]string{}, map[string]bool{}
	for _, path := range files {
		byID[part(path, 1)] = path
	}
	delete(byID, "")
	for _, path := range files {
		if to := byID[part(path, 2)]; to != "" && !follows[to] {
			next[path], follows[to] = to, true
		}
	}
	taken := map[string]bool{}
	follow := func(path string) {
		var chain []string
		for ; path != "" && !taken[path]; path = next[path] {
			taken[path] = true
			chain = append(chain, path)
		}
		if chain != nil {
			all = append(all, chain)
		}
	}
	for _, path := range files {
		if !follows[path] {
			follow(path)
		}
	}
	// What is left are circles, which damaged names can form.
	for _, path := range files {
		follow(path)
	}
	return all
}
