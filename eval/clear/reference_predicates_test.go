package clear

import (
	"encoding/json"
	"math"
	"testing"

	"scalewm/envs"
	"scalewm/envs/tworoom/disc"
	"scalewm/eval/success"
)

func init() { families["predicates"] = testPredicates }

// predicatesFile is the layout of family predicates.
type predicatesFile struct {
	Pairs map[string][]struct {
		Now        envs.Row                   `json:"now"`
		Goal       envs.Row                   `json:"goal"`
		Start      envs.Row                   `json:"start"`
		RouteValid bool                       `json:"route_valid"`
		Crossings  int                        `json:"crossings"`
		Distances  map[string]json.RawMessage `json:"distances"`
		Success    map[string]bool            `json:"success"`
	} `json:"pairs"`
	Holds []struct {
		Hold      int    `json:"hold"`
		Steps     []bool `json:"steps"`
		SuccessAt *int   `json:"success_at"`
	} `json:"holds"`
}

// holdGoal is a state of Push-T.
var holdGoal = []float64{200, 300, 250, 240, 1.5, 0, 0}

func testPredicates(t *testing.T, path string) {
	var f predicatesFile
	load(t, path, &f)
	for task, pairs := range f.Pairs {
		for i, c := range pairs {
			got := success.Distances(task, c.Now, c.Goal)
			for name, raw := range c.Distances {
				if want := numberOf(t, raw); !(math.Abs(got[name]-want) <= distanceTolerance(name, want)) {
					t.Errorf("%s, pair %d: %s is %g, want %g", task, i, name, got[name], want)
				}
			}
			if len(got) != len(c.Distances) {
				t.Errorf("%s, pair %d: distances %v, want %s", task, i, got, c.Distances)
			}
			if len(c.Success) != 3 {
				t.Errorf("%s, pair %d: %d rules", task, i, len(c.Success))
			}
			for name, want := range c.Success {
				rule, err := success.Named(name, task)
				if err != nil {
					t.Fatal(err)
				}
				track := success.Track{Valid: c.RouteValid, Crossings: c.Crossings}
				if task == "tworoom" {
					track.CrossRoom = disc.Canonical().Crosses(disc.Point(c.Start["state"]), disc.Point(c.Goal["state"]))
				}
				met, err := rule.MetOn(track, nil, task, c.Now, c.Goal)
				if err != nil || met != want {
					t.Errorf("%s, pair %d: %s is %v (%v), want %v", task, i, name, met, err, want)
				}
			}
		}
	}
	for i, c := range f.Holds {
		goal := envs.Row{"state": holdGoal}
		miss := envs.Row{"state": {0, 0, 0, 0, 1.5, 0, 0}}
		rule := success.Explicit(success.Rule{}, "pusht")
		rule.Hold = c.Hold
		e, err := success.NewEpisode(rule, "pusht", miss, goal, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for k, hit := range c.Steps {
			row := miss
			if hit {
				row = goal
			}
			if done, err := e.Step(row); err != nil {
				t.Fatal(err)
			} else if done && at == 0 {
				at = k + 1
			}
		}
		if c.SuccessAt == nil && at != 0 || c.SuccessAt != nil && at != *c.SuccessAt {
			t.Errorf("hold %d, case %d: success at step %d of %v", c.Hold, i, at, c.Steps)
		}
	}
}

// numberOf returns a number, or 1 for true and 0 for false.
func numberOf(t *testing.T, raw json.RawMessage) float64 {
	t.Helper()
	switch string(raw) {
	case "true":
		return 1
	case "false":
		return 0
	}
	var v float64
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// distanceTolerance returns the tolerance of a distance. Angles of rotations come from an
// arccosine.
func distanceTolerance(name string, want float64) float64 {
	if name == "orientation_distance_deg" || name == "symmetry_orientation_distance_deg" {
		return degreesTolerance(want)
	}
	return wideTolerance
}
