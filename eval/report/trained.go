package report

import (
	"fmt"
	"slices"

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
	type line struct {
		text  string
		arms  string
		tasks []string
	}
	var lines []line
	paper := "ViT-Tiny at 224 px, 18 M parameters, 1 training seed;"
	for _, task := range infer.Tasks(r.Blocks) {
		arms := map[string][]string{} // names of arms by the text about them
		var texts []string            // in the order of the arms
		for _, arm := range infer.ArmsOf(r.Blocks) {
			text := r.trainingOf(task, arm)
			if text == "" {
				continue
			}
			if arms[text] == nil {
				texts = append(texts, text)
			}
			arms[text] = append(arms[text], words.Arm(arm))
		}
		for _, text := range texts {
			names := words.Listing(arms[text])
			at := slices.IndexFunc(lines, func(l line) bool { return l.text == text && l.arms == names })
			if at < 0 {
				at, lines = len(lines), append(lines, line{text: text, arms: names})
			}
			lines[at].tasks = append(lines[at].tasks, words.Task(task))
		}
		if p, is := publishedOn[task]; is {
			paper += fmt.Sprintf(" %s %s steps, %s episodes;", words.Task(task), words.Thousands(p.steps), words.Thousands(p.episodes))
		}
	}
	t := doc.Text{Style: "trained"}
	for _, l := range lines {
		t.Items = append(t.Items, doc.Item{Name: "Trained on " + words.Listing(l.tasks), Text: l.arms + ": " + l.text})
	}
	if len(lines) > 0 {
		t.Items = append(t.Items, doc.Item{Name: "The paper", Text: paper[:len(paper)-1]})
	}
	return t
}

// trainingOf describes the trainings of an arm on a task, with the number of training
// seeds. It is "" if the arm was not trained or is not there.
func (r *Report) trainingOf(task string, arm results.Arm) string {
	var all []string
	seeds := map[int]bool{}
	for _, b := range r.Blocks {
		for _, a := range b.Arms {
			if b.Task != task || a.Arm != arm || !arm.Plans() || arm.Floor() {
				continue
			}
			seeds[a.Seed] = true
			if text := r.training(task, r.Trained[a.Weights]); !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	return words.Listing(all) + ", " + words.Count(len(seeds), "training seed")
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
	origin := map[string]string{results.OriginCollected: " collected here", results.OriginPublished: " of the published data set", results.OriginGiven: " of another data set"}[data.Origin]
	return fmt.Sprintf("%s, %s, %s, %s, %s", preset, known(t.FrameSize, fmt.Sprintf("%d px", t.FrameSize), "frame size"), known(t.Parameters, fmt.Sprintf(millions, float64(t.Parameters)/1e6), "parameters"),
		known(t.Steps, words.Thousands(t.Steps)+" steps", "steps"), known(data.Episodes, words.Thousands(data.Episodes)+" episodes"+origin, "episodes"))
}
