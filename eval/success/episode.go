package success

import (
	"scalewm/envs"
	"scalewm/envs/tworoom/disc"
)

// Track is what the agent of a Two-Room episode has done. It is the zero Track in other tasks.
type Track struct {
	CrossRoom bool `json:"cross_room,omitempty"`  // start and goal are in different rooms
	Valid     bool `json:"route_valid,omitempty"` // start and goal are clear of walls, and so is every step
	Crossings int  `json:"crossings,omitempty"`   // from room to room, where a door has room for the disc
}

// Episode judges one episode. It may be copied, and the copy continues on its own.
type Episode struct {
	Track Track // so far
	Held  int   // consecutive steps, up to the last one, after which the rule's condition was met

	rule    Rule
	subject *subject
	goal    state
	at      disc.Point     // Two-Room's agent
	floor   *disc.Geometry // nil in other tasks
	done    bool
}

// NewEpisode returns the judge of an episode that starts in one row and has its goal in
// another. floor is Two-Room's, nil for the published one; other tasks have none. It returns an
// error if the rows lack a column of the rule, and for the zero Rule of a task that only its
// env can judge.
func NewEpisode(r Rule, task string, start, goal envs.Row, floor *disc.Geometry) (*Episode, error) {
	r, s, err := r.resolve(task)
	if err != nil {
		return nil, err
	}
	e := &Episode{rule: r, subject: s}
	from, to, err := s.readBoth(start, goal, r.rotates(s))
	if err != nil {
		return nil, err
	}
	e.goal = to
	if r.Of == Agent {
		if e.floor = floor; floor == nil {
			e.floor = disc.Canonical()
		}
		e.at = from.place()
		e.Track = Track{CrossRoom: e.floor.Crosses(e.at, to.place()), Valid: e.floor.Clear(e.at) && e.floor.Clear(to.place())}
	}
	return e, nil
}

// place returns the position of Two-Room's agent.
func (s *state) place() disc.Point { return disc.Point{s.values[0], s.values[1]} }

// Step judges the state after an env step. It returns true from the step on with which the
// episode succeeds. After an error the episode has not changed.
func (e *Episode) Step(now envs.Row) (success bool, err error) {
	s, err := e.subject.read(now, e.rule.rotates(e.subject))
	if err != nil {
		return false, err
	}
	met := e.rule.met(e.subject, &s, &e.goal)
	if e.floor != nil {
		r := e.floor.Route(e.at, s.place())
		e.at = s.place()
		e.Track.Valid = e.Track.Valid && r.Valid
		if r.Crossed() {
			e.Track.Crossings++
		}
		met = met && e.rule.allows(e.floor, e.at, e.goal.place(), e.Track)
	}
	if e.Held++; !met {
		e.Held = 0
	}
	e.done = e.done || e.Held >= e.rule.Hold
	return e.done, nil
}

// allows reports whether the agent's route and side satisfy the rule.
func (r Rule) allows(floor *disc.Geometry, now, goal disc.Point, t Track) bool {
	return (!r.Route || t.Valid && (!t.CrossRoom || t.Crossings > 0)) && (!r.Side || floor.Side(now) == floor.Side(goal))
}

// MetOn is Met with route and side: it also needs the track of a Two-Room episode up to the
// state, and its floor, nil for the published one.
func (r Rule) MetOn(t Track, floor *disc.Geometry, task string, now, goal envs.Row) (bool, error) {
	e, err := NewEpisode(r, task, now, goal, floor)
	if err != nil {
		return false, err
	}
	met, err := r.Met(task, now, goal)
	return met && (e.floor == nil || e.rule.allows(e.floor, e.at, e.goal.place(), t)), err
}
