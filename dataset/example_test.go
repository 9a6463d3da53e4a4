package dataset_test

import (
	"fmt"

	"scalewm/dataset"
	"scalewm/envs"
)

// recording is a Source of two episodes with one column and no frames.
type recording struct{ values []float64 }

func (r recording) Rows() int { return len(r.values) }
func (r recording) Episodes() []dataset.Episode {
	return []dataset.Episode{{Offset: 0, Len: 22}, {Offset: 22, Len: 10}}
}
func (r recording) Columns() []envs.Column {
	return []envs.Column{{Name: "action", DType: "float64", Width: 1}}
}
func (r recording) Read(_ string, from, to int) ([]float64, error) { return r.values[from:to], nil }
func (r recording) FrameSize() int                                 { return 0 }
func (r recording) Frame(int, []byte) error                        { return nil }
func (r recording) Attr(string) (string, bool)                     { return "", false }
func (r recording) Fingerprint() (string, error)                   { return "", nil }
func (r recording) Close() error                                   { return nil }

// Clips of 4 frames that are 5 rows apart take 20 rows: the first episode has
// room for three of them, the second for none.
func ExampleClips() {
	fmt.Println(dataset.Clips(recording{make([]float64, 32)}, 4, 5))
	// Output: [{0 0} {0 1} {0 2}]
}

// Actions are scaled by the mean and deviation of the rows, those of the first
// episode here.
func ExampleColumnMoments() {
	values := make([]float64, 32)
	for i := range 22 {
		values[i] = float64(i%2) * 4
	}
	m, err := dataset.ColumnMoments(recording{values}, "action", []int{0}, 0)
	fmt.Println(m.Mean, m.Std, m.N, m.Scale(0, 4), err)
	// Output: [2] [2] 22 1 <nil>
}
