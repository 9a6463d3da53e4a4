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

// Arm names who acts in a cell, in the form METHOD[@VARIANT...] or WRAPPER@ARM: the
// part after the first @ of the latter is an arm again. Examples are "scale@half@w=0.3"
// and "topk=8@lewm". The method is the first part that is in the table of methods, or
// the first part if none is. Wrappers and Variants contain the parts before and after
// it, separated by @.
type Arm struct{ Wrappers, Method, Variants string }

// ParseArm parses an arm's name. It returns an error for names that safefile.CheckName
// rejects, and for empty parts.
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

// armOf returns the arm with the given parts of a name.
func armOf(parts []string) Arm {
	at := max(0, slices.IndexFunc(parts, func(p string) bool { _, err := model.LookUp(p); return err == nil }))
	return Arm{strings.Join(parts[:at], "@"), parts[at], strings.Join(parts[at+1:], "@")}
}

// String returns the name that ParseArm parses.
func (a Arm) String() string {
	return strings.Join(slices.DeleteFunc([]string{a.Wrappers, a.Method, a.Variants}, func(s string) bool { return s == "" }), "@")
}

// MarshalText returns the name, which represents the arm in JSON.
func (a Arm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText parses a name. The empty text is the zero Arm.
func (a *Arm) UnmarshalText(b []byte) (err error) {
	if len(b) > 0 {
		*a, err = ParseArm(string(b))
	}
	return err
}

// With returns the arm with a variant appended.
func (a Arm) With(variant string) Arm {
	a.Variants = strings.TrimPrefix(a.Variants+"@"+variant, "@")
	return a
}

// WeightVariant returns the variant of a training with another weight of the method's
// loss term.
func WeightVariant(weight float64) string { return "w=" + strconv.FormatFloat(weight, 'g', -1, 64) }

// Entry returns the method's row in the table of methods, without the arm's replacement. A
// Python policy never searches with a model, whatever its name.
func (a Arm) Entry() model.Method {
	m := model.MethodOf(a.Method)
	if first, _, _ := strings.Cut(a.Variants, "@"); first == PythonPolicy {
		m.Family = ""
	}
	return m
}

// Plans reports whether the arm searches with a model.
func (a Arm) Plans() bool { return a.Entry().Plans() }

// Floor reports whether the arm is a floor, which every method should exceed.
func (a Arm) Floor() bool { return a.Entry().Floor }

// Replacement returns which components of the arm's search are replaced.
func (a Arm) Replacement() model.Replacement {
	if a.Wrappers == "" {
		return a.Entry().Replaced
	}
	r, _ := model.ParseReplacement(a.Wrappers) // an unknown name, of another version, replaces nothing known
	return r
}

// Replaced reports whether components of the arm's search are replaced. Such an arm shows why
// a search succeeds or fails, and is no method.
func (a Arm) Replaced() bool {
	return a.Wrappers != "" || a.Replacement() != model.Replacement{}
}

// CompareArms orders arms as tables do: by the table of methods, policies of one method by
// their encoders in that table, and each method before its variants.
func CompareArms(a, b Arm) int {
	encoderOrVariant := func(a Arm) string { first, _, _ := strings.Cut(a.Variants, "@"); return first }
	return cmp.Or(model.CompareMethods(a.Method, b.Method), model.CompareMethods(encoderOrVariant(a), encoderOrVariant(b)), strings.Compare(a.String(), b.String()))
}

// Arm returns who acts in the spec's cell. The task state that its loss read and the
// weight of its loss term are variants if they differ from the method's defaults. For a
// trained policy the variant is the arm of its encoder, as in "gcidm@lewm", and for a search
// with a proposal the policy, as in "lewm@proposal=gcidm". A replaced component is a wrapper,
// as in "probe@lewm". For a Python model the variant
// states its kind, as in "mine@policy".
func (s Spec) Arm() Arm {
	a := Arm{Wrappers: s.Wrapper, Method: s.Method}
	if s.Encoder != "" {
		a = a.With(s.Encoder)
	}
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
	if s.Proposal != "" {
		a = a.WithProposal(s.Proposal)
	}
	return a
}

// proposalVariant begins the variant of an arm with a proposal.
const proposalVariant = "proposal="

// WithProposal returns the arm whose searches begin from the plans of a policy.
func (a Arm) WithProposal(method string) Arm { return a.With(proposalVariant + method) }

// Origin returns the arm that a differs from by one component: the encoder of a trained
// policy, the same search without its proposal or without its replacement. It returns false
// for other arms.
func (a Arm) Origin() (Arm, bool) {
	if a.Wrappers != "" {
		a.Wrappers = ""
		return a, true
	}
	if a.Entry().Policy && a.Variants != "" {
		return armOf(strings.Split(a.Variants, "@")), true
	}
	at := strings.LastIndex("@"+a.Variants, "@"+proposalVariant)
	if at < 0 {
		return Arm{}, false
	}
	a.Variants = strings.TrimSuffix(a.Variants[:at], "@")
	return a, true
}

// Arm returns the arm of the analysed checkpoint.
func (s AnalysisSpec) Arm() Arm {
	return Spec{Task: s.Task, Method: s.Method, Q: s.Q, LossWeight: s.LossWeight}.Arm()
}
