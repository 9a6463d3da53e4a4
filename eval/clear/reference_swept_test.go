package clear

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"scalewm/envs"
	"scalewm/envs/tworoom/disc"
	"scalewm/eval/success"

	_ "scalewm/envs/tworoom"
)

// Tolerances of the reference cases: of float64 numbers, of float32 positions, and of float32
// positions of an env that is driven by actions.
const (
	wideTolerance   = 1e-9
	narrowTolerance = 1e-5
	drivenTolerance = 1e-4
)

func init() { families["swept"] = testSwept }

// place is a place along the wall, or nil if the wall is not crossed.
type place *float64

// sweptFile is the layout of family swept (docs of the cases: the numbers are CLEAR-LeWM's).
type sweptFile struct {
	Geometries map[string]struct {
		Axis      int          `json:"wall_axis"`
		Thickness float64      `json:"thickness"`
		Radius    float64      `json:"radius"`
		Doors     [][2]float64 `json:"doors"`
		Solids    [][4]float64 `json:"solids"`
		Clear     [][2]float64 `json:"clear_door_intervals"`
		Bounds    [2]float64   `json:"center_bounds"`
	} `json:"geometries"`
	Moves []struct {
		Geometry   string     `json:"geometry"`
		From       disc.Point `json:"from"`
		To         disc.Point `json:"to"`
		End        disc.Point `json:"end"`
		Contacts   int        `json:"contacts"`
		FromClear  bool       `json:"from_clear"`
		EndClear   bool       `json:"end_clear"`
		RouteValid bool       `json:"route_valid"`
		Crosses    place      `json:"crosses"`
		Straight   struct {
			Valid   bool  `json:"valid"`
			Wall    bool  `json:"wall"`
			Illegal bool  `json:"illegal"`
			Crosses place `json:"crosses"`
		} `json:"straight"`
	} `json:"moves"`
	Trajectories []trajectory `json:"trajectories"`
	Recorded     []struct {
		Position      []disc.Point `json:"position"`
		StepValid     []bool       `json:"step_valid"`
		InvalidBefore []int        `json:"invalid_before"`
		Crossings     []int        `json:"crossings"`
	} `json:"recorded"`
	Geodesics []struct {
		From      disc.Point `json:"from"`
		To        disc.Point `json:"to"`
		Length    float64    `json:"length"`
		CrossRoom bool       `json:"cross_room"`
	} `json:"geodesics"`
}

// trajectory is an episode on the canonical floor.
type trajectory struct {
	Start      disc.Point   `json:"start"`
	Goal       disc.Point   `json:"goal"`
	Speed      float64      `json:"speed"`
	StartClear bool         `json:"start_clear"`
	GoalClear  bool         `json:"goal_clear"`
	CrossRoom  bool         `json:"cross_room"`
	Action     [][]float64  `json:"action"`
	To         []disc.Point `json:"to"`
	Position   []disc.Point `json:"position"`
	Contacts   []int        `json:"contacts"`
	RouteValid []bool       `json:"route_valid"`
	Crossings  []int        `json:"crossings"`
	Side       []int        `json:"side"`
	ModerateAt *int         `json:"moderate_at"`
	StrictAt   *int         `json:"strict_at"`
}

// near reports whether all numbers are within a tolerance of those expected.
func near(got, want []float64, tolerance float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= tolerance })
}

// samePlace compares a place where the wall is crossed with that of a case.
func samePlace(got float64, want place) bool {
	if want == nil {
		return math.IsNaN(got)
	}
	return math.Abs(got-*want) <= wideTolerance
}

func testSwept(t *testing.T, path string) {
	var f sweptFile
	load(t, path, &f)
	floors := map[string]*disc.Geometry{"": disc.Canonical()}
	for name, c := range f.Geometries {
		g := disc.New(c.Axis == 1, c.Thickness, c.Radius, c.Doors)
		floors[name] = g
		low, high := g.Bounds()
		if !slices.Equal(g.Solids(), c.Solids) || !slices.Equal(g.ClearDoors(), c.Clear) || [2]float64{low, high} != c.Bounds {
			t.Errorf("floor %s: solids %v, doors %v, bounds %g, %g; want %+v", name, g.Solids(), g.ClearDoors(), low, high, c)
		}
	}
	for i, c := range f.Moves {
		g := floors[c.Geometry]
		if g == nil {
			t.Fatalf("move %d: no geometry %q", i, c.Geometry)
		}
		end, contacts := g.Move(c.From, c.To)
		if !near(end[:], c.End[:], wideTolerance) || contacts != c.Contacts || g.Clear(c.From) != c.FromClear || g.Clear(end) != c.EndClear {
			t.Errorf("move %d: end %v, %d contacts, clear %v and %v; want %+v", i, end, contacts, g.Clear(c.From), g.Clear(end), c)
		}
		if r := g.Route(c.From, c.End); r.Valid != c.RouteValid || !samePlace(r.Crosses, c.Crosses) {
			t.Errorf("move %d: route %+v, want %+v", i, r, c)
		}
		if r, s := g.Route(c.From, c.To), c.Straight; r.Valid != s.Valid || r.Wall != s.Wall || r.Illegal != s.Illegal || !samePlace(r.Crosses, s.Crosses) {
			t.Errorf("move %d: straight route %+v, want %+v", i, r, c)
		}
	}
	for i, c := range f.Trajectories {
		testTrajectory(t, i, c)
	}
	for i, c := range f.Recorded {
		invalid, crossings := 0, 0
		for k, p := range c.Position {
			if k > 0 {
				r := disc.Canonical().Route(c.Position[k-1], p)
				if r.Valid != c.StepValid[k-1] {
					t.Errorf("recorded %d: step %d is valid: %v", i, k-1, r.Valid)
				}
				if !r.Valid {
					invalid++
				}
				if r.Crossed() {
					crossings++
				}
			}
			if invalid != c.InvalidBefore[k] || k > 0 && crossings != c.Crossings[k-1] {
				t.Errorf("recorded %d, row %d: %d invalid steps, %d crossings; want %+v", i, k, invalid, crossings, c)
			}
		}
	}
	for i, c := range f.Geodesics {
		g := disc.Canonical()
		if got := g.Path(c.From, c.To); math.Abs(got-c.Length) > wideTolerance || g.Crosses(c.From, c.To) != c.CrossRoom {
			t.Errorf("geodesic %d: %g, crosses %v; want %+v", i, got, g.Crosses(c.From, c.To), c)
		}
	}
}

// testTrajectory moves the disc to the places of a case, judges it by both rules, and drives an
// env by the actions.
func testTrajectory(t *testing.T, i int, c trajectory) {
	g := disc.Canonical()
	if g.Clear(c.Start) != c.StartClear || g.Clear(c.Goal) != c.GoalClear || g.Crosses(c.Start, c.Goal) != c.CrossRoom {
		t.Errorf("trajectory %d: start clear %v, goal clear %v, cross-room %v", i, g.Clear(c.Start), g.Clear(c.Goal), g.Crosses(c.Start, c.Goal))
	}
	start, goal := envs.Row{"state": c.Start[:]}, envs.Row{"state": c.Goal[:]}
	task, err := envs.Lookup("tworoom")
	if err != nil {
		t.Fatal(err)
	}
	options := envs.Options{"collision": "swept"}
	// The env's speed has bounds, which a case need not have.
	speed, _ := task.Spec.Factor("agent.speed")
	driven := speed.Low <= c.Speed && c.Speed <= speed.High
	if driven {
		options[speed.Name] = strconv.FormatFloat(c.Speed, 'g', -1, 64)
	}
	world, err := task.New(options)
	if err != nil {
		t.Fatal(err)
	}
	defer world.Close()
	for _, err := range []error{world.SetState(start), world.SetGoal(goal)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	judges := map[string]*success.Episode{}
	at := map[string]int{}
	for _, name := range []string{success.Moderate, success.Strict} {
		rule, err := success.Named(name, "tworoom")
		if err != nil {
			t.Fatal(err)
		}
		if judges[name], err = success.NewEpisode(rule, "tworoom", start, goal, nil); err != nil {
			t.Fatal(err)
		}
	}
	p := c.Start
	for k, to := range c.To {
		end, contacts := g.Move(p, to)
		p = disc.Point{float64(float32(end[0])), float64(float32(end[1]))}
		for name, e := range judges {
			done, err := e.Step(envs.Row{"state": p[:]})
			if err != nil {
				t.Fatal(err)
			}
			if done && at[name] == 0 {
				at[name] = k + 1
			}
		}
		so := judges[success.Strict].Track
		if !near(p[:], c.Position[k][:], narrowTolerance) || contacts != c.Contacts[k] || so.Valid != c.RouteValid[k] || so.Crossings != c.Crossings[k] || g.Side(p) != c.Side[k] {
			t.Errorf("trajectory %d, step %d: at %v with %d contacts, %+v, side %d; want %v, %d, %v, %d, %d", i, k, p, contacts, so, g.Side(p),
				c.Position[k], c.Contacts[k], c.RouteValid[k], c.Crossings[k], c.Side[k])
		}
		got := make([]float64, 2)
		if _, err := world.Step(c.Action[k]); err != nil {
			t.Fatal(err)
		}
		if err := world.Observe("state", got); err != nil {
			t.Fatal(err)
		}
		if driven && !near(got, c.Position[k][:], drivenTolerance) {
			t.Errorf("trajectory %d, step %d: the env is at %v, want %v", i, k, got, c.Position[k])
		}
	}
	for name, want := range map[string]*int{success.Moderate: c.ModerateAt, success.Strict: c.StrictAt} {
		if want == nil && at[name] != 0 || want != nil && at[name] != *want {
			t.Errorf("trajectory %d: %s at step %d, want %v", i, name, at[name], want)
		}
	}
}
