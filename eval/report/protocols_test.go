package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// protocols returns cells of LeWM and SCALE under paper, strict, strict with another budget,
// and d50, and the cells of strict a second time under the name of a file with its values.
func protocols(t *testing.T) (cells []results.Cell) {
	t.Helper()
	for _, under := range []func(s *results.Spec){
		same,
		func(s *results.Spec) { s.Protocol = results.Strict },
		func(s *results.Spec) { s.Rules = s.Rules.Named("mine"); strict(s); s.Protocol = "mine" },
		func(s *results.Spec) { s.Protocol, s.Budget = results.Strict+results.Changed, 75; strict(s) },
		func(s *results.Spec) {
			s.Protocol, s.GoalOffset, s.Budget, s.Trained = "d50", 50, 100, results.Strict
			strict(s)
		},
	} {
		cells = append(cells, resultstest.Cells(t, []plan{p(lewm, "T3", 6, 6), p(scale, "T3", 7, 8)}, scheduled(0, func(s *results.Spec) {
			under(s)
			if s.Protocol == "mine" || s.Protocol == results.Strict+results.Changed {
				s.Trained = results.Strict
			}
			if s.Protocol != results.Paper {
				s.SetHash += "-strict"
			}
			if s.GoalOffset == 50 {
				s.SetHash += "-50"
			}
		}))...)
	}
	return cells
}

// strict gives a spec the values that the name strict stands for.
func strict(s *results.Spec) {
	name := s.Protocol
	s.Rules = s.Rules.Short()
	s.Protocol = results.Strict
	full := s.Rules.Full()
	full.Protocol = name
	s.Rules = full.Short()
}

// Cells under several protocols have separate tables, those under the paper's settings first.
// A name stands for its values, and only differences within it are said. Equal values under
// two names count once. Nothing published stands next to other goals and budgets, and the
// claims use none of their cells.
func TestProtocolsApart(t *testing.T) {
	r := ofCells(t, protocols(t))
	var got []string
	for _, g := range r.Groups {
		got = append(got, fmt.Sprint(g.Name, len(g.Published().Blocks)))
	}
	if want := []string{"protocol paper1", "protocol strict, 50 steps allowed1", "protocol d500", "protocol strict, 75 steps allowed0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	text := markdown(sectionsParts(r.front())...)
	has(t, text, "25 env steps ahead, 50 steps allowed, horizon 5 blocks; 50 env steps ahead, 100 steps allowed", "Under protocol d50: ",
		"held out of training (LeWM and SCALE); training saw nearly all of them (trained under paper: LeWM and SCALE)")
	if !slices.Contains(r.Warnings, "tworoom: cells under the protocols strict and mine have equal settings, and each evaluation counts once") {
		t.Errorf("%q", r.Warnings)
	}
	for _, c := range r.Checks {
		if c.Verdict == infer.Warned {
			t.Errorf("%s: %s", c.Name, c.Text)
		}
	}
	by := map[string]results.Spec{}
	for _, c := range r.Cells {
		by[c.ID] = c.Spec
	}
	for _, f := range r.Claims {
		for _, e := range f.Evidence {
			for _, id := range e.From {
				if s := by[id]; s.Protocol != results.Paper {
					t.Errorf("claim %s uses a cell under %s", f.ID, s.Protocol)
				}
			}
		}
	}
	for _, s := range r.likeThePaper() {
		published := strings.Contains(s.Title, "paper") && !strings.Contains(s.Title, "d50") && !strings.Contains(s.Title, "75") || strings.Contains(s.Title, "50 steps")
		if text := markdown(s.Parts...); strings.Contains(text, "| paper |") != published {
			t.Errorf("%s: published rows %v, want %v\n%s", s.Title, !published, published, text)
		}
	}
	// Without cells under the paper's settings there are no claims.
	far := slices.DeleteFunc(protocols(t), func(c results.Cell) bool { return c.Spec.GoalOffset != 50 })
	if r := ofCells(t, far); len(r.Claims) > 0 || strings.Contains(markdown(sectionsParts(r.likeThePaper())...), "| paper |") {
		t.Error("goals 50 rows ahead are compared with the paper")
	}
}

// A model that held out a tenth of the episodes has seen the others.
func TestSeenEpisodes(t *testing.T) {
	r := ofCells(t, resultstest.Cells(t, []plan{p(lewm, "T3", 6), p(untrained, "T3", 1), p(random, "", 1)}, func(c *results.Cell) { c.Spec.Trained = results.Strict }))
	if got, want := r.seen(), "training saw nine tenths of them (trained under strict: LeWM)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// sectionsParts returns the parts of all sections.
func sectionsParts(sections []doc.Section) (parts []doc.Part) {
	for _, s := range sections {
		parts = append(parts, s.Parts...)
	}
	return parts
}
