package dataset

import (
	"slices"
	"strings"
	"testing"

	"scalewm/envs"
)

// The columns of fake are action (2 numbers), state (3) and step_idx (1); row r of
// state is r, r%5/4, 7.
func TestOwnTask(t *testing.T) {
	f := newFake(t, 12)
	task, err := OwnTask(f, "state[2], step_idx,state[0:2]")
	if err != nil {
		t.Fatal(err)
	}
	q := task.Spec.Qs[0]
	if want := []string{"state[2]", "step_idx", "state[0]", "state[1]"}; !slices.Equal(q.Parts, want) || task.Spec.ActionDim != 2 || task.New != nil {
		t.Errorf("parts %v, want %v; %d numbers an action", q.Parts, want, task.Spec.ActionDim)
	}
	if got, err := ReadQ(f, q, 6, 7); err != nil || !slices.Equal(got, []float64{7, 6, 6, .25}) {
		t.Errorf("q of row 6 is %v, %v", got, err)
	}
	if task, err := OwnTask(f, ""); err != nil || task.Spec.Qs != nil {
		t.Errorf("without columns: %v, %v", task.Spec, err)
	}
	for columns, want := range map[string]string{"state[3]": "numbers 0 to 2", "state[2:2]": "numbers 0 to 2", "state[1:]": "not a column", "state,": "not a column",
		"x": "it has action", "state[9999999]": "not a column", "state[0:1]x": "not a column"} {
		if _, err := OwnTask(f, columns); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(hint:") {
			t.Errorf("%q: %v, want %q and a hint", columns, err, want)
		}
	}
}

func FuzzColumns(f *testing.F) {
	for _, s := range []string{"state", "state[0:2],step_idx", "state[2]", "[", "a[0:"} {
		f.Add(s)
	}
	src := newFake(f, 3)
	f.Fuzz(func(t *testing.T, columns string) {
		task, err := OwnTask(src, columns)
		if err == nil && columns != "" {
			task.Spec.Qs[0].Of(envs.Row{"action": {0, 0}, "state": {0, 0, 0}, "step_idx": {0}}, make([]float64, len(task.Spec.Qs[0].Parts)))
		}
	})
}

// A frame of one colour keeps its colour between any two sizes, and resizing to the
// same size is a copy.
func TestResizeAnySize(t *testing.T) {
	for _, c := range [][2]int{{96, 32}, {96, 224}, {5, 3}, {1, 4}} {
		src, dst := make([]byte, 3*c[0]*c[0]), make([]byte, 3*c[1]*c[1])
		for i := range src {
			src[i] = byte(100 + i%3)
		}
		NewResizer(c[0], c[1]).Resize(dst, src)
		for i, v := range dst {
			if v != byte(100+i%3) {
				t.Fatalf("%d to %d pixels: byte %d is %d", c[0], c[1], i, v)
			}
		}
	}
}
