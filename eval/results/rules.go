package results

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Rules are the settings of an evaluation, independent of who acts. A new setting is a
// field here and a row of Settings; flags, keywords in Python, specs of cells and
// comparisons follow. The JSON key of a new field has omitempty, and its zero value is
// the published setting, so that the ids of existing cells do not change.
type Rules struct {
	Protocol string `json:"protocol"` // Paper or Strict
	// Split determines the episodes from which starts are drawn: SplitAll, SplitHeldOut, or
	// "" for those of the protocol.
	Split     string `json:"split,omitempty"`
	Pool      string `json:"pool,omitempty"` // FullPool, or "" for all but the last valid start, as published
	Precision string `json:"precision"`      // of the planner's GEMMs; "" for random actions, and if another program predicts
	// Success is the rule of success: "" if the goal may be met after any step, or SuccessLast
	// if it must be met after the last.
	Success    string `json:"success_rule,omitempty"`
	Origin     string `json:"origin,omitempty"`      // of the data set: collected, given or published; "" if unknown
	Budget     int    `json:"budget"`                // env steps of an episode
	GoalOffset int    `json:"goal_offset"`           // rows from start to goal
	Horizon    int    `json:"horizon"`               // blocks of a plan
	Replan     int    `json:"replan,omitempty"`      // blocks that are executed before the next plan; 0 for all
	Clip       string `json:"clip,omitempty"`        // bounds of iCEM's z-scored actions: RawClip, env or none
	ActionClip bool   `json:"action_clip,omitempty"` // clip plans to the task's bounds before they are executed
	// PlannerNoise selects one of several independent streams of the planner's random draws.
	PlannerNoise int `json:"planner_noise,omitempty"`
	// Temperature is MPPI's. Before it is resolved for a task and a method, it may also be 0
	// (the paper's) or Tuned.
	Temperature float64 `json:"temperature,omitempty"`
}

// Values of Rules.
const (
	Paper        = "paper"
	Strict       = "strict"
	SplitAll     = "all"
	SplitHeldOut = "held-out"
	SuccessLast  = "last"
	Tuned        = -1.0 // Temperature: to be chosen on TuningSet
)

// Published returns the rules of the published evaluation
// (docs/sources.md#evaluation-loop). All blocks of a plan are executed before the next plan.
func Published() Rules {
	return Rules{Protocol: Paper, Clip: RawClip, Horizon: 5, Budget: 50, GoalOffset: 25}
}

// HeldOut reports whether starts are drawn from held-out episodes only.
func (r Rules) HeldOut() bool {
	return r.Split == SplitHeldOut || r.Split == "" && r.Protocol == Strict
}

// Check returns an error for settings that contradict each other.
func (r Rules) Check() error {
	switch {
	case r.Pool == FullPool && r.Protocol == Strict:
		return errors.New("--pool full chooses among the starts of protocol paper; strict draws from those in held-out episodes alone (hint: leave --pool out, or give --protocol paper)")
	case min(r.Budget, r.GoalOffset, r.Horizon) < 1, r.Replan < 0, r.Replan > r.Horizon:
		return fmt.Errorf("an evaluation of %d steps with goals %d rows ahead and %d of %d blocks executed (hint: all are positive, and a plan has at least the blocks that are executed)", r.Budget, r.GoalOffset, r.Replan, r.Horizon)
	}
	return nil
}

// Executed returns the number of blocks that are executed before the next plan.
func (r Rules) Executed() int { return cmp.Or(r.Replan, r.Horizon) }

// Values of Setting.Of for settings that not every arm has. The name of a solver is
// another.
const (
	OfPlanners = "planners" // all arms except random actions
	OfSearches = "searches" // arms with a solver
)

// Setting is a row of the table of settings: where the value is, how people write it,
// and its role in comparisons.
type Setting struct {
	Name  string // JSON key in a Spec, and column of a CSV file
	Flag  string // flag of eval and reproduce and, with underscores, keyword in Python; "" if there is none
	Usage string // help text of the flag
	Of    string // the arms that have it: "" for all, OfPlanners, OfSearches or a solver's name
	// Words are the valid values of a string, or the names of false and true of a bool in
	// reports. Numbers are the named values of a float64. Zero is the name of the zero value,
	// if it has one.
	Words   []string
	Numbers map[string]float64
	Zero    string
	Pair    bool // outcomes may be paired only if they agree in it
	Open    bool // a cell without it agrees with all values, instead of having an unknown one
	// Usual is the default of a factor, which is a setting that may be varied for a study, in
	// the form of Value. It is "" for other settings.
	Usual string
	Say   string             // format of the setting for readers; %s is its value
	Field func(r *Rules) any // returns a pointer to the field
}

// Settings is the table of the fields of Rules, in the order in which reports list them.
var Settings = []Setting{
	{Name: "protocol", Flag: "protocol", Usage: "`rules`: paper, or strict (held-out episodes only); reproduce defaults to the preset's protocol",
		Words: []string{Paper, Strict}, Pair: true, Say: "protocol %s", Field: func(r *Rules) any { return &r.Protocol }},
	{Name: "split", Words: []string{SplitAll, SplitHeldOut}, Zero: "the protocol's", Pair: true, Say: "starts from %s episodes", Field: func(r *Rules) any { return &r.Split }},
	{Name: "pool", Flag: "pool", Usage: "`starts` that sets are drawn from: minus-one (without the last one, as published) or full",
		Words: []string{FullPool}, Zero: MinusOnePool, Say: "pool %s", Field: func(r *Rules) any { return &r.Pool }},
	{Name: "precision", Of: OfPlanners, Say: "planned in %s", Field: func(r *Rules) any { return &r.Precision }},
	{Name: "success_rule", Words: []string{SuccessLast}, Zero: "any", Pair: true, Say: "success after %s step", Field: func(r *Rules) any { return &r.Success }},
	{Name: "origin", Words: []string{"collected", "given", "published"}, Say: "data %s", Field: func(r *Rules) any { return &r.Origin }},
	{Name: "budget", Pair: true, Say: "%s steps allowed", Field: func(r *Rules) any { return &r.Budget }},
	{Name: "goal_offset", Pair: true, Say: "goals %s rows ahead", Field: func(r *Rules) any { return &r.GoalOffset }},
	{Name: "horizon", Of: OfPlanners, Pair: true, Say: "horizon %s", Field: func(r *Rules) any { return &r.Horizon }},
	{Name: "replan", Of: OfPlanners, Zero: "all", Pair: true, Say: "%s blocks executed", Field: func(r *Rules) any { return &r.Replan }},
	{Name: "clip", Flag: "icem-clip", Usage: "`bounds` to which icem clips z-scored actions: raw (the task's bounds, unscaled, as published), env (the task's bounds as z-scores) or none", Of: ICEM,
		Words: []string{RawClip, "env", "none"}, Pair: true, Usual: RawClip, Say: "clip %s", Field: func(r *Rules) any { return &r.Clip }},
	{Name: "action_clip", Flag: "action-clip", Usage: "clip planned actions to the task's bounds before they are executed (the published evaluation does not)", Of: OfPlanners,
		Words: []string{"as planned", "within the task's bounds"}, Pair: true, Usual: "as planned", Say: "actions executed %s", Field: func(r *Rules) any { return &r.ActionClip }},
	{Name: "planner_noise", Flag: "planner-noise", Usage: "`number` of the planner's noise stream: 0 is the published one, others show how much results vary with the noise", Of: OfSearches,
		Pair: true, Usual: "0", Say: "planner noise %s", Field: func(r *Rules) any { return &r.PlannerNoise }},
	{Name: "temperature", Flag: "temperature", Usage: "mppi's `temperature`: stock (0.5), paper (64/32/32/64/256 by task), tuned (chosen on s101 with lewm), or a number", Of: MPPI,
		Numbers: map[string]float64{"stock": StockTemperature, "tuned": Tuned}, Zero: "paper", Pair: true, Open: true, Say: "temperature %s", Field: func(r *Rules) any { return &r.Temperature }},
}

// Of returns the rules that apply to an arm; the others are set to zero, so that they
// do not distinguish its cells. plans reports whether the arm plans, and solver is ""
// if it does not search.
func (r Rules) Of(solver string, plans bool) Rules {
	for _, s := range Settings {
		if s.Of != "" && !(s.Of == OfPlanners && plans || s.Of == OfSearches && solver != "" || s.Of == solver) {
			reflect.ValueOf(s.Field(&r)).Elem().SetZero()
		}
	}
	return r
}

// Value returns the setting in the form in which people write it, or "" if the rules do
// not have it.
func (s Setting) Value(r Rules) string {
	switch v := reflect.ValueOf(s.Field(&r)).Elem(); {
	case s.Bool() && v.Bool():
		return s.Words[1]
	case s.Bool():
		return s.Words[0]
	case v.IsZero() && (s.Zero != "" || v.CanFloat()):
		return s.Zero
	default:
		return fmt.Sprint(v)
	}
}

// Set parses a value as people write it.
func (s Setting) Set(r *Rules, text string) (err error) {
	v, words := reflect.ValueOf(s.Field(r)).Elem(), s.Words
	number, named := s.Numbers[text]
	switch {
	case text == s.Zero && s.Zero != "":
		v.SetZero()
	case named:
		v.SetFloat(number)
	case v.Kind() == reflect.String && slices.Contains(words, text):
		v.SetString(text)
	case v.Kind() == reflect.String:
		err = strconv.ErrSyntax
	default:
		words = append(slices.Sorted(maps.Keys(s.Numbers)), "a "+v.Kind().String()+" from 0 on")
		if _, err = fmt.Sscanln(text, s.Field(r)); v.CanInt() && v.Int() < 0 || v.CanFloat() && !(v.Float() > 0 && v.Float() <= 1e9) {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		return fmt.Errorf("unknown %s %q (hint: %s)", strings.ReplaceAll(s.Name, "_", " "), text, strings.Trim(s.Zero+", "+strings.Join(words, ", "), ", "))
	}
	return nil
}

// Bool reports whether the setting is a bool.
func (s Setting) Bool() bool { _, ok := s.Field(new(Rules)).(*bool); return ok }

// Default returns the published value as people write it.
func (s Setting) Default() string {
	r := Published()
	return cmp.Or(s.Zero, fmt.Sprint(reflect.ValueOf(s.Field(&r)).Elem()))
}

// Keyword returns the setting's keyword in Python, or "" if it has none.
func (s Setting) Keyword() string { return strings.ReplaceAll(s.Flag, "-", "_") }
