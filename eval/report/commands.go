package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/infer"
	"scalewm/eval/report/doc"
	"scalewm/eval/results"
	"scalewm/eval/words"
	"scalewm/model"
)

// Run is how a results folder was made. With it the commands of the report continue the
// folder's run: other presets or episodes would not be accepted in the folder, or could not
// be compared with its results.
type Run struct {
	Dir       string // the results folder, as the user named it
	Preset    string // name or path of its preset; "" if it is unknown
	Episodes  int    // of a set in the preset
	Precision string // in which the preset plans
}

// reproduce returns the command that adds to the folder with the given flags. They have the
// tasks and methods. Flags that they do not have are those of the folder's run.
func (r *Report) reproduce(flags ...string) string {
	given := " " + strings.Join(flags, " ") + " "
	command := []string{"scalewm reproduce"}
	// add appends a flag that is not given and has a value.
	add := func(name, value string) {
		if value != "" && !strings.Contains(given, " "+name+" ") {
			command = append(command, name, value)
		}
	}
	preset, dir := "PRESET", "DIR"
	if r.Run.Preset != "" {
		preset = quoted(r.Run.Preset)
	}
	if r.Run.Dir != "" {
		dir = r.Run.Dir
	}
	if _, protocol, other := strings.Cut(given, " --protocol "); other { // a folder has one protocol
		protocol, _, _ = strings.Cut(protocol, " ")
		dir = filepath.Join(dir, protocol)
	}
	add("--preset", preset)
	add("--device", r.device())
	if p := r.only(func(c *results.Cell) string { return c.Spec.Precision }); p != r.Run.Precision {
		add("--precision", p)
	}
	add("--protocol", r.only(func(c *results.Cell) string { return c.Spec.Protocol }))
	add("--seeds", r.seeds(0))
	if n := r.only(func(c *results.Cell) string { return strconv.Itoa(c.Spec.Episodes) }); n != strconv.Itoa(r.Run.Episodes) {
		add("--episodes", n)
	}
	command = append(command, flags...)
	return strings.Join(append(command, "--out", quoted(dir)), " ")
}

// only returns the value that all cells of planned episodes have, or "".
func (r *Report) only(of func(*results.Cell) string) string {
	values := map[string]bool{}
	value := ""
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Spec.Solver != "" {
			value = of(c)
			values[value] = true
		}
	}
	if len(values) != 1 {
		return ""
	}
	return value
}

// device returns the value of --device for the devices of the cells, or "" if they differ.
func (r *Report) device() string {
	return r.only(func(c *results.Cell) string {
		backend, _, _ := strings.Cut(strings.ReplaceAll(c.Result.Device, "/", " "), " ")
		return backend
	})
}

// seeds returns the folder's training seeds and further ones, up to at least n, as a list
// for --seeds.
func (r *Report) seeds(n int) string {
	var seeds []int
	for _, b := range r.Blocks {
		for _, a := range b.Arms {
			if a.Plans() && !a.Floor() {
				seeds = append(seeds, a.Seed)
			}
		}
	}
	slices.Sort(seeds)
	seeds = slices.Compact(seeds)
	for len(seeds) > 0 && len(seeds) < n {
		seeds = append(seeds, seeds[len(seeds)-1]+1)
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(seeds), " ", ","), "[]")
}

// own returns the flags that name the folder's tasks and methods.
func (r *Report) own() string {
	var methods []string
	for _, a := range infer.ArmsOf(r.Blocks) {
		if _, err := model.LookUp(a.Method); err == nil {
			methods = append(methods, a.Method)
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

// quoted returns a word as a shell reads it.
func quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=@:,+") == "" && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
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
// vary them.
func (r *Report) factorGaps() doc.Text {
	out := doc.Text{Style: doc.Commands}
	var missing []string
	// add names a factor, with its command, unless some block varies it.
	add := func(name, flags string, there func(*infer.Block) bool) {
		if !slices.ContainsFunc(r.Blocks, there) {
			missing = append(missing, name)
			out.Items = append(out.Items, doc.Item{Text: r.reproduce(r.own(), flags)})
		}
	}
	switch r.only(func(c *results.Cell) string { return c.Spec.Protocol }) {
	case results.Paper:
		add("the strict protocol (held-out episodes)", "--protocol strict", func(*infer.Block) bool { return false })
	case results.Strict:
		add("the published protocol", "--protocol paper", func(*infer.Block) bool { return false })
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
