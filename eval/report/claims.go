package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
	"scalewm/model"
)

// Formats of the numbers that decide claims, by the unit of their measure: differences
// of success in points, other differences with three decimals, ratios, and values that
// are not differences.
func inPoints(x float64) string  { return words.Signed(x) }
func inUnits(x float64) string   { return strings.Replace(fmt.Sprintf("%+.3f", x), "-", "−", 1) }
func inTimes(x float64) string   { return fmt.Sprintf("%.2f×", x) }
func plainUnit(x float64) string { return words.Decimal(x, 3) }

// unitOf returns the format for the measure of a claim.
func unitOf(c infer.Claim) func(float64) string {
	switch c.Measure {
	case "averages", "icem", "tiers", "tasks", "selection", "temperature":
		return inPoints
	case "training time", "planning time", "planning work":
		return inTimes
	case "median component":
		return plainUnit
	}
	return inUnits
}

// nameOf names one of the numbers of a claim by what distinguishes it from the others.
func nameOf(f infer.Finding, e infer.Evidence) string {
	name := "Mean over tasks"
	switch {
	case e.Tier != "":
		name = e.Tier
	case e.Solver != "":
		name = words.Task(e.Task) + ", " + words.Solver(e.Solver)
	case e.Task != "":
		name = words.Task(e.Task)
	}
	switch {
	case e.Minus == results.Arm{} && e.Of != results.Arm{}: // a value of one arm
		name = strings.TrimSuffix(name+", "+e.Settings, ", ") + ", " + words.Arm(e.Of)
	case len(f.B) > 1:
		name += " against " + words.Arm(e.Minus)
	}
	return name
}

// over describes what a number of a claim averages.
func over(e infer.Evidence) string {
	s := words.Count(e.N, e.Unit)
	for _, n := range e.Notes {
		s += ", " + n
	}
	return s
}

// sectionOf returns the anchor of the section that has a number of a claim. The anchors
// are those that the functions of these sections compose: block for paired differences,
// likeThePaper for those over everything, compute for costs, and checkpoints for the
// rest.
func (r *Report) sectionOf(e infer.Evidence) string {
	switch what := strings.TrimPrefix(e.What, infer.Claimed); {
	case what == infer.Diff && e.Solver != "":
		return anchorOf(e.Place) + "-paired"
	case what == infer.Diff || what == infer.SetDiff || what == infer.StateDiff:
		return "everything"
	case e.Task == "":
		return "cost"
	case what == infer.Tau || what == infer.RolloutError:
		return e.Task + "-predictions"
	case what == "temperature":
		return anchorOf(infer.Place{Task: e.Task})
	}
	return e.Task + "-geometry"
}

// claims returns the section on the paper's claims. A count of the verdicts is first,
// followed by the claims that the folder decides. Undecided ones are folded, since a
// small folder cannot decide most of them, with the commands that would compute what is
// missing.
func (r *Report) claims() []doc.Section {
	if len(r.Claims) == 0 { // the folder has not both arms that they compare
		return nil
	}
	n := map[infer.Verdict]int{}
	list, undecided := doc.Text{Style: "claims"}, doc.Text{Style: "claims"}
	for _, f := range r.Claims {
		n[f.Verdict]++
		if i := r.item(f); f.Verdict != infer.Undecided {
			list.Items = append(list.Items, i)
		} else {
			undecided.Items = append(undecided.Items, i)
		}
	}
	here := ""
	if k := n[infer.HoldsHere]; k > 0 {
		here = fmt.Sprintf("%d hold here for one training seed, ", k)
	}
	list.Body = fmt.Sprintf("%d claims, judged by the models of this folder: %d hold, %s%d fail, %d are undecided.", len(r.Claims), n[infer.Holds], here, n[infer.Fails], n[infer.Undecided])
	if r.Groups[0].Name != "" {
		list.Body += " The numbers are those with " + r.Groups[0].Name + "."
	}
	undecided.Fold = words.Count(len(undecided.Items), "claim")
	if undecided.Fold += " need more arms, tasks or seeds"; len(undecided.Items) == 1 {
		undecided.Fold = "1 claim needs more arms, tasks or seeds"
	}
	return section(doc.Section{Title: "What the paper claims, and what is found here", Anchor: "claims", Level: 2, Nav: "Claims"}, r.trainings(), list,
		doc.Text{Style: "note", Body: "A claim holds if the 95 % intervals of all its numbers are in the range that it states. It fails if one of them is outside even after it is widened for the number of intervals. " +
			"Statements that follow by algebra, such as the leverage of a direction from its variance, are not listed."},
		undecided, r.toMake())
}

// weight orders the numbers of a claim: those against it, then undecided ones, then
// those for it. A claim about all numbers fails by a single one, so that one must be
// seen.
var weight = map[infer.Verdict]int{infer.Fails: 0, infer.Undecided: 1, infer.Holds: 2}

// slack returns the distance of a number's interval (or of the number, if it has none)
// from the ends of the range that the claim allows. It is negative outside the range.
func slack(f infer.Finding, e infer.Evidence) float64 {
	allowed, _ := f.Allows(e.Task)
	x := e.Estimate()
	if !(x.Lo <= x.Hi) {
		x.Lo, x.Hi = x.Value, x.Value
	}
	return min(x.Lo-allowed.Lo, allowed.Hi-x.Hi)
}

// telling returns the numbers that the folder has, the most informative one first: one
// against the claim, otherwise an undecided one. Among equals the one with the least
// slack is first, because it is the one on which the verdict depends.
func telling(f infer.Finding) []infer.Evidence {
	present := slices.DeleteFunc(slices.Clone(f.Evidence), infer.Evidence.Missing)
	slices.SortStableFunc(present, func(a, b infer.Evidence) int {
		return cmp.Or(weight[a.Stand]-weight[b.Stand], cmp.Compare(slack(f, a), slack(f, b)))
	})
	return present
}

// item returns a finding as the list shows it: the claim with its verdict and source,
// the most informative number, and a link to the section with its details. It has no
// text if the folder has none of the numbers.
func (r *Report) item(f infer.Finding) doc.Item {
	i := doc.Item{Name: f.Claim.Claim, Value: string(f.Verdict), Class: string(f.Verdict), Source: f.Where}
	here, unit := telling(f), unitOf(f.Claim)
	if len(here) == 0 {
		return i
	}
	stands := map[infer.Verdict]int{}
	for _, e := range here {
		stands[e.Stand]++
	}
	// The text has the most informative number with its interval and units, and then the
	// counts of all numbers.
	first, x := here[0], here[0].Estimate()
	i.Text = nameOf(f, first) + " " + unit(x.Value)
	if x.Lo <= x.Hi {
		i.Text += " (" + unit(x.Lo) + " to " + unit(x.Hi) + ")"
	}
	i.Text += ", " + over(first) + "."
	if all := len(f.Evidence); all > 1 {
		i.Text += fmt.Sprintf(" Of %d numbers, %d as claimed, %d otherwise, %d undecided", all, stands[infer.Holds], stands[infer.Fails], stands[infer.Undecided])
		if missing := all - len(here); missing > 0 {
			i.Text += fmt.Sprintf(", %d missing", missing)
		}
		i.Text += "."
	}
	i.Link = r.sectionOf(first)
	return i
}

// toMake lists commands that compute what undecided claims lack. Claims with the same
// flags share a command, which has the tasks and methods of all of them. Methods that
// this program does not have are named instead, since no command would work.
func (r *Report) toMake() doc.Text {
	out := doc.Text{Style: doc.Commands}
	type work struct{ tasks, methods []string } // of one command
	by := map[string]*work{}                    // by flags
	var order []string                          // of flags, as the claims have them
	absent := map[string]bool{}
	for _, f := range r.Claims {
		for _, e := range f.Evidence {
			if !e.Missing() || f.Verdict != infer.Undecided {
				continue
			}
			w := by[f.Make]
			if w == nil {
				w = &work{}
				by[f.Make], order = w, append(order, f.Make)
			}
			for _, t := range f.Tasks() {
				if e.Task == t || e.Task == "" {
					w.tasks = append(w.tasks, t)
				}
			}
			// A finding needs all of its arms in one folder, whichever number is missing.
			for _, arm := range append([]results.Arm{f.A}, f.B...) {
				if _, err := model.LookUp(arm.Method); err != nil {
					absent[words.Arm(results.Arm{Method: arm.Method})] = true
					continue
				}
				w.methods = append(w.methods, arm.Method)
			}
		}
	}
	for _, flags := range order {
		out.Items = append(out.Items, doc.Item{Text: r.reproduce(forMethods(by[flags].tasks, by[flags].methods), flags)})
	}
	if len(out.Items) > 0 {
		out.Title, out.Body = "What would decide more claims", "Numbers of a single checkpoint have no interval; --seeds with two or more training seeds gives them one."
	}
	if len(absent) > 0 {
		out.Body = strings.TrimSpace("This program has no " + words.Listing(slices.Sorted(maps.Keys(absent))) + ". " + out.Body)
	}
	return out
}
