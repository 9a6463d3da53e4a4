package report

import (
	"fmt"
	"slices"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
	"scalewm/model"
)

// reproduce returns the command that adds to the folder with the given flags.
func (r *Report) reproduce(flags ...string) string {
	text := strings.Join(flags, " ")
	if r.Command != nil {
		return r.Command(text)
	}
	return "scalewm reproduce " + text + " --out DIR"
}

// own returns the flags that name the folder's tasks and methods.
func (r *Report) own() string {
	var methods []string
	for _, a := range infer.ArmsOf(r.Blocks) {
		name := a.Method
		if encoder, ok := a.Origin(); ok && a.Entry().Policy {
			name += "@" + encoder.Method
		}
		if _, err := model.ParseMethod(name); err == nil {
			methods = append(methods, name)
		}
	}
	return forMethods(infer.Tasks(r.Blocks), methods)
}

// forMethods returns the flags that name tasks and methods, in the order of tables, and
// what these methods need. It sorts its arguments.
func forMethods(tasks, methods []string) string {
	slices.SortFunc(tasks, results.CompareTasks)
	slices.SortFunc(methods, model.CompareMethods)
	flags := fmt.Sprintf("--tasks %s --methods %s", strings.Join(slices.Compact(tasks), ","), strings.Join(slices.Compact(methods), ","))
	if slices.ContainsFunc(methods, func(name string) bool { return model.MethodOf(name).Pretrained }) {
		flags += " --backbone FILE"
	}
	return flags
}

// factors lists the settings that a study may vary: a name for readers, a part of the name
// of such settings, and the flags of `reproduce` that vary them.
var factors = []struct{ name, setting, flags string }{
	{"iCEM without its clipping", "clip ", "--solvers icem --icem-clip none"},
	{"actions clipped to the task's bounds", "actions executed", "--action-clip"},
	{"the planner's random draws", "planner noise", "--planner-noise 1"},
	{"all valid starts in the pool", "pool full", "--pool full"},
}

// factorGaps names the factors that the folder does not vary, with the commands that
// vary them. There are none for outside worlds, in which only Python evaluates.
func (r *Report) factorGaps() doc.Text {
	out := doc.Text{Style: doc.Commands}
	if len(r.Outside()) > 0 {
		return out
	}
	var missing []string
	// add names a factor, with its command, unless some block varies it.
	add := func(name, flags string, there func(*infer.Block) bool) {
		if !slices.ContainsFunc(r.Blocks, there) {
			missing = append(missing, name)
			out.Items = append(out.Items, doc.Item{Text: r.reproduce(r.own(), flags)})
		}
	}
	others := map[string][2]string{results.Paper: {"the strict protocol (held-out episodes)", results.Strict}, results.Strict: {"the published protocol", results.Paper}}
	if all := r.Origin.Protocols; len(all) == 1 && others[all[0]][0] != "" {
		add(others[all[0]][0], "--protocol "+others[all[0]][1], func(*infer.Block) bool { return false })
	}
	for _, f := range factors {
		add(f.name, f.flags, func(b *infer.Block) bool { return strings.Contains(b.Settings, f.setting) })
	}
	add("MPPI's temperature", "--solvers mppi --temperature stock", func(b *infer.Block) bool { return b.Solver == results.StockMPPI })
	add("the printed T2", "--tiers T2,T2p", func(b *infer.Block) bool { return slices.Contains(b.TierNames(), "T2p") })
	if len(missing) > 0 {
		out.Title, out.Body = "Not varied here", "The folder has no second setting of "+words.Listing(missing)+". These commands add one. To compare several results folders, give scalewm report the folder that contains them."
	}
	return out
}
