package analysis

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/envs"
	"scalewm/eval"
)

// The expected rows and order were computed with NumPy (testdata/fixture.py).
func TestSampleIsNumPys(t *testing.T) {
	var cases []struct {
		Lengths, Rows, Shuffle []int
		Next                   int
	}
	b, err := os.ReadFile("testdata/sample.json")
	if err == nil {
		err = json.Unmarshal(b, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		var eps []dataset.Episode
		at := 0
		for _, n := range c.Lengths {
			eps = append(eps, dataset.Episode{Offset: at, Len: n})
			at += n
		}
		s, err := Draw(eps, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Rows, c.Rows) || !slices.Equal(s.Order, c.Shuffle) {
			t.Errorf("case %d: rows or order differ", i)
		}
		if len(s.Pairs) < samplePairs*9/10 {
			t.Errorf("case %d: %d pairs", i, len(s.Pairs))
		}
		for k, e := range s.Episodes {
			if r := s.Rows[k]; r < eps[e].Offset || r >= eps[e].Offset+eps[e].Len {
				t.Fatalf("case %d: row %d is not of episode %d", i, r, e)
			}
		}
	}
}

// Under the strict protocol no frame is from an episode of the training.
func TestSampleOfHeldOut(t *testing.T) {
	eps := []dataset.Episode{{Offset: 0, Len: 30}, {Offset: 30, Len: 30}, {Offset: 60, Len: 30}}
	s, err := Draw(eps, []int{1})
	if err != nil || len(s.Rows) != 30 || s.Rows[0] != 30 || s.Rows[29] != 59 {
		t.Errorf("rows %v, %v; want 30 to 59", s.Rows, err)
	}
	if _, err := Draw([]dataset.Episode{{Len: 1}}, nil); err == nil {
		t.Error("one frame is no sample, but there was no error")
	}
}

// Without a task state the analyses of latents return an error.
func TestNoState(t *testing.T) {
	bare := envs.Task{Spec: &envs.Spec{Name: "bare"}}
	if _, err := newLatents(t.Context(), eval.Job{Task: bare}, nil); err == nil || !strings.Contains(err.Error(), "the task bare has no task state q") || !strings.Contains(err.Error(), "(hint: ") {
		t.Errorf("error %v", err)
	}
}
