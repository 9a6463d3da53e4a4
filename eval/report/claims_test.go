package report

import (
	"slices"
	"strings"
	"testing"

	"scalewm/eval/infer"
	"scalewm/eval/results"
	"scalewm/eval/results/resultstest"
)

// found returns the finding of a claim in a report.
func found(t *testing.T, r *Report, id string) infer.Finding {
	t.Helper()
	i := slices.IndexFunc(r.Claims, func(f infer.Finding) bool { return f.ID == id })
	if i < 0 {
		t.Fatalf("no claim %s", id)
	}
	return r.Claims[i]
}

// An item has the number that speaks most against the claim, and counts the others. Of
// 15 averages at +4 (+2 to +6) one is different.
func TestClaimItem(t *testing.T) {
	r := complete(t)
	for _, c := range []struct {
		value, lo, hi float64
		stand         infer.Verdict
		want          string
	}{
		{4, 2, 6, infer.Holds, "Push-T, CEM +4.0 (+2.0 to +6.0), 600 episodes. Of 15 numbers, 15 as claimed, 0 otherwise, 0 undecided."},
		{1, -1, 3, infer.Undecided, "OGBench Cube, iCEM +1.0 (−1.0 to +3.0), 600 episodes. Of 15 numbers, 14 as claimed, 0 otherwise, 1 undecided."},
		{-8, -9, -7, infer.Fails, "OGBench Cube, iCEM −8.0 (−9.0 to −7.0), 600 episodes. Of 15 numbers, 14 as claimed, 1 otherwise, 0 undecided."},
	} {
		f := infer.Finding{Claim: found(t, r, "scale-every-average").Claim}
		for _, task := range results.PaperTasks {
			for _, solver := range infer.PaperSolvers {
				n := &infer.Number{What: infer.Claimed + infer.Diff, Place: infer.Place{Task: task, Solver: solver}, N: 600, Unit: "episode"}
				value, lo, hi, stand := 4., 2., 6., infer.Holds
				if task == "cube" && solver == results.ICEM {
					value, lo, hi, stand = c.value, c.lo, c.hi, c.stand
				}
				n.Value, n.Lo, n.Hi = &value, &lo, &hi
				f.Evidence = append(f.Evidence, infer.Evidence{Number: n, Stand: stand})
			}
		}
		if got := r.item(f).Text; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		for i := range f.Evidence {
			if f.Evidence[i].Task == "cube" {
				f.Evidence[i].Number = &infer.Number{}
			}
		}
		if got := r.item(f).Text; !strings.HasSuffix(got, "Of 15 numbers, 12 as claimed, 0 otherwise, 0 undecided, 3 missing.") {
			t.Errorf("without Cube: %q", got)
		}
	}
}

// Numbers of checkpoints and of training seeds state the origin of their intervals.
func TestClaimsOfCheckpoints(t *testing.T) {
	c := resultstest.Contents(t)
	c.Analyses = resultstest.Analyses()
	r := reportOf(t, c)
	for id, want := range map[string]string{
		"scale-alignment": "Two-Room +0.500 (+0.323 to +0.677), 1 training seed, bootstrap of episodes.",
		"scale-spectrum":  "Two-Room against LeWM +0.000, 1 training seed, no interval.",
	} {
		if i := r.item(found(t, r, id)); !strings.HasPrefix(i.Text, want) || i.Link != "tworoom-geometry" {
			t.Errorf("%s: %q, %q; want %q", id, i.Text, i.Link, want)
		}
	}
	if i := r.item(found(t, r, "scale-ranking")); i.Text != "" || i.Link != "" {
		t.Errorf("without numbers: %+v", i)
	}
	r = ofCells(t, twoSeeds(t))
	for id, want := range map[string]string{
		"scale-every-average": "Two-Room, CEM +5.0 (−185.6 to +195.6), 2 training seeds.", "scale-every-budget": "T1 +5.0 (−185.6 to +195.6), 2 training seeds, 1 cell.",
	} {
		if text := r.item(found(t, r, id)).Text; !strings.HasPrefix(text, want) {
			t.Errorf("%s: %q, want %q", id, text, want)
		}
	}
}

// Missing numbers have a command that computes them, and each claim links to its
// section.
func TestClaimsInTheReport(t *testing.T) {
	r := complete(t)
	text := markdown(r.claims()[0].Parts...)
	for _, want := range []string{
		"claims, judged by the models of this folder: 0 hold, 1 hold here for one training seed, 0 fail, 28 are undecided.",
		"- **On Two-Room: Aux trails SCALE on four of five tasks and leads on Push-T \\[section 6.2\\]** (holds here, one training seed): Two-Room +16.7 (+8.9 to +24.4), 30 episodes.",
		"- **On Two-Room: SCALE is above LeWM in every average of a task and a solver \\[abstract, sections 1 and 6.2\\]** (undecided): Two-Room, CEM +15.6",
		"--tasks tworoom --methods lewm,scale,aux,dinowm --backbone FILE --solvers all --tiers all --sets all --out DIR`", "Numbers of a single checkpoint",
		"<details><summary>28 claims need more arms, tasks or seeds</summary>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	anchors := map[string]bool{}
	for _, s := range r.Sections() {
		if s.Anchor != "" && anchors[s.Anchor] {
			t.Errorf("two sections have the anchor %s", s.Anchor)
		}
		anchors[s.Anchor] = true
	}
	for _, f := range r.Claims {
		if i := r.item(f); i.Link != "" && !anchors[i.Link] {
			t.Errorf("%s points to %q, which is no section", f.ID, i.Link)
		}
	}
}

// A folder without LeWM decides no claim, so that no format has a page of them.
func TestNoClaimsWithoutTheBaseline(t *testing.T) {
	r := ofCells(t, resultstest.Cells(t, []plan{p(scale, "T1", 5, 6), p(aux, "T1", 4, 4)}, nil))
	if len(r.claims()) != 0 || len(r.JSON().Claims) != 0 || strings.Contains(string(rendered(t, r)["report.md"]), "What the paper claims") {
		t.Errorf("claims without LeWM: %v", r.JSON().Claims)
	}
}
