package results

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"scalewm/dataset/safefile"
)

// The method is the first part that is in the table of methods (docs/architecture.md),
// or the first part if none is.
var armNames = map[string]Arm{
	"scale":            {Method: "scale"},
	"scale@half":       {Method: "scale", Variants: "half"},
	"scale@half@w=0.3": {Method: "scale", Variants: "half@w=0.3"},
	"gcidm@lewm":       {Method: "gcidm", Variants: "lewm"},
	"gcbc@scale@half":  {Method: "gcbc", Variants: "scale@half"},
	"topk=8@lewm":      {Wrappers: "topk=8", Method: "lewm"},
	"probe@scale@half": {Wrappers: "probe", Method: "scale", Variants: "half"},
	"mine@policy":      {Method: "mine", Variants: "policy"},
	"mine":             {Method: "mine"},
}

var noArms = []string{"", "@", "a@@b", "@x", "x@", "../x", "a b", "<script>", "a\nb"}

func TestParseArm(t *testing.T) {
	for name, want := range armNames {
		got, err := ParseArm(name)
		if err != nil || got != want || got.String() != name {
			t.Errorf("%q: %+v, written %q, %v; want %+v", name, got, got, err, want)
		}
		var back Arm
		if b, err := json.Marshal(want); err != nil || json.Unmarshal(b, &back) != nil || back != want {
			t.Errorf("%q in JSON: %s, %+v, %v", name, b, back, err)
		}
	}
	for _, name := range noArms {
		if a, err := ParseArm(name); err == nil || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%q: %+v, %v; want an error with a hint", name, a, err)
		}
	}
}

// Names that are accepted may be parts of paths, and are written as they were read.
func FuzzParseArm(f *testing.F) {
	for name := range armNames {
		f.Add(name)
	}
	for _, name := range noArms {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		a, err := ParseArm(name)
		if err != nil {
			return
		}
		if again, err := ParseArm(a.String()); a.String() != name || err != nil || again != a || a.Method == "" || safefile.CheckName(name) != nil {
			t.Errorf("%q is %+v, written %q and read again as %+v, %v", name, a, a, again, err)
		}
	})
}

// The variants of a spec are what differs from its method's defaults (0.1 is SCALE's
// weight). A policy does not search.
func TestArmOfSpec(t *testing.T) {
	for want, s := range map[string]Spec{
		"scale":            {Task: "tworoom", Method: "scale", Q: DefaultQ, LossWeight: .1},
		"scale@half@w=0.3": {Task: "tworoom", Method: "scale", Q: "half", LossWeight: .3},
		"mine@policy":      {Task: "tworoom", Method: "mine", Python: PythonPolicy},
		"lewm":             {Task: "tworoom", Method: "lewm"},
	} {
		a := s.Arm()
		if a.String() != want || a.Plans() != (s.Python != PythonPolicy) || a.Floor() {
			t.Errorf("%+v: %s, plans %v, floor %v; want %s", s, a, a.Plans(), a.Floor(), want)
		}
	}
	if a := (Spec{Method: "lewm"}).Arm().With("x").With("y"); a.String() != "lewm@x@y" {
		t.Errorf("with two variants it is %s", a)
	}
}

// Arms are in the order of the table of methods, policies in that of their encoders, each
// method before its variants, and unknown ones last.
func TestCompareArms(t *testing.T) {
	want := []string{"lewm", "scale", "scale@half", "aux", "aux@proposal=gcidm", "gcidm@lewm", "gcidm@scale", "gcidm@scale@half", "gcidm@aux", "random", "mine"}
	got := slices.Clone(want)
	slices.Sort(got)
	slices.SortFunc(got, func(a, b string) int { return CompareArms(armNamed(t, a), armNamed(t, b)) })
	if !slices.Equal(got, want) {
		t.Errorf("in the order %q, want %q", got, want)
	}
}

func armNamed(t *testing.T, name string) Arm {
	t.Helper()
	a, err := ParseArm(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The origin of an arm is the one that it differs from by one component: the checkpoint
// that encodes a policy's frames, the search without a proposal.
func TestOrigin(t *testing.T) {
	for name, want := range map[string]string{
		"gcidm@lewm": "lewm", "gcbc@scale@half": "scale@half", "lewm@proposal=gcidm": "lewm", "scale@half@proposal=gcidm": "scale@half",
		"lewm": "", "scale@half": "", "gcidm": "", "mine@policy": "", "random": "",
	} {
		arm, err := ParseArm(name)
		if err != nil {
			t.Fatal(err)
		}
		if origin, ok := arm.Origin(); origin.String() != want || ok != (want != "") {
			t.Errorf("the origin of %s is %q, %v, want %q", name, origin, ok, want)
		}
	}
}

// A spec and its arm's name state the encoder and the proposal (docs/architecture.md).
func TestArmOfPolicy(t *testing.T) {
	for want, s := range map[string]Spec{
		"gcidm@scale@half":    {Method: "gcidm", Encoder: "scale@half", Targets: ZScored},
		"lewm@proposal=gcidm": {Method: "lewm", Proposal: "gcidm", Solver: CEM},
	} {
		if got := s.Arm().String(); got != want {
			t.Errorf("%+v is the arm %s, want %s", s, got, want)
		}
	}
	policy, search := Spec{Method: "gcidm", Encoder: "lewm", Weights: "w"}, Spec{Method: "lewm", Proposal: "gcidm", Weights: "w", Solver: CEM}
	if policy.Arm().Plans() || !search.Arm().Plans() {
		t.Error("a policy does not search; a search with a proposal does")
	}
	// By hand: a policy's calls are its own; of a search's 2 x 10 + 2 calls, a proposal made one for each plan.
	if c := Compute(policy, Row{Steps: 12, Replans: 12, PredictorCalls: 12}); c.HeadCalls != 12 || c.PredictorCalls != 0 {
		t.Errorf("a policy made %+v", c)
	}
	if c := Compute(search, Row{Steps: 50, Replans: 2, PredictorCalls: 22}); c.HeadCalls != 2 || c.PredictorCalls != 20 {
		t.Errorf("a search with a proposal made %+v", c)
	}
}
