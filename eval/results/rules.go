package results

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/starts"
	"scalewm/eval/success"
)

// Rules are the settings of an evaluation, independent of who acts. A new setting is a
// field here and a row of Settings; flags, keys of protocol files, keywords in Python,
// specs of cells and comparisons follow.
//
// Fields are stored in cells, whose ids must not change. The JSON key of a new field
// therefore has omitempty, and its zero value is the published setting. Settings that
// differ between the protocols paper and strict have the zero value of the protocol
// that Protocol names; Full writes them out and Short omits them.
type Rules struct {
	Protocol string `json:"protocol"` // name of the protocol, for readers: comparisons use the values below

	Split    string `json:"split,omitempty"`    // episodes from which starts are drawn: SplitAll or SplitHeldOut
	Pool     string `json:"pool,omitempty"`     // FullPool, or MinusOnePool: without the last valid start, as published
	Sampling string `json:"sampling,omitempty"` // how starts are drawn: RowUniform, EpisodeBalanced, EpisodeUniform or Permutation
	Solved   string `json:"solved,omitempty"`   // starts that already meet their goal: Kept or Excluded
	Filters  string `json:"filters,omitempty"`  // CrossRoom: Two-Room's starts and goals are in different rooms and clear of walls
	State    string `json:"state,omitempty"`    // RestStart: velocities of the start are set to 0; "": as recorded
	Manifest string `json:"manifest,omitempty"` // SHA-256 of the manifest that lists the starts; "" if there is none
	// OtherData accepts a manifest that was made for another data set, of which the same rows
	// are taken. In a cell it says that the data set is another one.
	OtherData bool `json:"other_data,omitempty"`

	GoalOffset int    `json:"goal_offset"`           // rows from start to goal
	GoalSource string `json:"goal_source,omitempty"` // Replayed: the state after the recorded actions; "": the recorded row
	Frames     string `json:"frames,omitempty"`      // Drawn: frames of start and goal are rendered; "": as stored

	Budget    int    `json:"budget"`               // env steps of an episode
	Horizon   int    `json:"horizon"`              // blocks of a plan
	Block     int    `json:"block,omitempty"`      // env steps of a block; 0 for UsualBlock
	Replan    int    `json:"replan,omitempty"`     // blocks that are executed before the next plan; 0 for all
	WarmStart bool   `json:"warm_start,omitempty"` // the next plan starts from the part of the last one that was not executed
	Act       string `json:"act,omitempty"`        // EachStep: policies act again after each env step; "": after each plan
	History   int    `json:"history,omitempty"`    // frames that a model sees; 0 for 1

	// Success is when the rule of success counts: "" after any step, SuccessLast after the
	// last one only, SuccessPlan after the last step of each plan. Judge is the rule; its
	// zero value is the upstream rule of the task.
	Success   string       `json:"success_rule,omitempty"`
	Judge     success.Rule `json:"judge,omitzero"`
	Collision string       `json:"collision,omitempty"` // Swept: Two-Room stops the agent's disc along its path
	Substeps  string       `json:"substeps,omitempty"`  // AllSubsteps: Reacher takes both physics steps, goal or not

	Precision  string `json:"precision"`             // of the planner's GEMMs; "" for random actions, and if another program predicts
	Origin     string `json:"origin,omitempty"`      // of the data set: collected, given or published; "" if unknown
	Clip       string `json:"clip,omitempty"`        // bounds of iCEM's z-scored actions: RawClip, env or none
	ActionClip bool   `json:"action_clip,omitempty"` // clip plans to the task's bounds before they are executed
	Scaling    string `json:"scaling,omitempty"`     // data whose moments scale actions: ScaledByFile or ScaledByTraining
	// Variance is that of the solver's first candidates; 0 for 1.
	Variance float64 `json:"variance,omitempty"`
	NoiseKey string  `json:"noise_key,omitempty"` // streams of planner noise: NoiseByIndex or NoiseBySet
	// PlannerNoise selects one of several independent streams of the planner's random draws.
	PlannerNoise int `json:"planner_noise,omitempty"`
	// Temperature is MPPI's. Before it is resolved for a task and a method, it may also be 0
	// (the paper's) or Tuned.
	Temperature float64 `json:"temperature,omitempty"`
}

// Values of Rules.
const (
	Paper  = "paper"
	Strict = "strict"
	// Changed follows the name of a protocol whose rules were changed by flags. OwnPairs
	// follows the name of one of CLEAR-LeWM, whose published results are on its manifests, if
	// the starts were drawn here, and OnOtherData the name of any if the manifest is for
	// another data set.
	Changed     = "+changed"
	OwnPairs    = "+own-pairs"
	OnOtherData = "+other-data"

	SplitAll         = "all"
	SplitHeldOut     = "held-out"
	RowUniform       = starts.RowUniform
	EpisodeBalanced  = starts.EpisodeBalanced
	EpisodeUniform   = starts.EpisodeUniform
	Permutation      = starts.Permutation
	Kept             = "kept"
	Excluded         = "excluded"
	CrossRoom        = "cross-room"
	RestStart        = "rest"
	Replayed         = "replayed"
	Drawn            = "drawn"
	EachStep         = "step"
	SuccessLast      = "last"
	SuccessPlan      = "plan"
	Swept            = "swept"
	AllSubsteps      = "all"
	ScaledByFile     = "file"
	ScaledByTraining = "training"
	NoiseByIndex     = "index"
	NoiseBySet       = "set"
	Tuned            = -1.0 // Temperature: to be chosen on TuningSet
)

// UsualBlock is the number of env steps of a block in all published protocols of world
// models. It equals the frame skip of training: the predictor maps one block to the
// latent that follows it.
const UsualBlock = 5

// Published returns the rules of the published evaluation
// (docs/sources.md#evaluation-loop). All blocks of a plan are executed before the next plan.
func Published() Rules {
	return Rules{Protocol: Paper, Clip: RawClip, Horizon: 5, Budget: 50, GoalOffset: 25}
}

// base holds the settings whose zero value depends on the protocol. A protocol of another
// name than strict has the zero values of paper.
func base(protocol string) Rules {
	if protocol == Strict {
		return Rules{Split: SplitHeldOut, Pool: FullPool, Sampling: Permutation, Solved: Excluded, Scaling: ScaledByTraining, NoiseKey: NoiseBySet}
	}
	return Rules{Split: SplitAll, Pool: MinusOnePool, Sampling: RowUniform, Solved: Kept, Scaling: ScaledByFile, NoiseKey: NoiseByIndex}
}

// Full returns the rules with every setting written out that depends on the protocol's
// name. Two evaluations have equal settings if these are equal but for the name.
func (r Rules) Full() Rules {
	b := base(r.Protocol)
	for _, s := range Settings {
		if from, to := s.text(&b), s.text(&r); from != nil && *from != "" && *to == "" {
			*to = *from
		}
	}
	return r
}

// Short returns the rules as cells store them: without what the protocol's name implies.
func (r Rules) Short() Rules {
	b := base(r.Protocol)
	for _, s := range Settings {
		if usual, is := s.text(&b), s.text(&r); usual != nil && *usual == *is {
			*is = ""
		}
	}
	return r
}

// Named returns the rules under another name, with equal settings.
func (r Rules) Named(protocol string) Rules {
	r = r.Full()
	r.Protocol = protocol
	return r
}

// For returns the rules for a task, without the settings that only another one has.
func (r Rules) For(task string) Rules {
	for _, s := range Settings {
		if s.Task != "" && s.Task != task {
			reflect.ValueOf(s.Field(&r)).Elem().SetZero()
		}
	}
	return r
}

// ProtocolOf returns the protocol in the name of a cell's protocol, without marks.
func ProtocolOf(name string) string {
	name, _, _ = strings.Cut(name, "+")
	return name
}

// ProtocolTitle returns the name of a cell's protocol for readers, without Changed: what was
// changed follows from the settings.
func ProtocolTitle(name string) string {
	title := ProtocolOf(name)
	for mark, words := range map[string]string{OwnPairs: " (own pairs)", OnOtherData: " (other data)"} { // at most one
		if strings.Contains(name, mark) {
			title += words
		}
	}
	return title
}

// HeldOut reports whether starts are drawn from held-out episodes only.
func (r Rules) HeldOut() bool { return r.Full().Split == SplitHeldOut }

// Training returns the protocol of the trainings that these rules evaluate: strict holds
// out the episodes from which starts are drawn.
func (r Rules) Training() string {
	if r.HeldOut() {
		return Strict
	}
	return Paper
}

// TrainingOf returns the protocol of the trainings that cells under a protocol of this
// name have, unless they state another: strict for strict, else paper.
func TrainingOf(protocol string) string {
	if protocol == Strict {
		return Strict
	}
	return Paper
}

// Steps returns the number of env steps of a block.
func (r Rules) Steps() int { return cmp.Or(r.Block, UsualBlock) }

// Executed returns the number of blocks that are executed before the next plan.
func (r Rules) Executed() int { return cmp.Or(r.Replan, r.Horizon) }

// Check returns an error for settings that contradict each other.
func (r Rules) Check() error {
	switch {
	case min(r.Budget, r.GoalOffset, r.Horizon) < 1, min(r.Replan, r.Block, r.History) < 0, r.Replan > r.Horizon:
		return fmt.Errorf("an evaluation of %d steps with goals %d rows ahead and %d of %d blocks executed (hint: all are positive, and a plan has at least the blocks that are executed)", r.Budget, r.GoalOffset, r.Executed(), r.Horizon)
	case r.Horizon > r.Budget/r.Steps():
		return fmt.Errorf("plans of %d blocks of %d env steps in a budget of %d (hint: a larger --budget, or a shorter plan.horizon in the protocol)", r.Horizon, r.Steps(), r.Budget)
	case r.History > 1:
		return fmt.Errorf("a history of %d frames: models here plan from one (hint: history.frames = 1)", r.History)
	}
	return nil
}

// Values of Setting.Of for settings that not every arm has. The name of a solver is
// another.
const (
	OfPlanners = "planners" // all arms except random actions
	OfSearches = "searches" // arms with a solver
	OfPolicies = "policies" // planners without a solver
)

// Setting is a row of the table of settings: where the value is, how people write it,
// and its role in comparisons.
type Setting struct {
	Name  string // JSON key in a Spec, and column of a CSV file
	Key   string // key in a protocol's file; "" if protocols do not have it
	Flag  string // flag of eval and reproduce and, with underscores, keyword in Python; "" if there is none
	Usage string // help text of the flag
	Of    string // the arms that have it: "" for all, OfPlanners, OfSearches, OfPolicies or a solver's name
	Task  string // the only task that has it; "" for all
	// Words are the valid values of a string, or the names of false and true of a bool in
	// reports. Numbers are the named values of a float64. Zero is the name of the zero value,
	// if it has one.
	Words   []string
	Numbers map[string]float64
	Zero    string
	Renames bool // a change of it by a flag is marked in the name of the protocol
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
	{Name: "protocol", Flag: "protocol", Usage: "name or TOML `file` of the evaluation protocol (`scalewm protocols` lists them); reproduce defaults to the preset's protocol",
		Say: "protocol %s", Field: func(r *Rules) any { return &r.Protocol }},
	{Name: "manifest", Pair: true, Say: "manifest %s", Zero: "none", Field: func(r *Rules) any { return &r.Manifest }},
	{Name: "split", Key: "starts.split", Words: []string{SplitAll, SplitHeldOut}, Renames: true, Pair: true, Say: "starts from %s episodes", Field: func(r *Rules) any { return &r.Split }},
	{Name: "pool", Key: "starts.pool", Flag: "pool", Usage: "`starts` that sets are drawn from: minus-one (without the last one, as published) or full",
		Words: []string{MinusOnePool, FullPool}, Say: "pool %s", Field: func(r *Rules) any { return &r.Pool }},
	{Name: "sampling", Key: "starts.sampling", Words: starts.Samplings, Renames: true, Say: "%s starts", Field: func(r *Rules) any { return &r.Sampling }},
	{Name: "solved", Key: "starts.solved", Words: []string{Kept, Excluded}, Renames: true, Say: "solved starts %s", Field: func(r *Rules) any { return &r.Solved }},
	{Name: "filters", Key: "starts.filters", Task: "tworoom", Words: []string{CrossRoom}, Zero: "none", Renames: true, Say: "starts filtered by %s", Field: func(r *Rules) any { return &r.Filters }},
	{Name: "state", Key: "starts.state", Words: []string{RestStart}, Zero: "recorded", Renames: true, Pair: true, Say: "starts at %s", Field: func(r *Rules) any { return &r.State }},
	{Name: "other_data", Flag: "other-data", Usage: "accept a manifest of another data set, and take the same rows of this one; such results are not CLEAR-LeWM's",
		Words: []string{"own", "other"}, Pair: true, Say: "a manifest on %s data", Field: func(r *Rules) any { return &r.OtherData }},
	{Name: "precision", Of: OfPlanners, Say: "planned in %s", Field: func(r *Rules) any { return &r.Precision }},
	{Name: "success_rule", Key: "success.when", Words: []string{SuccessLast, SuccessPlan}, Zero: "any", Renames: true, Pair: true, Say: "success after %s step", Field: func(r *Rules) any { return &r.Success }},
	{Name: "judge", Zero: success.Upstream, Renames: true, Pair: true, Say: "success: %s", Field: func(r *Rules) any { return &r.Judge }},
	{Name: "collision", Key: "physics.collision", Task: "tworoom", Words: []string{Swept}, Zero: "official", Renames: true, Pair: true, Say: "%s collisions", Field: func(r *Rules) any { return &r.Collision }},
	{Name: "substeps", Key: "physics.substeps", Task: "reacher", Words: []string{AllSubsteps}, Zero: "first", Renames: true, Pair: true, Say: "physics steps until the %s goal", Field: func(r *Rules) any { return &r.Substeps }},
	{Name: "origin", Words: []string{"collected", "given", "published"}, Say: "data %s", Field: func(r *Rules) any { return &r.Origin }},
	{Name: "budget", Key: "budget", Flag: "budget", Usage: "end an episode after `n` env steps; default: the protocol's", Renames: true, Pair: true, Say: "%s steps allowed", Field: func(r *Rules) any { return &r.Budget }},
	{Name: "goal_offset", Key: "goal.offset", Flag: "goal-offset", Usage: "take the goal `n` rows after the start; default: the protocol's", Renames: true, Pair: true, Say: "goals %s rows ahead", Field: func(r *Rules) any { return &r.GoalOffset }},
	{Name: "goal_source", Key: "goal.source", Words: []string{Replayed}, Zero: "row", Renames: true, Pair: true, Say: "goals %s", Field: func(r *Rules) any { return &r.GoalSource }},
	{Name: "frames", Key: "goal.frame", Words: []string{Drawn}, Zero: "stored", Renames: true, Pair: true, Say: "frames of start and goal %s", Field: func(r *Rules) any { return &r.Frames }},
	{Name: "horizon", Key: "plan.horizon", Of: OfPlanners, Renames: true, Pair: true, Say: "horizon %s", Field: func(r *Rules) any { return &r.Horizon }},
	{Name: "block", Key: "plan.block", Of: OfPlanners, Zero: strconv.Itoa(UsualBlock), Renames: true, Pair: true, Say: "blocks of %s steps", Field: func(r *Rules) any { return &r.Block }},
	{Name: "replan", Key: "plan.execute", Flag: "execute", Usage: "execute `n` blocks of a plan before the next one; default: the protocol's", Of: OfPlanners, Zero: "all", Renames: true, Pair: true, Say: "%s blocks executed", Field: func(r *Rules) any { return &r.Replan }},
	{Name: "warm_start", Key: "plan.warm_start", Flag: "warm-start", Usage: "start each plan from the part of the last one that was not executed", Of: OfSearches,
		Words: []string{"cold", "warm"}, Renames: true, Pair: true, Say: "%s start of plans", Field: func(r *Rules) any { return &r.WarmStart }},
	{Name: "act", Key: "act.every", Of: OfPolicies, Words: []string{EachStep}, Zero: "plan", Renames: true, Say: "policies act every %s", Field: func(r *Rules) any { return &r.Act }},
	{Name: "history", Key: "history.frames", Of: OfPlanners, Zero: "1", Renames: true, Pair: true, Say: "history of %s frames", Field: func(r *Rules) any { return &r.History }},
	{Name: "clip", Key: "solver.clip", Flag: "icem-clip", Usage: "`bounds` to which icem clips z-scored actions: raw (the task's bounds, unscaled, as published), env (the task's bounds as z-scores) or none", Of: ICEM,
		Words: []string{RawClip, "env", "none"}, Pair: true, Usual: RawClip, Say: "clip %s", Field: func(r *Rules) any { return &r.Clip }},
	{Name: "variance", Key: "solver.variance", Of: OfSearches, Zero: "1", Renames: true, Pair: true, Say: "variance %s", Field: func(r *Rules) any { return &r.Variance }},
	{Name: "action_clip", Key: "actions.clip", Flag: "action-clip", Usage: "clip planned actions to the task's bounds before they are executed (the published evaluation does not)", Of: OfPlanners,
		Words: []string{"as planned", "within the task's bounds"}, Pair: true, Usual: "as planned", Say: "actions executed %s", Field: func(r *Rules) any { return &r.ActionClip }},
	{Name: "scaling", Key: "actions.scaling", Of: OfPlanners, Words: []string{ScaledByFile, ScaledByTraining}, Renames: true, Pair: true, Say: "actions scaled by the %s data", Field: func(r *Rules) any { return &r.Scaling }},
	{Name: "noise_key", Key: "noise.key", Of: OfSearches, Words: []string{NoiseByIndex, NoiseBySet}, Renames: true, Pair: true, Say: "noise by %s", Field: func(r *Rules) any { return &r.NoiseKey }},
	{Name: "planner_noise", Key: "noise.stream", Flag: "planner-noise", Usage: "`number` of the planner's noise stream: 0 is the published one, others show how much results vary with the noise", Of: OfSearches,
		Pair: true, Usual: "0", Say: "planner noise %s", Field: func(r *Rules) any { return &r.PlannerNoise }},
	{Name: "temperature", Key: "solver.temperature", Flag: "temperature", Usage: "mppi's `temperature`: stock (0.5), paper (64/32/32/64/256 by task), tuned (chosen on s101 with lewm), or a number", Of: MPPI,
		Numbers: map[string]float64{"stock": StockTemperature, "tuned": Tuned}, Zero: "paper", Pair: true, Open: true, Say: "temperature %s", Field: func(r *Rules) any { return &r.Temperature }},
}

// text returns a pointer to the setting's field if that is a string that has no name for
// its zero value, nil otherwise. Such fields depend on the protocol.
func (s Setting) text(r *Rules) *string {
	p, ok := s.Field(r).(*string)
	if !ok || s.Zero != "" || s.Key == "" {
		return nil
	}
	return p
}

// Of returns the rules that apply to an arm; the others are set to zero, so that they
// do not distinguish its cells. plans reports whether the arm plans, and solver is ""
// if it does not search.
func (r Rules) Of(solver string, plans bool) Rules {
	// Random actions are tested at the ends of the plans that a search would have.
	tested := r.Success == SuccessPlan
	for _, s := range Settings {
		if tested && slices.Contains([]string{"horizon", "block", "replan"}, s.Name) {
			continue
		}
		if s.Of != "" && !(s.Of == OfPlanners && plans || s.Of == OfSearches && solver != "" || s.Of == OfPolicies && plans && solver == "" || s.Of == solver) {
			reflect.ValueOf(s.Field(&r)).Elem().SetZero()
		}
	}
	return r
}

// Value returns the setting in the form in which people write it, or "" if the rules do
// not have it.
func (s Setting) Value(r Rules) string {
	if s.text(&r) != nil {
		r = r.Full()
	}
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
	case v.Kind() == reflect.String && (words == nil || slices.Contains(words, text)):
		v.SetString(text)
	case v.Kind() == reflect.String:
		err = strconv.ErrSyntax
	default:
		words = append(slices.Sorted(maps.Keys(s.Numbers)), "a number from 0 on")
		if _, err = fmt.Sscanln(text, s.Field(r)); v.CanInt() && v.Int() < 0 || v.CanFloat() && !(v.Float() > 0 && v.Float() <= 1e9) {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		return fmt.Errorf("unknown %s %q (hint: %s)", strings.ReplaceAll(s.Name, "_", " "), text, strings.Trim(s.Zero+", "+strings.Join(words, ", "), ", "))
	}
	return nil
}

// TOML returns the setting's value as a protocol's file has it.
func (s Setting) TOML(r Rules) string {
	v := s.Value(r)
	if s.Bool() {
		return fmt.Sprint(reflect.ValueOf(s.Field(&r)).Elem())
	}
	if _, err := strconv.ParseFloat(v, 64); err != nil {
		return strconv.Quote(v)
	}
	return v
}

// Implied returns the value that the names Paper and Strict stand for, "" for other names
// and for settings that do not depend on the name.
func (s Setting) Implied(protocol string) string {
	b := base(protocol)
	if p := s.text(&b); p != nil && (protocol == Paper || protocol == Strict) {
		return *p
	}
	return ""
}

// Bool reports whether the setting is a bool.
func (s Setting) Bool() bool { _, ok := s.Field(new(Rules)).(*bool); return ok }

// Default returns the published value as people write it, or "" for numbers of the
// protocol, which have no other default.
func (s Setting) Default() string {
	if s.Renames && !s.Bool() {
		return ""
	}
	r := Published().Full()
	return cmp.Or(s.Zero, fmt.Sprint(reflect.ValueOf(s.Field(&r)).Elem()))
}

// Keyword returns the setting's keyword in Python, or "" if it has none.
func (s Setting) Keyword() string { return strings.ReplaceAll(s.Flag, "-", "_") }
