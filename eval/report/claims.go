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

// Formats of the numbers of claims, by measure.
func inPoints(x float64) string  { return words.Signed(x) }
func inUnits(x float64) string   { return strings.Replace(fmt.Sprintf("%+.3f", x), "-", "−", 1) }
func inTimes(x float64) string   { return fmt.Sprintf("%.2f×", x) }
func plainUnit(x float64) string { return words.Decimal(x, 3) }

func unitOf(c infer.Claim) func(float64) string {
	switch c.Measure {
	case "averages", "icem", "tiers", "tasks", "selection":
		return inPoints
	case "training time", "planning time", "planning work":
		return inTimes
	case "worst component":
		return plainUnit
	}
	return inUnits
}

// nameOf returns the name of one of the numbers of a claim.
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
	if f.Measure == "worst component" {
		name += ", " + words.Arm(e.Of)
	}
	if len(f.B) > 1 {
		name += " against " + words.Arm(e.Minus)
	}
	return name
}

// over returns the unit and count of a number of a claim, such as "300 episodes".
func over(e infer.Evidence) string {
	s := words.Count(e.N, e.Unit)
	for _, n := range e.Notes {
		s += ", " + n
	}
	return s
}

// sectionOf returns the anchor of the section that shows a number of a claim, "" if none does.
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
	}
	return e.Task + "-geometry"
}

// claims returns the chapter on the paper's claims. Claims that the folder cannot decide are folded.
func (r *Report) claims() []doc.Section {
	n := map[infer.Verdict]int{}
	list, silent := doc.Text{Style: "claims"}, doc.Text{Style: "claims"}
	for _, f := range r.Claims {
		n[f.Verdict]++
		if i := r.item(f); f.Verdict != infer.Undecided {
			list.Items = append(list.Items, i)
		} else {
			silent.Items = append(silent.Items, i)
		}
	}
	list.Body = fmt.Sprintf("%d claims, judged by the models of this folder: %d hold, %d fail, %d are undecided.", len(r.Claims), n[infer.Holds], n[infer.Fails], n[infer.Undecided])
	if r.Groups[0].Name != "" {
		list.Body += " The numbers are those under " + r.Groups[0].Name + "."
	}
	silent.Fold = words.Count(len(silent.Items), "claim")
	if silent.Fold += " need more arms, tasks or seeds"; len(silent.Items) == 1 {
		silent.Fold = "1 claim needs more arms, tasks or seeds"
	}
	return section(doc.Section{Title: "What the paper claims, and what is found here", Anchor: "claims", Level: 2, Nav: "Claims"}, list,
		doc.Text{Style: "note", Body: "A claim holds where the 95 % interval of every number that it is about lies where it says, and fails where one lies elsewhere even when it is widened for the number of numbers. " +
			"What follows by algebra, as the leverage of a direction from its variance, is no claim about data and not listed."},
		silent, r.toMake())
}

// weight sorts evidence: first what contradicts a claim, then what is undecided, then what supports it.
var weight = map[infer.Verdict]int{infer.Fails: 0, infer.Undecided: 1, infer.Holds: 2}

// slack returns by how much a number's interval, or the number if it has none, is inside the range that
// the claim allows. It is negative outside.
func slack(f infer.Finding, e infer.Evidence) float64 {
	allowed, _ := f.Allows(e.Task)
	x := e.Estimate()
	if !(x.Lo <= x.Hi) {
		x.Lo, x.Hi = x.Value, x.Value
	}
	return min(x.Lo-allowed.Lo, allowed.Hi-x.Hi)
}

// telling returns the numbers that the folder has, the most relevant first: one that contradicts the
// claim, else an undecided one, and among several the one with the least slack.
func telling(f infer.Finding) []infer.Evidence {
	there := slices.DeleteFunc(slices.Clone(f.Evidence), infer.Evidence.Missing)
	slices.SortStableFunc(there, func(a, b infer.Evidence) int {
		return cmp.Or(weight[a.Stand]-weight[b.Stand], cmp.Compare(slack(f, a), slack(f, b)))
	})
	return there
}

// item returns a finding as a list item. It has no text if the folder has no numbers for it.
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
	first, x := here[0], here[0].Estimate()
	i.Text = nameOf(f, first) + " " + unit(x.Value)
	if x.Lo <= x.Hi {
		i.Text += " (" + unit(x.Lo) + " to " + unit(x.Hi) + ")"
	}
	i.Text += ", " + over(first) + "."
	if all := len(f.Evidence); all > 1 {
		i.Text += fmt.Sprintf(" Of %d numbers %d as claimed, %d otherwise, %d open", all, stands[infer.Holds], stands[infer.Fails], stands[infer.Undecided])
		if missing := all - len(here); missing > 0 {
			i.Text += fmt.Sprintf(", %d missing", missing)
		}
		i.Text += "."
	}
	i.Link = r.sectionOf(first)
	return i
}

// toMake returns the commands that compute what undecided claims lack, one for each kind of work.
func (r *Report) toMake() doc.Text {
	out := doc.Text{Style: "commands"}
	type work struct{ tasks, methods []string }
	by := map[string]*work{}
	var order []string
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
		w := by[flags]
		slices.SortFunc(w.tasks, results.CompareTasks)
		slices.SortFunc(w.methods, model.CompareMethods)
		if slices.ContainsFunc(w.methods, func(name string) bool { return model.MethodOf(name).Pretrained }) {
			flags += " --backbone FILE"
		}
		out.Items = append(out.Items, doc.Item{Text: fmt.Sprintf("scalewm reproduce --tasks %s --methods %s %s --out DIR", strings.Join(slices.Compact(w.tasks), ","), strings.Join(slices.Compact(w.methods), ","), flags)})
	}
	if len(out.Items) > 0 {
		out.Title, out.Body = "What would decide more", "Numbers of one checkpoint have no interval of their own; --seeds with two or more training seeds gives them one."
	}
	if len(absent) > 0 {
		out.Body = strings.TrimSpace("This program has no " + words.Listing(slices.Sorted(maps.Keys(absent))) + ". " + out.Body)
	}
	return out
}
