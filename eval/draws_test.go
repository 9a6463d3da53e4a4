package eval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"scalewm/dataset/rng/numpy"
)

// generatorWords are the first draws of default_rng(101).
type generatorWords struct {
	Raw      []string  `json:"random_raw_uint64"`
	Random   []float64 `json:"random"`
	Integers []int64   `json:"integers_0_10"`
}

// referenceDraws checks the parts of evalsets/reference.json that hold NumPy's raw
// draws.
func referenceDraws(t *testing.T, b []byte) {
	var ref struct {
		RawChoice []struct {
			Seed       uint64
			Pool, Size int64
			Choice     []int64
			Next       json.RawMessage `json:"next_integers_0_1000"`
		} `json:"raw_choice"`
		Words *generatorWords `json:"generator_words_seed101"`
	}
	must(t, json.Unmarshal(b, &ref))
	for _, c := range ref.RawChoice {
		g := numpy.New(c.Seed)
		what := fmt.Sprintf("seed %d: choice of %d out of %d", c.Seed, c.Size, c.Pool)
		if got := g.Choice(c.Pool, c.Size); !slices.Equal(got, c.Choice) {
			t.Errorf("%s is %v, want %v", what, got, c.Choice)
		}
		for i, want := range oneOrMany(t, c.Next) {
			if got := g.Integers(0, 1000); got != want {
				t.Errorf("%s: integer %d after it is %d, want %d", what, i, got, want)
			}
		}
	}
	if ref.Words != nil {
		ref.Words.judge(t)
	}
}

// oneOrMany reads a number or a list of them.
func oneOrMany(t *testing.T, raw json.RawMessage) (list []int64) {
	if raw == nil {
		return nil
	}
	if !strings.HasPrefix(string(raw), "[") {
		raw = json.RawMessage("[" + string(raw) + "]")
	}
	must(t, json.Unmarshal(raw, &list))
	return list
}

// judge compares the three lists with a fresh generator each, or with one generator
// that draws them in order: the file does not say which.
func (w *generatorWords) judge(t *testing.T) {
	fresh := w.draw(func(*numpy.Generator) *numpy.Generator { return numpy.New(101) })
	if sequel := w.draw(func(g *numpy.Generator) *numpy.Generator { return g }); fresh != "" && sequel != "" {
		t.Errorf("default_rng(101): %s; drawn one after another: %s", fresh, sequel)
	}
}

// draw describes the first difference, or returns "". next returns the generator for
// the next list.
func (w *generatorWords) draw(next func(*numpy.Generator) *numpy.Generator) string {
	g := numpy.New(101)
	for i, want := range w.Raw {
		if got := strconv.FormatUint(g.Uint64(), 10); got != want {
			return fmt.Sprintf("word %d is %s, want %s", i, got, want)
		}
	}
	g = next(g)
	for i, want := range w.Random {
		if got := g.Random(); got != want {
			return fmt.Sprintf("random %d is %v, want %v", i, got, want)
		}
	}
	g = next(g)
	for i, want := range w.Integers {
		if got := g.Integers(0, 10); got != want {
			return fmt.Sprintf("integer %d is %d, want %d", i, got, want)
		}
	}
	return ""
}
