package report

import (
	"fmt"
	"maps"
	"slices"
)

// warnings lists what a reader must know to judge the numbers.
func warnings(r *Report) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for i := range r.Blocks {
		b := &r.Blocks[i]
		seeds := map[int]bool{}
		methods := map[string]bool{}
		for _, a := range b.Arms {
			methods[a.Method] = true
			if !floor(a.Method) {
				seeds[a.Seed] = true
			}
			if a.Method == random && a.Mean.Mean > highFloor {
				add("%s: random actions solve %s %% of the episodes; read every rate against that floor", taskName(b.Task), points(a.Mean.Mean))
			}
		}
		if n := b.Tiers[0].Episodes; n < minEpisodes {
			add("%s: %d episodes a set; the paper's comparisons use %d, so intervals here are wide", b.title(), n, minEpisodes)
		}
		if len(b.Sets) == 1 {
			add("%s: one evaluation set, so no spread over sets can be given", b.title())
		}
		if len(seeds) == 1 {
			add("%s: one training seed; the intervals cover the choice of episodes, not the luck of training", b.title())
		}
		for _, m := range []string{lewm, scale, aux, random} {
			if !methods[m] {
				add("%s: no cells of %s", b.title(), methodName(m))
			}
		}
		for _, p := range b.Pairs {
			for _, why := range p.Refused {
				add("%s, %s against %s: %s", b.title(), methodName(p.A), methodName(p.B), why)
			}
		}
	}
	if len(r.Training) == 0 {
		add("no training metrics were found, so there are no training curves")
	}
	if len(r.Clips) == 0 {
		add("no clips were found to watch")
	}
	return distinct(out)
}

// distinct keeps the first of equal lines.
func distinct(lines []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(lines, func(s string) bool {
		old := seen[s]
		seen[s] = true
		return old
	})
}

// originOf collects where the numbers come from.
func originOf(d *Data) Origin {
	var o Origin
	devices, data, versions := set{}, set{}, set{}
	hashes := map[SetHash]bool{}
	for _, c := range d.Cells {
		devices.add(c.Result.Device)
		data.add(c.Spec.Data)
		hashes[SetHash{c.Spec.Task, c.Spec.Set, c.Spec.SetHash}] = true
		o.Cells++
		o.Episodes += len(c.Result.Rows)
		run, ok := d.Runs[c.ID]
		if !ok {
			continue
		}
		versions.add(run.Version)
		o.Seconds += run.Seconds
		if run.Started != "" && (o.First == "" || run.Started < o.First) {
			o.First = run.Started
		}
		o.Last = max(o.Last, run.Started)
	}
	o.Devices, o.Data, o.Versions = devices.sorted(), data.sorted(), versions.sorted()
	o.SetHashes = slices.SortedFunc(maps.Keys(hashes), compareSetHash)
	return o
}

func compareSetHash(a, b SetHash) int {
	if c := byOrder(taskOrder, a.Task, b.Task); c != 0 {
		return c
	}
	return byOrder(nil, a.Set+a.Hash, b.Set+b.Hash)
}

// set is a set of names; the empty name is not one.
type set map[string]bool

func (s set) add(name string) {
	if name != "" {
		s[name] = true
	}
}

func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }
