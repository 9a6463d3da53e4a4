package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of the terms of training losses. model/objective computes them, and presets set
// their weights.
const (
	// Prediction is the mean squared error of the predicted latents.
	Prediction = "prediction"
	// SIGReg is the distance of the latents' distribution from a standard normal one. It
	// prevents the collapse of all latents to one point, for which Prediction is 0.
	SIGReg = "sigreg"
	// Correlation is 1 - the correlation, over pairs of frames, between the distance
	// of the two latents and that of the two task states q.
	Correlation = "correlation"
	// Regression is the mean squared error of q as predicted from the latents by a
	// small head.
	Regression = "regression"
)

// Term is one summand of a training loss.
type Term struct {
	Name string
	// UsesQ reports whether the term needs the task state q of each frame.
	UsesQ bool
}

// Weights holds the weights of loss terms, by the term's name, then by task. A preset
// writes them in TOML, where a plain number applies to every task: "sigreg = 0.09",
// "correlation = { reacher = 0.15, others = 0.1 }".
type Weights map[string]map[string]float64

// Others is the key, used in place of a task's name, of the weight for all tasks that
// a term does not name.
const Others = "others"

// On returns the weight of a term on a task, and false if there is none.
func (w Weights) On(term, task string) (float64, bool) {
	v, ok := w[term][task]
	if !ok {
		v, ok = w[term][Others]
	}
	return v, ok
}

// With returns a copy of w in which a term has weight v on a task. The receiver is
// not modified.
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

// UnmarshalTOML merges a table into w. Weights that the table does not name are left
// unchanged, except that a plain number for a term replaces that term's weights on
// all tasks.
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

// Method is one column of the paper's tables: how the actions of an arm are chosen
// and how its model was trained.
type Method struct {
	Name  string // in flags, folders and cells
	Title string // in tables and figures
	// Family is the family of the world model, or "" if actions are random.
	Family string
	// Terms are the terms of the training loss. There are none if nothing is trained.
	Terms []Term
	// Floor marks a control without learning: a lower bound for the other methods.
	Floor bool
	// Pretrained means that the frozen encoder's weights come from a file that the user
	// passes to the training.
	Pretrained bool
	// NoGradient means that the planning cost is not differentiable. Gradient descent
	// is not run for such a method.
	NoGradient bool
	// Extra excludes the method from a reproduction that does not name it.
	Extra bool
	// Policy marks a method whose model answers an action without a search. It is trained
	// on the latents of another arm's checkpoint, its encoder, which does not change.
	Policy bool
	// Encoder is the name of that arm, such as lewm. It is "" in the table of methods,
	// and for world models.
	Encoder string
	// Replaced says which components of the method's search are replaced. In the table of
	// methods only OracleState replaces any.
	Replaced Replacement
	// Group is shared by methods whose planning costs have the same scale. MPPI's
	// temperature is relative to that scale, so methods of a group use one
	// temperature, chosen with the baseline, and are paired only at equal
	// temperature. A method without a group uses the default temperature and may be
	// paired with any other.
	Group string
	// Against names the methods that a report compares this one with.
	Against []string
}

// HasModel reports whether a model chooses the actions. Only random actions have none.
func (m Method) HasModel() bool { return m.Family != "" }

// Plans reports whether the method searches, in contrast to policies and random actions.
func (m Method) Plans() bool {
	return m.HasModel() && !m.Policy || m.Replaced.Metric == StateDistance
}

// Trained reports whether the method's weights are learnt.
func (m Method) Trained() bool { return len(m.Terms) > 0 }

// Latents returns the method that encodes a policy's frames, or the method itself.
func (m Method) Latents() Method {
	if m.Encoder == "" {
		return m
	}
	return MethodOf(m.Encoder)
}

// Usual reports whether a reproduction includes the method by default.
func (m Method) Usual() bool { return !m.Extra }

// UsesQ reports whether a term of the method's loss needs the task state q.
func (m Method) UsesQ() bool {
	return slices.ContainsFunc(m.Terms, func(t Term) bool { return t.UsesQ })
}

// Names of the families that model/lewm, model/dinowm and model/amortised register.
const (
	FamilyLeWM   = "lewm"
	FamilyDinoWM = "dinowm"
	FamilyGCIDM  = "gcidm"
	FamilyGCBC   = "gcbc"
)

// Names of the methods that code must distinguish: the baseline that the others are
// compared with, and the two floors.
const (
	Baseline  = "lewm"
	Untrained = "untrained" // the initial weights of the baseline
	Random    = "random"    // uniform random actions
)

// latentSums is the group of methods whose planning cost is a sum of squares over one
// latent of D numbers.
const latentSums = "lewm"

// Terms that several methods have.
var (
	prediction = Term{Name: Prediction}
	sigreg     = Term{Name: SIGReg}
)

// methods is the table of all methods, in the order of the paper's tables, followed
// by the floors. A method's properties are defined here alone. Apart from this file,
// only the families' own packages, presets and published data refer to a method by
// name.
var methods = []Method{
	{Name: Baseline, Title: "LeWM", Family: FamilyLeWM, Group: latentSums, Terms: []Term{prediction, sigreg}},
	{Name: "scale", Title: "SCALE", Family: FamilyLeWM, Group: latentSums, Against: []string{Baseline, "aux"},
		Terms: []Term{prediction, sigreg, {Name: Correlation, UsesQ: true}}},
	{Name: "aux", Title: "Aux", Family: FamilyLeWM, Group: latentSums, Against: []string{Baseline},
		Terms: []Term{prediction, sigreg, {Name: Regression, UsesQ: true}}},
	{Name: "dinowm", Title: "DINO-WM", Family: FamilyDinoWM, Pretrained: true, NoGradient: true, Extra: true, Against: []string{Baseline}, Terms: []Term{prediction}},
	{Name: "dinowm-random", Title: "DINO-WM, random encoder", Family: FamilyDinoWM, NoGradient: true, Extra: true, Against: []string{Baseline}, Terms: []Term{prediction}},
	{Name: "gcidm", Title: "GC-IDM", Family: FamilyGCIDM, Policy: true, Extra: true, Against: []string{Baseline}, Terms: []Term{prediction}},
	{Name: "gcbc", Title: "GCBC", Family: FamilyGCBC, Policy: true, Extra: true, Against: []string{Baseline}, Terms: []Term{prediction}},
	{Name: OracleState, Title: "Oracle (state)", Extra: true, Against: []string{Baseline}, Replaced: Replacement{Simulator: true, Metric: StateDistance}},
	{Name: Untrained, Title: "Untrained", Family: FamilyLeWM, Group: latentSums, Floor: true, Against: []string{Baseline}},
	{Name: Random, Title: "Random", Floor: true},
}

// Methods returns all methods in the order of the paper's tables.
func Methods() []Method { return slices.Clone(methods) }

// MethodNames returns the names of the methods for which keep returns true, or all
// names if keep is nil.
func MethodNames(keep func(Method) bool) []string {
	var names []string
	for _, m := range methods {
		if keep == nil || keep(m) {
			names = append(names, m.Name)
		}
	}
	return names
}

// LookUp returns the method with the given name.
func LookUp(name string) (Method, error) {
	if i := methodIndex(name); i < len(methods) {
		return methods[i], nil
	}
	return Method{}, fmt.Errorf("no method named %q (hint: one of %s)", name, strings.Join(MethodNames(nil), ", "))
}

// Arm returns the name of the method's arm without variants. It includes a replacement, as
// in probe@lewm, and the encoder of a policy, as in gcidm@lewm.
func (m Method) Arm() string {
	parts := []string{m.Replaced.String(), m.Name, m.Encoder}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "@")
}

// ParseMethod returns the method of an arm without variants. A policy names the method of
// its encoder, as in gcidm@lewm, and a search with a replaced component that component, as
// in probe@lewm.
func ParseMethod(arm string) (Method, error) {
	name, encoder, on := strings.Cut(arm, "@")
	m, err := LookUp(name)
	switch {
	case err != nil && on:
		return replaced(name, encoder)
	case err != nil:
		if _, isReplacement := ParseReplacement(name); isReplacement == nil {
			err = fmt.Errorf("%s does not say in whose search it replaces a component (hint: as in %s@%s)", name, name, Baseline)
		}
		return m, err
	case !m.Policy && on:
		return m, fmt.Errorf("%s is not a policy on the latents of another arm (hint: %s; policies are %s)", name, name, strings.Join(MethodNames(func(m Method) bool { return m.Policy }), ", "))
	case !m.Policy:
		return m, nil
	case !on:
		return m, fmt.Errorf("%s does not say whose latents it is trained on (hint: as in %s@%s)", name, name, Baseline)
	}
	e, err := LookUp(encoder)
	if err == nil && (e.Policy || !e.HasModel()) {
		err = fmt.Errorf("%s has no latents to train %s on (hint: as in %s@%s)", encoder, name, name, Baseline)
	}
	m.Encoder = encoder
	return m, err
}

// replaced returns the method of an arm with a replacement in front.
func replaced(replacement, arm string) (Method, error) {
	r, err := ParseReplacement(replacement)
	if err != nil {
		return Method{}, err
	}
	m, err := ParseMethod(arm)
	if err == nil && (m.Family == "" || m.Policy || m.Replaced != Replacement{}) {
		err = fmt.Errorf("%s@%s: %s does not search with a world model of its own (hint: as in %s@%s)", replacement, arm, arm, replacement, Baseline)
	}
	m.Replaced = r
	return m, err
}

// MethodOf returns the method with the given name, for records that may come from a
// program with other methods. An unknown method uses its name as title and as family,
// plans with a model, belongs to no group and is compared with the baseline.
func MethodOf(name string) Method {
	m, err := LookUp(name)
	if err != nil {
		return Method{Name: name, Title: name, Family: name, Against: []string{Baseline}}
	}
	return m
}

// CompareMethods orders names as in the paper's tables. Unknown names come last, in
// alphabetical order.
func CompareMethods(a, b string) int {
	return cmp.Or(methodIndex(a)-methodIndex(b), strings.Compare(a, b))
}

// methodIndex returns the index of a method in the table, or len(methods) if it is
// unknown.
func methodIndex(name string) int {
	for i, m := range methods {
		if m.Name == name {
			return i
		}
	}
	return len(methods)
}
