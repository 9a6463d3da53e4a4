package features

import (
	"context"
	"slices"
)

// ringBytes is the memory for features that are retained.
const ringBytes = 256_000_000

// ring computes features on request and retains the most recent ones in memory. If
// all features of a data set fit, each frame is encoded only once.
type ring struct {
	Options
	most   int           // maximum number of slots
	slots  [][]byte      // features of one row each, as stored (Key.pack)
	rows   []int32       // row in each slot
	at     map[int32]int // slot of each retained row
	oldest int           // slot to replace next, once all slots are in use
}

// newRing returns an empty ring with room for at least one row.
func newRing(o Options) *ring {
	return &ring{Options: o, most: max(1, ringBytes/max(1, o.Key.bytes())), at: map[int32]int{}}
}

// Features implements Source. It copies retained rows, encodes the others once each,
// and then copies those that the request lists again.
func (r *ring) Features(ctx context.Context, rows []int32, dst []float32) error {
	n := r.Key.numbers()
	first := map[int32]int{} // first index in rows of each row that must be encoded
	var todo []int32
	for i, row := range rows {
		if slot, ok := r.at[row]; ok {
			r.Key.unpack(dst[i*n:][:n], r.slots[slot])
		} else if _, twice := first[row]; !twice {
			first[row] = i
			todo = append(todo, row)
		}
	}
	// Storing may evict rows of this request, which have been copied.
	err := r.encode(ctx, todo, func(i int, values []byte) error {
		r.Key.unpack(dst[first[todo[i]]*n:][:n], values)
		r.store(todo[i], values)
		return nil
	})
	if err != nil {
		return err
	}
	for i, row := range rows {
		if from, ok := first[row]; ok && from != i {
			copy(dst[i*n:][:n], dst[from*n:][:n])
		}
	}
	return nil
}

// store retains a row's features, in a new slot or in place of the oldest.
func (r *ring) store(row int32, values []byte) {
	if len(r.slots) < r.most {
		r.slots, r.rows = append(r.slots, slices.Clone(values)), append(r.rows, row)
		r.at[row] = len(r.slots) - 1
		return
	}
	delete(r.at, r.rows[r.oldest])
	copy(r.slots[r.oldest], values)
	r.at[row], r.rows[r.oldest] = r.oldest, row
	r.oldest = (r.oldest + 1) % r.most
}

// Close releases the memory.
func (r *ring) Close() error {
	r.slots, r.at = nil, nil
	return nil
}
