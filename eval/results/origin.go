package results

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// SetHash is the hash of the episodes of a task's evaluation set.
type SetHash struct{ Task, Set, Hash string }

// Origin describes where the cells of a folder come from. Lists are sorted and have no
// repetitions.
type Origin struct {
	Protocols, Devices, Data, Versions []string
	First, Last                        string  // start times of the first and last evaluation
	Seconds                            float64 // evaluation time summed over cells
	Cells, Episodes                    int
	SetHashes                          []SetHash
}

// Origin summarizes the origin of the cells.
func (c *Contents) Origin() Origin {
	var o Origin
	protocols, devices, data, versions, hashes := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[SetHash]bool{}
	for _, x := range c.Cells {
		protocols[ProtocolTitle(x.Spec.Protocol)], devices[x.Result.Device], data[x.Spec.Data] = true, true, true
		hashes[SetHash{x.Spec.Task, x.Spec.Set, x.Spec.SetHash}] = true
		o.Cells++
		o.Episodes += len(x.Result.Rows)
		run, ok := c.Runs[x.ID]
		if !ok {
			continue
		}
		versions[run.Version] = true
		o.Seconds += run.Seconds
		if run.Started != "" && (o.First == "" || run.Started < o.First) {
			o.First = run.Started
		}
		o.Last = max(o.Last, run.Started)
	}
	names := func(set map[string]bool) []string {
		delete(set, "")
		return slices.Sorted(maps.Keys(set))
	}
	o.Protocols, o.Devices, o.Data, o.Versions = slices.Sorted(maps.Keys(protocols)), names(devices), names(data), names(versions)
	o.SetHashes = slices.SortedFunc(maps.Keys(hashes), func(a, b SetHash) int {
		return cmp.Or(CompareTasks(a.Task, b.Task), strings.Compare(a.Set, b.Set), strings.Compare(a.Hash, b.Hash))
	})
	return o
}
