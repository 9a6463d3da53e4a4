package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
)

// published is the training of the paper's models on a task: the steps of ten epochs
// (docs/sources.md#training-steps), and the episodes of the data set
// (docs/sources.md#published-sets). Their size is in docs/sources.md#parameter-counts.
type published struct{ steps, episodes int }

var publishedOn = map[string]published{"pusht": {139_330, 18_685}, "reacher": {127_960, 10_000}, "cube": {127_960, 10_000}, "tworoom": {51_380, 10_000}, "pointmaze": {11_390, 2_000}}

// trainings says what was trained: a line for each set of arms and tasks with the same
// training, and what the paper trained on these tasks. Without it a reader would take a
// result of small models for one about the paper's.
func (r *Report) trainings() doc.Text {
	type checkpoints struct {
		task string
		arm  results.Arm
	}
	texts, seeds := map[checkpoints][]string{}, map[checkpoints]map[int]bool{}
	for _, b := range r.Blocks {
		for _, a := range b.Arms {
			if !a.Entry().HasModel() || a.Floor() || a.Foreign {
				continue
			}
			c := checkpoints{b.Task, a.Arm}
			if seeds[c] == nil {
				seeds[c] = map[int]bool{}
			}
			if text := r.training(b.Task, r.Trained[a.Weights]); !slices.Contains(texts[c], text) {
				texts[c] = append(texts[c], text)
			}
			seeds[c][a.Seed] = true
		}
	}
	t, lines := doc.Text{Style: "trained"}, map[string][]string{} // tasks by line
	paper := "ViT-Tiny at 224 px, 18 M parameters, 1 training seed;"
	var order []string // of the lines
	for _, task := range infer.Tasks(r.Blocks) {
		arms := map[string][]string{} // names by the text about them
		var all []string
		for _, arm := range infer.ArmsOf(r.Blocks) {
			if c := (checkpoints{task, arm}); seeds[c] != nil {
				text := words.Listing(texts[c]) + ", " + words.Count(len(seeds[c]), "training seed")
				if arms[text] == nil {
					all = append(all, text)
				}
				arms[text] = append(arms[text], words.Arm(arm))
			}
		}
		for _, text := range all {
			line := words.Listing(arms[text]) + ": " + text
			if lines[line] == nil {
				order = append(order, line)
			}
			lines[line] = append(lines[line], words.Task(task))
		}
		if p, is := publishedOn[task]; is {
			paper += fmt.Sprintf(" %s %s steps, %s episodes;", words.Task(task), words.Thousands(p.steps), words.Thousands(p.episodes))
		}
	}
	for _, line := range order {
		t.Items = append(t.Items, doc.Item{Name: "Trained on " + words.Listing(lines[line]), Text: line})
	}
	if len(order) > 0 {
		t.Items = append(t.Items, doc.Item{Name: "The paper", Text: paper[:len(paper)-1]})
	}
	return t
}

// seen says how many of the evaluated episodes training has seen, by the protocols of
// training and evaluation. Python models do not state theirs.
func (r *Report) seen() string {
	arms, order := map[string][]results.Arm{}, []string(nil)
	for _, c := range r.Cells {
		s := c.Spec
		if s.Python != "" || s.Arm().Floor() || s.Arm().Replaced() {
			continue
		}
		text := "training saw nearly all of them (trained under paper: %s)"
		if cmp.Or(s.Trained, results.TrainingOf(s.Protocol)) == results.Strict {
			if text = "training saw nine tenths of them (trained under strict: %s)"; s.HeldOut() {
				text = "held out of training (%s)"
			}
		}
		if arms[text] == nil {
			order = append(order, text)
		}
		arms[text] = append(arms[text], s.Arm())
	}
	slices.Sort(order)
	for i, text := range order {
		slices.SortFunc(arms[text], results.CompareArms)
		var names []string
		for _, a := range slices.Compact(arms[text]) {
			names = append(names, words.Arm(a))
		}
		order[i] = fmt.Sprintf(text, words.Listing(names))
	}
	return strings.Join(order, "; ")
}

// training describes a training and its data. What is unknown is said to be unknown.
func (r *Report) training(task string, t results.Trained) string {
	if t == (results.Trained{}) {
		return "the training is not recorded"
	}
	known := func(n int, text string, what string) string {
		if n == 0 {
			return what + " not recorded"
		}
		return text
	}
	preset := "preset " + t.Preset
	switch {
	case t.Preset != "":
	case t.Batch == 0:
		preset = "preset not recorded"
	default:
		preset = "no built-in preset"
	}
	millions := "%.1f M parameters"
	if t.Parameters >= 10_000_000 {
		millions = "%.0f M parameters"
	}
	var data results.Gate
	for _, g := range r.Gates {
		if g.Task == task && g.Data == t.Data {
			data = g
		}
	}
	origin := map[string]string{results.OriginCollected: " collected here", results.OriginPublished: " of the published data set", results.OriginGiven: " of a given data set"}[data.Origin]
	return fmt.Sprintf("%s, %s, %s, %s, %s", preset, known(t.FrameSize, fmt.Sprintf("%d px", t.FrameSize), "frame size"), known(t.Parameters, fmt.Sprintf(millions, float64(t.Parameters)/1e6), "parameters"),
		known(t.Steps, words.Thousands(t.Steps)+" steps", "steps"), known(data.Episodes, words.Thousands(data.Episodes)+" episodes"+origin, "episodes"))
}
