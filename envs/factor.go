package envs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Factor is a property of a world that the reference implementation of a task can vary, to
// test models on worlds that differ from their training data. An option with the factor's
// name fixes its value ("agent.color=0,0,255") or makes every reset draw it
// ("agent.color=sample"). Without an option, the world is as in the task's data sets.
type Factor struct {
	Name  string  `json:"name"`  // agent.color
	DType string  `json:"dtype"` // uint8 for red, green, blue; int64 for integers; float32 or float64
	Low   float64 `json:"low"`   // bounds of each number, both inclusive
	High  float64 `json:"high"`
	// Ranges are the bounds of each number if they differ; nil if Low and High hold for all.
	Ranges [][2]float64 `json:"ranges,omitempty"`
	Init   []float64    `json:"init"` // the default; its length is the number of values
	// Sampled marks a factor that the task's reset draws unless an option fixes it.
	Sampled bool   `json:"sampled"`
	Doc     string `json:"doc"`
}

// Sample is the value of an option that makes every reset draw the factor.
const Sample = "sample"

// variationPrefix and a factor's name form the name of its column.
const variationPrefix = "variation."

// maxDraws is the maximum number of attempts to draw a valid value, as in stable-worldmodel.
const maxDraws = 1000

// Column returns the column that records the factor's value in each row.
func (f Factor) Column() Column {
	return Column{Name: variationPrefix + f.Name, DType: f.DType, Width: len(f.Init), Doc: f.Doc}
}

// parse parses a value as the user writes it: numbers separated by commas.
func (f Factor) parse(text string) ([]float64, error) {
	hint := fmt.Sprintf("(hint: %q, or %d numbers from %g to %g with commas between them, like %s)", Sample, len(f.Init), f.Low, f.High, f.format(f.Init))
	parts := strings.Split(text, ",")
	if len(parts) != len(f.Init) {
		return nil, fmt.Errorf("%s=%q does not have %d numbers %s", f.Name, text, len(f.Init), hint)
	}
	value := make([]float64, len(parts))
	for i, p := range parts {
		x, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil {
			return nil, fmt.Errorf("%s=%q: %q is not a number %s", f.Name, text, p, hint)
		}
		value[i] = f.rounded(x)
	}
	if err := f.check(value); err != nil {
		return nil, fmt.Errorf("%w %s", err, hint)
	}
	return value, nil
}

// format is the inverse of parse. It writes the shortest text that parses to value.
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

// integral reports whether the factor's values are integers.
func (f Factor) integral() bool { return f.DType == "uint8" || f.DType == "int64" }

// rounded rounds x to the factor's type, so that a value is the same after storage.
func (f Factor) rounded(x float64) float64 {
	if f.DType == "float32" {
		return float64(float32(x))
	}
	return x
}

// ends returns the bounds of number i.
func (f Factor) ends(i int) (low, high float64) {
	if f.Ranges == nil {
		return f.Low, f.High
	}
	return f.Ranges[i][0], f.Ranges[i][1]
}

// check returns an error if value is out of bounds. The negated condition also rejects NaN.
func (f Factor) check(value []float64) error {
	for i, x := range value {
		if low, high := f.ends(i); !(low <= x && x <= high) {
			return fmt.Errorf("%s: %g is not from %g to %g", f.Name, x, low, high)
		}
		if f.integral() && x != math.Trunc(x) {
			return fmt.Errorf("%s: %g is not a whole number", f.Name, x)
		}
	}
	return nil
}

// Draw fills dst with values drawn uniformly from the factor's range.
func (f Factor) Draw(r *rand.Rand, dst []float64) {
	for i := range dst {
		low, high := f.ends(i)
		if f.integral() {
			dst[i] = low + float64(r.IntN(int(high-low)+1))
		} else {
			// The conversion prevents a fused multiply-add, which would change draws between
			// architectures.
			dst[i] = f.rounded(low + float64((high-low)*r.Float64()))
		}
	}
}

// Variation says how worlds made with certain Options vary. The numbers of all factors, in
// the order of Spec.Factors, form one vector, called values below. Such vectors are shared
// and must not be changed after they are returned.
type Variation struct {
	spec  *Spec
	at    map[string][2]int // range [from, to) of each factor in a vector
	start []float64
	fixed map[string]bool
	drawn map[string]bool // without factors that are Sampled, which the task itself draws
}

// Variation returns the variation that the Options describe. It ignores switches.
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

// Start returns the values of a world before its first reset: initial or fixed ones. The
// caller must not change them.
func (v *Variation) Start() []float64 { return v.start }

// Fixed reports whether an option fixes a factor.
func (v *Variation) Fixed(name string) bool { return v.fixed[name] }

// Drawn reports whether every reset draws a factor.
func (v *Variation) Drawn(name string) bool { return v.drawn[name] }

// Of returns the part of values that belongs to a factor. It panics if the task has no
// factor of that name.
func (v *Variation) Of(values []float64, name string) []float64 {
	at, ok := v.at[name]
	if !ok {
		panic("envs: task " + v.spec.Name + " has no factor " + name)
	}
	return values[at[0]:at[1]]
}

// Draw returns the values of a new episode: Start itself if no factor is drawn, otherwise
// a new vector. Factors are drawn in order. Each is redrawn until allowed accepts it
// together with the factors before it and all fixed ones. allowed is also called for fixed
// factors, so that contradictory options give an error.
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
				return nil, fmt.Errorf("task %s: none of %d draws of %s fits the other factors (hint: change those that are fixed)", v.spec.Name, maxDraws, f.Name)
			}
		}
		if v.fixed[f.Name] && !allowed(f.Name, values) {
			return nil, fmt.Errorf("task %s: %s=%s does not fit the other factors (hint: change it or let it be drawn)", v.spec.Name, f.Name, f.format(v.Of(values, f.Name)))
		}
	}
	return values, nil
}

// Read returns values with the factors replaced that row has columns for. If nothing
// changes, it returns the same slice, which lets callers detect that by comparison.
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

// Observe writes the value of a factor's column to dst.
func (v *Variation) Observe(values []float64, column string, dst []float64) error {
	name, ok := strings.CutPrefix(column, variationPrefix)
	if at, known := v.at[name]; ok && known && len(dst) == at[1]-at[0] {
		copy(dst, values[at[0]:at[1]])
		return nil
	}
	return fmt.Errorf("%s: no column %q of %d numbers (hint: `scalewm tasks` lists them)", v.spec.Name, column, len(dst))
}

// Factor returns a factor by name, and whether there is one.
func (s *Spec) Factor(name string) (Factor, bool) {
	i := slices.IndexFunc(s.Factors, func(f Factor) bool { return f.Name == name })
	if i < 0 {
		return Factor{}, false
	}
	return s.Factors[i], true
}

// Recorded returns the columns of worlds made with the Options: the task's own, and one
// for each factor that the Options name, unless a column of the task already reports it.
func (s *Spec) Recorded(o Options) []Column {
	cols := slices.Clone(s.Columns)
	for _, f := range s.Factors {
		if _, named := o[f.Name]; named && !f.Sampled {
			cols = append(cols, f.Column())
		}
	}
	return cols
}
