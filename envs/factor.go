package envs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Factor is a property of a world that the original of a task lets vary, to test
// models on worlds unlike those of their training data. An Option of the
// factor's name fixes it ("agent.color=0,0,255") or lets every reset draw it
// ("agent.color=sample"); without one the world is as the task's data have it.
type Factor struct {
	Name  string  `json:"name"`  // agent.color
	DType string  `json:"dtype"` // uint8 for red, green, blue; int64 for whole numbers; float32 or float64
	Low   float64 `json:"low"`   // of every number; both ends are allowed
	High  float64 `json:"high"`
	// Ranges are the ends of each number where they differ; nil where Low and High hold for all.
	Ranges [][2]float64 `json:"ranges,omitempty"`
	Init   []float64    `json:"init"`
	// Sampled marks a factor that the task's own reset draws unless it is fixed.
	Sampled bool   `json:"sampled"`
	Doc     string `json:"doc"`
}

// Sample is the value of an Option that lets every reset draw a factor.
const Sample = "sample"

// variationPrefix precedes a factor's name in the name of its column.
const variationPrefix = "variation."

// maxDraws bounds the tries to draw a value that a task allows, as the original does.
const maxDraws = 1000

// Column holds the factor's value row by row.
func (f Factor) Column() Column {
	return Column{Name: variationPrefix + f.Name, DType: f.DType, Width: len(f.Init), Doc: f.Doc}
}

// parse reads a value as a user writes it: numbers, with commas between them.
func (f Factor) parse(text string) ([]float64, error) {
	hint := fmt.Sprintf("(hint: %q, or %d numbers from %g to %g with commas between them, like %s)", Sample, len(f.Init), f.Low, f.High, f.format(f.Init))
	parts := strings.Split(text, ",")
	if len(parts) != len(f.Init) {
		return nil, fmt.Errorf("%s=%q has not %d numbers %s", f.Name, text, len(f.Init), hint)
	}
	value := make([]float64, len(parts))
	for i, p := range parts {
		x, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil {
			return nil, fmt.Errorf("%s=%q: %q is no number %s", f.Name, text, p, hint)
		}
		value[i] = f.rounded(x)
	}
	if err := f.check(value); err != nil {
		return nil, fmt.Errorf("%w %s", err, hint)
	}
	return value, nil
}

func (f Factor) format(value []float64) string {
	parts, bits := make([]string, len(value)), 64
	if f.DType == "float32" {
		bits = 32
	}
	for i, x := range value {
		parts[i] = strconv.FormatFloat(x, 'g', -1, bits)
	}
	return strings.Join(parts, ",")
}

// whole says whether the factor's values are whole numbers.
func (f Factor) whole() bool { return f.DType == "uint8" || f.DType == "int64" }

func (f Factor) rounded(x float64) float64 {
	if f.DType == "float32" {
		return float64(float32(x))
	}
	return x
}

// ends are the range of number i.
func (f Factor) ends(i int) (low, high float64) {
	if f.Ranges == nil {
		return f.Low, f.High
	}
	return f.Ranges[i][0], f.Ranges[i][1]
}

func (f Factor) check(value []float64) error {
	for i, x := range value {
		if low, high := f.ends(i); !(low <= x && x <= high) {
			return fmt.Errorf("%s: %g is not from %g to %g", f.Name, x, low, high)
		}
		if f.whole() && x != math.Trunc(x) {
			return fmt.Errorf("%s: %g is not a whole number", f.Name, x)
		}
	}
	return nil
}

// Draw is uniform over the factor's range.
func (f Factor) Draw(r *rand.Rand, dst []float64) {
	for i := range dst {
		low, high := f.ends(i)
		if f.whole() {
			dst[i] = low + float64(r.IntN(int(high-low)+1))
		} else {
			dst[i] = f.rounded(low + float64((high-low)*r.Float64()))
		}
	}
}

// Variation is how the worlds of one set of Options vary. The numbers of all
// factors, in the order of Spec.Factors, make one vector of values.
type Variation struct {
	spec  *Spec
	at    map[string][2]int // a factor's part of a vector
	start []float64
	fixed map[string]bool
	drawn map[string]bool
}

// Variation reads the Options that name factors.
func (s *Spec) Variation(o Options) (*Variation, error) {
	v := &Variation{spec: s, at: map[string][2]int{}, fixed: map[string]bool{}, drawn: map[string]bool{}}
	for _, f := range s.Factors {
		value := f.Init
		if text, ok := o[f.Name]; ok && text == Sample {
			v.drawn[f.Name] = !f.Sampled
		} else if ok {
			var err error
			if value, err = f.parse(text); err != nil {
				return nil, fmt.Errorf("task %s: %w", s.Name, err)
			}
			v.fixed[f.Name] = true
		}
		v.at[f.Name] = [2]int{len(v.start), len(v.start) + len(value)}
		v.start = append(v.start, value...)
	}
	return v, nil
}

// Start is the values of a world before its first reset: initial ones, or those
// fixed. The caller does not change it.
func (v *Variation) Start() []float64 { return v.start }

// Fixed says whether an Option fixes a factor.
func (v *Variation) Fixed(name string) bool { return v.fixed[name] }

// Drawn says whether every reset draws a factor.
func (v *Variation) Drawn(name string) bool { return v.drawn[name] }

// Of is the part of values that belongs to a factor of the task; it panics on
// any other.
func (v *Variation) Of(values []float64, name string) []float64 {
	at, ok := v.at[name]
	if !ok {
		panic("envs: task " + v.spec.Name + " has no factor " + name)
	}
	return values[at[0]:at[1]]
}

// Draw is the values of a new episode: Start, if no factor is to be drawn, else
// a new vector. Factors are drawn one after the other, each until allowed takes
// it beside those before it; the fixed ones are there from the beginning.
func (v *Variation) Draw(r *rand.Rand, allowed func(name string, values []float64) bool) ([]float64, error) {
	values, own := v.start, false
	for _, f := range v.spec.Factors {
		if v.drawn[f.Name] && !own {
			values, own = slices.Clone(v.start), true
		}
		tries := 1
		for ; v.drawn[f.Name]; tries++ {
			f.Draw(r, v.Of(values, f.Name))
			if allowed(f.Name, values) {
				break
			}
			if tries == maxDraws {
				return nil, fmt.Errorf("task %s: no %s of %d draws fits the other factors (hint: change those that are fixed)", v.spec.Name, f.Name, maxDraws)
			}
		}
		if v.fixed[f.Name] && !allowed(f.Name, values) {
			return nil, fmt.Errorf("task %s: %s=%s does not fit the other factors (hint: change it or let it be drawn)", v.spec.Name, f.Name, f.format(v.Of(values, f.Name)))
		}
	}
	return values, nil
}

// Read is values with those changed that row has columns of; the same slice if
// there are none.
func (v *Variation) Read(row Row, values []float64) ([]float64, error) {
	out := values
	for _, f := range v.spec.Factors {
		x, ok := row[variationPrefix+f.Name]
		if !ok || f.Sampled || slices.Equal(x, v.Of(out, f.Name)) {
			continue
		}
		if len(x) != len(f.Init) {
			return nil, fmt.Errorf("task %s: column %s has %d numbers, not %d", v.spec.Name, f.Column().Name, len(x), len(f.Init))
		}
		if err := f.check(x); err != nil {
			return nil, fmt.Errorf("task %s: %s%w", v.spec.Name, variationPrefix, err)
		}
		if &out[0] == &values[0] {
			out = slices.Clone(values)
		}
		copy(v.Of(out, f.Name), x)
	}
	return out, nil
}

// Observe writes the value that a factor's column has.
func (v *Variation) Observe(values []float64, column string, dst []float64) error {
	name, ok := strings.CutPrefix(column, variationPrefix)
	if at, known := v.at[name]; ok && known && len(dst) == at[1]-at[0] {
		copy(dst, values[at[0]:at[1]])
		return nil
	}
	return fmt.Errorf("%s: no column %q of %d numbers (hint: `scalewm tasks` lists them)", v.spec.Name, column, len(dst))
}

// Factor finds a factor by name.
func (s *Spec) Factor(name string) (Factor, bool) {
	i := slices.IndexFunc(s.Factors, func(f Factor) bool { return f.Name == name })
	if i < 0 {
		return Factor{}, false
	}
	return s.Factors[i], true
}

// Recorded lists the columns of worlds made with Options: the task's own, and
// one for each factor that Options name and no column of the task reports.
func (s *Spec) Recorded(o Options) []Column {
	cols := slices.Clone(s.Columns)
	for _, f := range s.Factors {
		if _, named := o[f.Name]; named && !f.Sampled {
			cols = append(cols, f.Column())
		}
	}
	return cols
}
