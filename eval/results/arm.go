package results

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/eval/presets"
	"scalewm/model"
)

// Arm names who acts in a cell: METHOD[@VARIANT...], or WRAPPER@ARM, where the rest after the first @ is an
// arm again: "scale@half@w=0.3", "topk=8@lewm". The method is the first part that the table of methods has, and
// without one the first part. Wrappers and Variants hold their parts with an @ between them.
type Arm struct{ Wrappers, Method, Variants string }

// ParseArm reads an arm's name. It returns an error for names that safefile.CheckName rejects, and for empty parts.
func ParseArm(name string) (Arm, error) {
	if err := safefile.CheckName(name); err != nil {
		return Arm{}, fmt.Errorf("the arm %q: %w", name, err)
	}
	parts := strings.Split(name, "@")
	if slices.Contains(parts, "") {
		return Arm{}, fmt.Errorf("the arm %q has an empty part (hint: an arm is METHOD, METHOD@VARIANT or WRAPPER@ARM)", name)
	}
	return armOf(parts), nil
}

func armOf(parts []string) Arm {
	at := max(0, slices.IndexFunc(parts, func(p string) bool { _, err := model.LookUp(p); return err == nil }))
	return Arm{strings.Join(parts[:at], "@"), parts[at], strings.Join(parts[at+1:], "@")}
}

// String is the name that ParseArm reads.
func (a Arm) String() string {
	return strings.Join(slices.DeleteFunc([]string{a.Wrappers, a.Method, a.Variants}, func(s string) bool { return s == "" }), "@")
}

// MarshalText and UnmarshalText make the name an arm's form in JSON.
func (a Arm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

func (a *Arm) UnmarshalText(b []byte) (err error) {
	if len(b) > 0 {
		*a, err = ParseArm(string(b))
	}
	return err
}

// With is the arm with another variant.
func (a Arm) With(variant string) Arm {
	a.Variants = strings.TrimPrefix(a.Variants+"@"+variant, "@")
	return a
}

// WeightVariant is the variant of another weight of the method's own loss term.
func WeightVariant(weight float64) string { return "w=" + strconv.FormatFloat(weight, 'g', -1, 64) }

// Entry is the method's entry in the table of methods. A policy, whatever its name, does not search.
func (a Arm) Entry() model.Method {
	m := model.MethodOf(a.Method)
	if first, _, _ := strings.Cut(a.Variants, "@"); first == PythonPolicy {
		m.Family = ""
	}
	return m
}

// Plans says whether the arm searches with a model.
func (a Arm) Plans() bool { return a.Entry().Plans() }

// Floor says whether the arm is one that every method should beat.
func (a Arm) Floor() bool { return a.Entry().Floor }

// CompareArms orders arms as tables do: by method, the plain one before its variants.
func CompareArms(a, b Arm) int {
	return cmp.Or(model.CompareMethods(a.Method, b.Method), strings.Compare(a.String(), b.String()))
}

// Arm is who acts in the spec's cell: the method, with the task state that its loss saw and the weight of
// its loss term as variants where these are not the method's defaults. A model in Python says what it is, "mine@policy".
func (s Spec) Arm() Arm {
	a := Arm{Method: s.Method}
	if s.Python != "" {
		a = a.With(s.Python)
	}
	if s.Q != "" && s.Q != DefaultQ {
		a = a.With(s.Q)
	}
	for _, t := range model.MethodOf(s.Method).Terms {
		if w, _ := presets.Published().On(t.Name, s.Task); t.UsesQ && s.LossWeight != 0 && s.LossWeight != w {
			a = a.With(WeightVariant(s.LossWeight))
		}
	}
	return a
}

// Arm is that of the checkpoint which was analysed.
func (s AnalysisSpec) Arm() Arm {
	return Spec{Task: s.Task, Method: s.Method, Q: s.Q, LossWeight: s.LossWeight}.Arm()
}
