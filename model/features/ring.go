package features

import "context"

// ringBytes is the memory for features that may be wanted again.
const ringBytes = 256_000_000

// ring computes features as they are asked for and keeps the latest: a data set of
// which all fit there is encoded once.
type ring struct {
	Options
	most   int // slots that there may be
	slots  [][]uint16
	rows   []int32       // of each slot
	at     map[int32]int // the slot of a row
	oldest int
}

func newRing(o Options) *ring {
	return &ring{Options: o, most: max(1, ringBytes/max(1, 2*o.Key.numbers())), at: map[int32]int{}}
}

// Features implements Source.
func (r *ring) Features(ctx context.Context, rows []int32, dst []uint16) error {
	n := r.Key.numbers()
	first := map[int32]int{} // of each row that is to be encoded, where it stands in rows
	var todo []int32
	for i, row := range rows {
		if slot, ok := r.at[row]; ok {
			copy(dst[i*n:][:n], r.slots[slot])
		} else if _, twice := first[row]; !twice {
			first[row] = i
			todo = append(todo, row)
		}
	}
	err := r.encode(ctx, todo, func(i int, values []uint16) error {
		copy(dst[first[todo[i]]*n:], values)
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
	for _, row := range todo {
		r.keep(row, dst[first[row]*n:][:n])
	}
	return nil
}

// keep puts a row's features in place of the oldest, once all slots are taken.
func (r *ring) keep(row int32, values []uint16) {
	if len(r.slots) < r.most {
		r.slots, r.rows = append(r.slots, make([]uint16, len(values))), append(r.rows, row)
		r.at[row] = len(r.slots) - 1
		copy(r.slots[len(r.slots)-1], values)
		return
	}
	delete(r.at, r.rows[r.oldest])
	copy(r.slots[r.oldest], values)
	r.at[row], r.rows[r.oldest] = r.oldest, row
	r.oldest = (r.oldest + 1) % r.most
}

// Close frees the memory.
func (r *ring) Close() error {
	r.slots, r.at = nil, nil
	return nil
}
