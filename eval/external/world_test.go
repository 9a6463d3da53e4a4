package external

import (
	"math"
	"strings"
	"testing"

	"scalewm/envs"
	_ "scalewm/envs/tworoom"
	"scalewm/eval"
)

// description is that of a world with 2 actions and a column of 3 numbers.
func description() WorldDescription {
	return WorldDescription{Name: "mine", ID: "gymnasium:Mine-v0", FrameSize: 4, Low: []float64{-1, -1}, High: []float64{1, 1}, ActionDType: "float32", Success: "near",
		Columns: []column{{Name: "state", DType: "float64", Width: 3}}}
}

// A description that could not be a world is an error with its reason.
func TestWorldDescription(t *testing.T) {
	task, err := description().Task()
	if err != nil || task.New != nil || task.Spec.ActionDim != 2 || task.Spec.Success != "near" {
		t.Fatalf("%+v, %v", task.Spec, err)
	}
	for name, change := range map[string]func(*WorldDescription){
		"name":     func(d *WorldDescription) { d.Name = "../x" },
		"no name":  func(d *WorldDescription) { d.Name = "" },
		"built-in": func(d *WorldDescription) { d.Name = "tworoom" },
		"frame":    func(d *WorldDescription) { d.FrameSize = 1 << 30 },
		"no frame": func(d *WorldDescription) { d.FrameSize = 0 },
		"width":    func(d *WorldDescription) { d.Columns[0].Width = -1 },
		"widths":   func(d *WorldDescription) { d.Columns = append(d.Columns, column{Width: math.MaxInt}) },
		"bounds":   func(d *WorldDescription) { d.Low = d.Low[:1] },
		"inverted": func(d *WorldDescription) { d.Low[0] = 2 },
		"NaN":      func(d *WorldDescription) { d.High[0] = math.NaN() },
		"infinite": func(d *WorldDescription) { d.High[0] = math.Inf(1) },
		"actions":  func(d *WorldDescription) { d.Low, d.High = nil, nil },
	} {
		d := description()
		change(&d)
		if _, err := d.Task(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The questions of a world have the documented arrays, wrong answers leave a question open, and
// right ones return what the other program said.
func TestWorldQuestions(t *testing.T) {
	x := &Model{ctx: t.Context(), questions: make(chan *Question), answers: make(chan struct{})}
	w := x.World(description())
	answer := func(do func(), with ...[]byte) *Question {
		t.Helper()
		done := make(chan bool)
		go func() { do(); close(done) }()
		q := <-x.Questions()
		for _, bad := range [][][]byte{{}, {{1, 2, 3, 4, 5}}, append([][]byte{{1, 2, 3}}, with...)} {
			if len(with) > 0 && x.Answer(q, bad...) == nil {
				t.Errorf("%s: an answer of %d arrays is accepted", q.Call, len(bad))
			}
		}
		if err := x.Answer(q, with...); err != nil {
			t.Error(err)
		}
		<-done
		return q
	}
	frame := make([]byte, 4*4*3)
	frame[7] = 9
	i64 := func(v ...int64) []byte { return bytesOf(v) }
	q := answer(func() {
		met, err := w.Begin([]int{5}, []envs.Column{{Name: "state", DType: "float64", Width: 3, Matrix: true}}, []float64{1, 2, 3}, []float64{4, 5, 6}, true)
		if err != nil || !met[0] {
			t.Error(met, err)
		}
	}, []byte{1})
	if !q.Gate || q.Columns[0] != (column{"state", "float64", 3, true}) || q.In[1].Shape[1] != 3 {
		t.Errorf("%+v", q)
	}
	answer(func() {
		b, err := w.Reset([]int{0}, []int{77})
		if err != nil || b.Start[0] != 3 || b.Goal[0] != 4 || b.Frames[7] != 9 || b.Met[0] {
			t.Error(b, err)
		}
	}, []byte{0}, i64(3), i64(4), frame, frame)
	run := func() { _, _ = w.Run([]int{0, 1}, [][]float64{{1, 2, 3, 4}, {5, 6}}, []int{0, 1}) }
	if q := answer(run, i64(2, 1), []byte{0, 1}, []byte{1, 0}); q.In[1].Shape[1] != 2 || len(q.In[1].Bytes) != 2*2*2*8 {
		t.Errorf("%+v", q.In)
	}
	answer(func() {
		ran, err := w.Run([]int{0}, [][]float64{{1, 2, 3, 4}}, []int{0})
		if err != nil || ran[0] != (eval.Ran{Steps: 2, Ended: eval.EndedTruncated}) || !strings.Contains(ran[0].Ended.String(), "truncated") {
			t.Error(ran, err)
		}
	}, i64(2), []byte{0}, []byte{1})
	for _, steps := range []int64{-1, 3} {
		answer(func() {
			if _, err := w.Run([]int{0}, [][]float64{{1, 2, 3, 4}}, []int{0}); err == nil {
				t.Errorf("%d of 2 steps are accepted", steps)
			}
		}, i64(steps), []byte{0}, []byte{200})
	}
	answer(func() {
		frames, columns, err := w.See([]int{0})
		if err != nil || frames[7] != 9 || columns[2] != 3 {
			t.Error(frames, columns, err)
		}
	}, frame, bytesOf([]float64{1, 2, 3}))
}
