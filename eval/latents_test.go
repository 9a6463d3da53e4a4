package eval

import (
	"slices"
	"testing"

	"scalewm/model"
)

// Latents do not depend on how many frames are encoded together, nor on the number of
// workers.
func TestLatentsOneByOne(t *testing.T) {
	j := testJob(t, "T5", 1, "s101")
	rows := make([]int, 2*model.EncodeBatch+3)
	for i := range rows {
		rows[i] = (i * 7) % j.Data.Rows()
	}
	for _, workers := range []int{1, 3} {
		j.Workers = workers
		all, err := j.Latents(t.Context(), j.World, rows)
		must(t, err)
		width := len(all) / len(rows)
		for i, row := range rows {
			one, err := j.Latents(t.Context(), j.World, []int{row})
			must(t, err)
			if !slices.Equal(one, all[i*width:(i+1)*width]) {
				t.Fatalf("%d workers: row %d alone has %v, among %d rows %v", workers, row, one, len(rows), all[i*width:(i+1)*width])
			}
		}
	}
}
