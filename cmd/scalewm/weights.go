package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/envs"
	"scalewm/eval/words"
	"scalewm/model"
	"scalewm/model/weights"
)

func init() {
	register(verb{name: "weights", args: "info|convert IN [OUT]", summary: "describe a checkpoint, or convert it from or to PyTorch's files",
		example: "scalewm weights info runs/scale-3072\n" +
			"scalewm weights convert lewm-tworooms runs/published --task tworoom\n" +
			"scalewm weights convert runs/scale-3072 scale-pt --json", run: runWeights})
}

// keyFlag defines --key, which all verbs that read checkpoints have.
func (c *command) keyFlag() *string {
	return c.String("key", "", "`name` of the model in a file with several, such as ema_state_dict; the error for such a file lists them")
}

// noteWeights prints on stderr what was chosen among the contents of a checkpoint and
// what was left out. Every verb calls it for every checkpoint that it reads.
func (c *command) noteWeights(path string, s *weights.Sidecar) {
	for _, text := range s.Notes {
		fmt.Fprintf(c.stderr, "note: %s: %s\n", path, text)
	}
}

// runWeights describes a checkpoint or converts one. After a conversion it describes
// the result, which also verifies that it can be read.
//
// A checkpoint is our safetensors file with a sidecar, or a published file with its
// configuration; a path may name the file or its folder. A conversion never replaces
// a file. If it fails it removes what it wrote, so that it can be repeated.
func runWeights(_ context.Context, c *command, args []string) error {
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	key := c.keyFlag()
	j := weightsJob{
		task:     c.String("task", "", "convert: `name` of the task of a published checkpoint"),
		method:   c.String("method", "", "convert: training `method` of a published checkpoint, if it is not lewm"),
		spelling: c.Int("transformers", 5, "convert to .pt: `version` of the transformers library whose tensor names to write, 5 or 4 (the published files use 4)"),
	}
	pos, err := c.parse(args, 2, 3)
	if err != nil {
		return err
	}
	j.in = pos[1]
	switch {
	case pos[0] == "info" && len(pos) == 2:
		if err := c.noEffect("with weights info", "task", "method", "transformers"); err != nil {
			return err
		}
		i, err := c.describeWeights(j.in, *key)
		if err != nil {
			return err
		}
		return c.showWeights(i, *asJSON)
	case pos[0] == "convert" && len(pos) == 3:
		j.out, j.key = pos[2], *key
		path, err := j.convert()
		if err != nil {
			return err
		}
		i, err := c.describeWeights(path, "")
		if err == nil {
			err = c.showWeights(i, *asJSON)
		}
		if err == nil && !*asJSON && filepath.Ext(path) == ".pt" {
			fmt.Fprintf(c.stdout, "  names      of transformers %d (--transformers %d writes the other generation's)\n", *j.spelling, 9-*j.spelling)
		}
		return err
	case pos[0] == "info":
		return usagef("weights info: unexpected argument %q", pos[2])
	case pos[0] == "convert":
		return usagef("weights convert needs IN OUT (`scalewm weights --help` shows an example)")
	}
	return usagef("weights: unknown action %q%s (info or convert)", pos[0], words.Nearest(pos[0], []string{"info", "convert"}))
}

// weightsInfo is the output of `weights info --json` and `weights convert --json`.
type weightsInfo struct {
	File     string           `json:"file"`
	Kind     string           `json:"kind"`
	Method   string           `json:"method"`
	Task     string           `json:"task"` // "": published; fits any task with its action width
	Seed     int64            `json:"seed"`
	Step     int              `json:"step"`
	Protocol string           `json:"protocol"`
	SHA256   string           `json:"sha256"`
	Notes    []string         `json:"notes"`   // what was chosen and what was left out
	Config   json.RawMessage  `json:"config"`  // geometry of the family
	Values   int              `json:"values"`  // numbers in all tensors
	DTypes   map[string]int   `json:"dtypes"`  // number of tensors by dtype
	Tensors  map[string][]int `json:"tensors"` // shapes by name

	geometry model.Geometry
}

// describeWeights returns the description of a checkpoint, and prints its notes.
func (c *command) describeWeights(path, key string) (weightsInfo, error) {
	m, s, err := model.Open(path, key)
	if err != nil {
		return weightsInfo{}, err
	}
	c.noteWeights(path, s)
	i := weightsInfo{File: path, Kind: s.Kind, Method: s.Method, Task: s.Task, Seed: s.Seed, Step: s.Step, Protocol: s.Protocol,
		SHA256: s.SHA256, Notes: append([]string{}, s.Notes...), Config: s.Config, geometry: m.Geometry, DTypes: map[string]int{}, Tensors: map[string][]int{}}
	// The dtypes are those in the file: reading converts all of them.
	for _, t := range m.Tensors {
		i.Values += len(t.Float64())
		i.DTypes[m.File.DType(t.Name)]++
		i.Tensors[t.Name] = append([]int{}, t.Shape...)
	}
	return i, nil
}

// showWeights prints the description of a checkpoint.
func (c *command) showWeights(i weightsInfo, asJSON bool) error {
	if asJSON {
		return c.printJSON(i)
	}
	var dtypes []string
	for d, n := range i.DTypes {
		dtypes = append(dtypes, fmt.Sprintf("%d %s", n, d))
	}
	slices.Sort(dtypes)
	task := i.Task
	if task == "" {
		task = fmt.Sprintf("not recorded; action blocks of %d", i.geometry.Info().ActionWidth)
	}
	made := fmt.Sprintf("seed %d, %d steps", i.Seed, i.Step)
	if i.Step == 0 && i.Method != model.Untrained { // published
		made = "seed and steps not recorded"
	}
	encoder, latents, predictor := i.geometry.Describe()
	_, err := fmt.Fprintf(c.stdout, "%s: %s\n  method     %s, %s, protocol %s\n  task       %s\n"+
		"  encoder    %s\n  latent     %s\n  predictor  %s\n"+
		"  tensors    %d of %d numbers (%s)\n  sha256     %s\n",
		i.File, i.Kind, i.Method, made, i.Protocol, task, encoder, latents, predictor, len(i.Tensors), i.Values, strings.Join(dtypes, ", "), i.SHA256)
	return err
}

// weightsJob is one conversion. spelling is the version of the transformers library
// whose tensor names are written.
type weightsJob struct {
	in, out      string  // paths of files or folders
	key          string  // of the model in the input (model.Open)
	task, method *string // of a published checkpoint; "": leave unknown
	spelling     *int    // 4 or 5
}

// convert converts between our format and PyTorch's, and returns the path of the file
// of tensors. The suffix of out selects the format; a folder gets PyTorch's if the input
// has ours, and ours otherwise.
func (j weightsJob) convert() (string, error) {
	if *j.spelling != 4 && *j.spelling != 5 {
		return "", usagef("weights convert: --transformers %d: it is 4 or 5", *j.spelling)
	}
	if known := model.MethodNames(model.Method.Trained); *j.method != "" && !slices.Contains(known, *j.method) {
		return "", usagef("weights convert: no method named %q (%s)", *j.method, strings.Join(known, ", "))
	}
	if *j.task != "" {
		if _, err := envs.Lookup(*j.task); err != nil {
			return "", usagef("weights convert: %v", err)
		}
	}
	c, s, err := model.Open(j.in, j.key)
	if err != nil {
		return "", err
	}
	// Sidecars of our trainings record method and task; published files do not.
	if s.Task == "" {
		if err := j.complete(s, c.Geometry.Info().ActionDim()); err != nil {
			return "", err
		}
	} else if *j.task != "" && *j.task != s.Task {
		return "", fmt.Errorf("converting %s: it was trained on the task %s, not %s (hint: leave --task out)", j.in, s.Task, *j.task)
	}
	path, files, err := j.target(c.File.PT || c.NoSidecar)
	if err != nil {
		return "", err
	}
	if err = j.write(path, c, s); err != nil {
		// target made sure that none of these files existed. Without the remains the same
		// command can run again.
		for _, name := range files {
			os.Remove(name)
		}
	}
	return path, err
}

// write writes the files of the converted checkpoint. For PyTorch that includes the
// Hydra configuration, from which stable-worldmodel builds the model.
func (j weightsJob) write(path string, c *model.Checkpoint, s *weights.Sidecar) error {
	ts := c.Tensors
	if filepath.Ext(path) == ".pt" {
		var config []byte
		var err error
		// The names of tensors that the reference implementation expects.
		if ts, config, err = c.Published(*j.spelling); err != nil {
			return err
		}
		err = safefile.Write(filepath.Join(filepath.Dir(path), weights.HydraName), func(w io.Writer) error { _, err := w.Write(config); return err })
		if err != nil {
			return err
		}
	}
	return weights.Save(path, ts, s)
}

// complete adds to a published checkpoint's sidecar what its files do not record:
// method and task.
func (j weightsJob) complete(s *weights.Sidecar, actionDim int) error {
	if *j.method != "" {
		s.Method = *j.method
	}
	if *j.task == "" {
		return nil
	}
	t, err := envs.Lookup(*j.task)
	if err != nil {
		return err
	}
	// The width of actions is the only property of the task that published files have.
	if t.Spec.ActionDim != actionDim {
		return fmt.Errorf("converting %s: its action blocks hold %d numbers a step, the task %s has %d (hint: name its own task)",
			j.in, actionDim, *j.task, t.Spec.ActionDim)
	}
	s.Task = *j.task
	return nil
}

// target returns the path of the file of tensors and those of all files to write. It
// is an error if one of them exists, or if they would be in the folder of the input:
// then the two formats would form a single, ambiguous checkpoint.
func (j weightsJob) target(toOurs bool) (path string, files []string, err error) {
	// A suffix selects the format. Otherwise out is a folder.
	path = j.out
	if ext := filepath.Ext(path); ext != ".pt" && ext != filepath.Ext(weights.FileName) {
		name := weights.PTName
		if toOurs {
			name = weights.FileName
		}
		path = filepath.Join(path, name)
	}
	// Compare folders by identity and not by name: links and relative paths.
	from := j.in
	if st, err := os.Stat(from); err == nil && !st.IsDir() {
		from = filepath.Dir(from)
	}
	in, err1 := os.Stat(from)
	to, err2 := os.Stat(filepath.Dir(path))
	if err1 == nil && err2 == nil && os.SameFile(in, to) {
		return "", nil, fmt.Errorf("converting %s: the output %s is in the folder of the input (hint: choose another OUT)", j.in, path)
	}
	files = []string{path, weights.SidecarOf(path)}
	if filepath.Ext(path) == ".pt" {
		files = append(files, filepath.Join(filepath.Dir(path), weights.HydraName))
	}
	for _, p := range files {
		if _, err := os.Stat(p); err == nil {
			return "", nil, fmt.Errorf("converting %s: %s already exists (hint: remove it or choose another OUT)", j.in, p)
		}
	}
	return path, files, nil
}
