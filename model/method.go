package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of the terms of training losses. What computes them is in model/objective; their weights are in presets.
const (
	Prediction  = "prediction"  // mean squared error of the predicted latents
	SIGReg      = "sigreg"      // distance of the latents' distribution from a normal one
	Correlation = "correlation" // 1 - correlation of distances between latents and between states q
	Regression  = "regression"  // mean squared error of q, read from the latents by a small head
)

// Term is one summand of a training loss.
type Term struct {
	Name  string
	UsesQ bool // it sees the task state q
}

// Weights are those of the terms of a loss: by the term's name, then by task. A preset has them in TOML, where a
// number is the weight on every task: "sigreg = 0.09", "correlation = { reacher = 0.15, others = 0.1 }".
type Weights map[string]map[string]float64

// Others is the key, in place of a task, of the weight on all tasks that a term does not name.
const Others = "others"

// On is the weight of a term on a task, and false where there is none.
func (w Weights) On(term, task string) (float64, bool) {
	v, ok := w[term][task]
	if !ok {
		v, ok = w[term][Others]
	}
	return v, ok
}

// With is a copy in which a term has another weight on a task.
func (w Weights) With(term, task string, v float64) Weights {
	c := Weights{term: {}}
	maps.Copy(c, w)
	c[term] = map[string]float64{task: v}
	for k, old := range w[term] {
		if k != task {
			c[term][k] = old
		}
	}
	return c
}

// UnmarshalTOML adds the weights of a table, and keeps those that it does not name.
func (w *Weights) UnmarshalTOML(table any) error {
	terms, ok := table.(map[string]any)
	if !ok {
		return fmt.Errorf("weights are %v (hint: a table, as in weights.sigreg = 0.09)", table)
	}
	for term, v := range terms {
		byTask, ok := v.(map[string]any)
		if !ok {
			byTask = map[string]any{Others: v}
			delete(*w, term)
		}
		for task, v := range byTask {
			n, ok := v.(float64)
			if i, isInt := v.(int64); isInt {
				n, ok = float64(i), true
			}
			if !ok {
				return fmt.Errorf("the weight of %s on %s is %v (hint: a number)", term, task, v)
			}
			*w = w.With(term, task, n)
		}
	}
	return nil
}

// Method is one column of the paper's tables: what acts, and how it was trained.
type Method struct {
	Name   string // in flags, folders and cells
	Title  string // in tables and figures
	Family string // of its world model; "" where actions are random
	Terms  []Term // of its training loss; none where nothing is trained
	Floor  bool   // a control without learning
	// Pretrained: the frozen encoder is a file's, which whoever trains gives.
	Pretrained bool
	// NoGradient: its planning cost has none, so that gradient descent leaves it out.
	NoGradient bool
	// Extra: it takes part in a reproduction only where it is named.
	Extra bool
	// Group is shared by methods whose planning costs have one scale. They share
	// MPPI's temperature, which is chosen with the baseline, and two of them are
	// paired only at equal temperature. A method without a group plans at the
	// stock temperature and may be paired with any.
	Group string
	// Against names the methods that a report pairs it with.
	Against []string
}

// Plans says whether the method searches with a world model; random actions do not.
func (m Method) Plans() bool { return m.Family != "" }

// Trained says whether the method's weights are learnt.
func (m Method) Trained() bool { return len(m.Terms) > 0 }

// Usual says whether a reproduction has the method unless it is told otherwise.
func (m Method) Usual() bool { return !m.Extra }

// UsesQ says whether a term of the method's loss sees the task state q.
func (m Method) UsesQ() bool {
	return slices.ContainsFunc(m.Terms, func(t Term) bool { return t.UsesQ })
}

// Families of model/lewm and model/dinowm.
const (
	FamilyLeWM   = "lewm"
	FamilyDinoWM = "dinowm"
)

// Names of the methods that code has to tell apart: the baseline that the others
// are compared with, and the two floors.
const (
	Baseline  = "lewm"
	Untrained = "untrained" // the initial weights of the baseline
	Random    = "random"    // uniform random actions
)

// latentSums is the group of methods whose cost is a sum over one latent.
const latentSums = "lewm"

var (
	prediction = Term{Name: Prediction}
	sigreg     = Term{Name: SIGReg}
)

// methods is the table of all methods, in the order of the paper's tables, then
// the floors. Nothing outside this file, the families' own packages, presets and
// published data names a method: this table says what a method is.
var methods = []Method{
	{Name: Baseline, Title: "LeWM", Family: FamilyLeWM, Group: latentSums, Terms: []Term{prediction, sigreg}},
	{Name: "scale", Title: "SCALE", Family: FamilyLeWM, Group: latentSums, Against: []string{Baseline, "aux"},
		Terms: []Term{prediction, sigreg, {Name: Correlation, UsesQ: true}}},
	{Name: "aux", Title: "Aux", Family: FamilyLeWM, Group: latentSums, Against: []string{Baseline},
		Terms: []Term{prediction, sigreg, {Name: Regression, UsesQ: true}}},
	{Name: "dinowm", Title: "DINO-WM", Family: FamilyDinoWM, Pretrained: true, NoGradient: true, Extra: true, Against: []string{Baseline}, Terms: []Term{prediction}},
	{Name: "dinowm-random", Title: "DINO-WM, random encoder", Family: FamilyDinoWM, NoGradient: true, Extra: true, Against: []string{Baseline}, Terms: []Term{prediction}},
	{Name: Untrained, Title: "Untrained", Family: FamilyLeWM, Group: latentSums, Floor: true, Against: []string{Baseline}},
	{Name: Random, Title: "Random", Floor: true},
}

// Methods lists all methods, in the order of tables.
func Methods() []Method { return slices.Clone(methods) }

// MethodNames lists the names of the methods that keep says yes to; nil keeps all.
func MethodNames(keep func(Method) bool) []string {
	var names []string
	for _, m := range methods {
		if keep == nil || keep(m) {
			names = append(names, m.Name)
		}
	}
	return names
}

// LookUp finds a method by name.
func LookUp(name string) (Method, error) {
	if i := place(name); i < len(methods) {
		return methods[i], nil
	}
	return Method{}, fmt.Errorf("no method named %q (hint: one of %s)", name, strings.Join(MethodNames(nil), ", "))
}

// MethodOf is LookUp for records of programs that may know other methods: an
// unknown name is its own title, plans, belongs to no group and is paired with
// the baseline.
func MethodOf(name string) Method {
	m, err := LookUp(name)
	if err != nil {
		return Method{Name: name, Title: name, Family: name, Against: []string{Baseline}}
	}
	return m
}

// CompareMethods orders names as tables do; unknown ones come last, by alphabet.
func CompareMethods(a, b string) int {
	return cmp.Or(place(a)-place(b), strings.Compare(a, b))
}

// place is a method's in the table, behind it of an unknown one.
func place(name string) int {
	for i, m := range methods {
		if m.Name == name {
			return i
		}
	}
	return len(methods)
}
