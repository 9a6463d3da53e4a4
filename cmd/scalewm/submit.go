package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/pipeline"
	"scalewm/eval/submit"
)

// submitFlags are the flags of reproduce that submit its stages to a batch system.
// Each flag in byJob may be given for one stage, "train:24:00:00", and several times.
type submitFlags struct {
	engine *string // name of the batch system; "": run here
	print  *bool
	// For Kubernetes: container image, volume of the results folder, namespace and secret.
	image, volume, namespace, secret *string
	byJob                            []jobFlag // resources of jobs
}

// jobFlag is a flag for the resources of jobs.
type jobFlag struct {
	name, usage string
	given       *stringList // the values in the order of the command line; later ones win
	// set stores the value of one stage in r. It is nil for --shards, which is not a
	// resource.
	set func(r *submit.Resources, value string) error
}

// submitFlags defines these flags.
func (c *command) submitFlags() submitFlags {
	// text and number return setters of a field of Resources, which at selects.
	text := func(at func(*submit.Resources) *string) func(*submit.Resources, string) error {
		return func(r *submit.Resources, value string) error {
			// The value becomes a line of a job script.
			if strings.ContainsAny(value, "\n\r") {
				return fmt.Errorf("it has more than one line")
			}
			*at(r) = value
			return nil
		}
	}
	number := func(at func(*submit.Resources) *int) func(*submit.Resources, string) error {
		return func(r *submit.Resources, value string) (err error) {
			*at(r), err = parseCount(value)
			return err
		}
	}
	f := submitFlags{
		engine:    c.String("submit", "", "submit the stages to a batch `system` and return: "+strings.Join(submit.Engines(), ", ")),
		print:     c.Bool("print", false, "with --submit: write the scripts to OUT/jobs, but do not submit them"),
		image:     c.String("image", "", "with --submit kubernetes: container `image` with this program, as the Dockerfile builds it"),
		volume:    c.String("volume", "", "with --submit kubernetes: volume `claim` of the results folder: CLAIM, or CLAIM:/FOLDER to mount it at, the same path here and in the pods (default: the parent folder of --out)"),
		namespace: c.String("namespace", "", "with --submit kubernetes: `namespace` (default: kubectl's)"),
		secret:    c.String("secret", "", "with --submit kubernetes: `name` of a Secret whose keys become environment variables of the pods, such as the credentials of --remote"),
		byJob: []jobFlag{
			{name: "shards", usage: "number of shards of a stage, `STAGE:N`, for example eval:64"},
			{name: "partition", usage: "`name` of the Slurm partition or Kueue queue", set: text(func(r *submit.Resources) *string { return &r.Partition })},
			{name: "account", usage: "`name` of the account to charge", set: text(func(r *submit.Resources) *string { return &r.Account })},
			{name: "time", usage: "time `limit` of a job in Slurm's format, for example 4:00:00", set: text(func(r *submit.Resources) *string { return &r.Time })},
			{name: "mem", usage: "`memory` of a job, for example 16G", set: text(func(r *submit.Resources) *string { return &r.Mem })},
			{name: "cpus", usage: "number of `cores` of a job", set: number(func(r *submit.Resources) *int { return &r.CPUs })},
			{name: "gpus", usage: "number of `GPUs` of a job, assigned to packed shards in turn; collect and report use none unless named", set: number(func(r *submit.Resources) *int { return &r.GPUs })},
			{name: "setup", usage: "shell `command` to run before the program, for example \"module load cuda\"", set: text(func(r *submit.Resources) *string { return &r.Setup })},
			{name: "extra", usage: "further `options` for Slurm, for example --constraint=a100", set: text(func(r *submit.Resources) *string { return &r.Extra })},
			{name: "throttle", usage: "run at most `n` jobs of a stage at once", set: number(func(r *submit.Resources) *int { return &r.Throttle })},
			{name: "pack", usage: "run `n` shards concurrently in one job", set: number(func(r *submit.Resources) *int { return &r.Pack })},
		},
	}
	for i, j := range f.byJob {
		f.byJob[i].given = new(stringList)
		c.Var(f.byJob[i].given, j.name, "with --submit: "+j.usage)
	}
	return f
}

// parseCount parses a number of at least 0.
func parseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("it is not a non-negative integer")
	}
	return n, nil
}

// kubernetesFlags are the flags that apply to Kubernetes only.
var kubernetesFlags = []string{"image", "volume", "namespace", "secret"}

// notForJobs returns the names of the flags that the command lines of the jobs leave
// out: they have their own --stage and --shard, and submit nothing.
func (f submitFlags) notForJobs() []string {
	names := append([]string{"submit", "print", "stage", "shard"}, kubernetesFlags...)
	for _, j := range f.byJob {
		names = append(names, j.name)
	}
	return names
}

// check returns a usage error for flags that cannot be combined. On a cluster device
// and precision must be given: with auto, jobs on different nodes could compute cells
// that must not be compared.
func (f submitFlags) check(c *command) (err error) {
	if *f.engine != "" && !slices.Contains(submit.Engines(), *f.engine) {
		return usagef("reproduce: --submit %s: choose one of %s", *f.engine, strings.Join(submit.Engines(), ", "))
	}
	c.Visit(func(g *flag.Flag) {
		switch {
		case *f.engine == "" && slices.Contains(f.notForJobs()[1:], g.Name) && g.Name != "stage" && g.Name != "shard":
			err = usagef("reproduce: --%s has no effect without --submit", g.Name)
		case *f.engine != "" && (g.Name == "stage" || g.Name == "shard" || g.Name == "restarts"):
			err = usagef("reproduce: --submit cannot be combined with --%s", g.Name)
		case *f.engine != submit.Kubernetes && slices.Contains(kubernetesFlags, g.Name):
			err = usagef("reproduce: --%s applies to --submit kubernetes only", g.Name)
		}
	})
	if err == nil && (*f.engine == submit.Slurm || *f.engine == submit.Kubernetes) && (c.value("device") == "auto" || c.value("precision") == "auto") {
		err = usagef("reproduce: --submit %s needs --device cpu or cuda and --precision fp32 or bf16: the machines of a cluster differ, but results must not", *f.engine)
	}
	// Slurm and shell jobs run this binary; pods run that of the image.
	if err == nil && (*f.engine == submit.Slurm || *f.engine == submit.Shell) && !gpuBuild && !*f.print && c.value("device") == "cuda" {
		err = usagef("reproduce: --submit %s: the jobs run this program: %v", *f.engine, errNoGPUBuild)
	}
	return err
}

// value returns the text of a flag.
func (c *command) value(name string) string { return c.Lookup(name).Value.String() }

// read returns the number of shards and the resources of each stage. The prefix
// STAGE: is optional; without it a value applies to all stages, except that collect
// and report use a GPU only if they are named.
func (f submitFlags) read() (shards map[pipeline.Stage]int, resources map[pipeline.Stage]submit.Resources, err error) {
	shards, resources = map[pipeline.Stage]int{}, map[pipeline.Stage]submit.Resources{}
	for _, s := range pipeline.Stages() {
		resources[s] = submit.Default(s)
	}
	for _, j := range f.byJob {
		for _, given := range *j.given {
			stages, value := pipeline.Stages(), given
			// The part before the first colon is a stage only if it is the name of one: 4:00:00
			// has colons too.
			if name, rest, ok := strings.Cut(given, ":"); ok {
				if s, err := pipeline.ParseStage(name); err == nil {
					stages, value = []pipeline.Stage{s}, rest
				}
			}
			for _, s := range stages {
				r := resources[s]
				// GPUs for all stages leave out those that compute nothing.
				if j.set == nil {
					shards[s], err = parseCount(value)
				} else if err = j.set(&r, value); j.name == "gpus" && len(stages) > 1 && (s == pipeline.StageCollect || s == pipeline.StageReport) {
					r.GPUs = 0
				}
				if err != nil {
					return nil, nil, usagef("reproduce: --%s %s: %v", j.name, given, err)
				}
				resources[s] = r
			}
		}
	}
	return shards, resources, nil
}

// jobCommand returns the command line of the jobs: this one without the flags that
// only concern submitting.
func (f submitFlags) jobCommand(c *command) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program for the jobs: %w", err)
	}
	if *f.engine == submit.Kubernetes {
		self = "scalewm" // the image has it on its PATH
	}
	// --flag=value also works for boolean flags, and for values that begin with a dash.
	words := []string{self, c.verb.name}
	c.Visit(func(g *flag.Flag) {
		if !slices.Contains(f.notForJobs(), g.Name) {
			values := stringList{g.Value.String()}
			if several, ok := g.Value.(*stringList); ok {
				values = *several
			}
			for _, v := range values {
				words = append(words, "--"+g.Name+"="+v)
			}
		}
	})
	return words, nil
}

// plan returns the jobs of a grid, and the numbers of shards that were given.
func (f submitFlags) plan(c *command, g pipeline.Graph) (p submit.Plan, shards map[pipeline.Stage]int, err error) {
	shards, resources, err := f.read()
	if err != nil {
		return p, nil, err
	}
	words, err := f.jobCommand(c)
	if err != nil {
		return p, nil, err
	}
	p, err = submit.NewPlan(*f.engine, words, g, shards, resources)
	return p, shards, err
}

// submit writes the scripts of the jobs that still have something to do, and submits
// them. Running it again after failures submits only the incomplete shards. Stdout
// has a line per job and what the batch system answered. The command returns at once;
// --watch shows the progress.
func (c *command) submit(ctx context.Context, f submitFlags, w *pipeline.Workspace, out string) error {
	g := w.Graph()
	if err := g.Check(ctx); err != nil {
		return err
	}
	plan, shards, err := f.plan(c, g)
	if err != nil {
		return err
	}
	// Pods see only what the volume contains, so that the files in flags must be on it.
	if *f.engine == submit.Kubernetes {
		if err := plan.OnKubernetes(submit.Cluster{Image: *f.image, Namespace: *f.namespace, Secret: *f.secret}, *f.volume, out, c.files()...); err != nil {
			return err
		}
	}
	// Jobs of an earlier submission may still be queued or running.
	if !*f.print {
		if err := plan.CheckQueue(ctx, out); err != nil {
			return err
		}
	}
	// A repeated submission must have the same shards as the first, or two jobs would
	// compute the same cells; Save stores the plan and compares.
	if err := plan.Save(out, shards); err != nil {
		return err
	}
	left, err := remainingShards(ctx, g, plan)
	if err == nil {
		err = plan.Write(ctx, out, left)
	}
	if err != nil {
		return err
	}
	for _, j := range plan.Jobs {
		fmt.Fprintf(c.stdout, "%-9s %d of %d shards to do\n", j.Name, min(len(left[j.Stage]), j.Shards), j.Shards)
	}
	switch {
	// Nothing is left in any stage, and the report exists.
	case len(left) == 0:
		fmt.Fprintln(c.stdout, "everything is done: nothing to submit")
		return nil
	case *f.print:
		fmt.Fprintf(c.stdout, "written but not submitted: %s\n", filepath.Join(out, submit.Dir, "submit.sh"))
		return nil
	}
	said, err := plan.Submit(ctx, out)
	fmt.Fprint(c.stdout, said)
	return err
}

// files returns the paths in flags that every job reads, so that a pod can reach
// them.
func (c *command) files() (paths []string) {
	for _, name := range []string{"preset", "protocol", "backbone"} {
		if path := c.value(name); path != "" && (name == "backbone" || strings.HasSuffix(path, ".toml")) {
			paths = append(paths, path)
		}
	}
	// A folder, or a list of NAME=PATH.
	for _, name := range []string{"data", "weights"} {
		for entry := range strings.SplitSeq(c.value(name), ",") {
			if _, path, ok := strings.Cut(entry, "="); ok {
				entry = path
			}
			if entry != "" {
				paths = append(paths, entry)
			}
		}
	}
	return paths
}

// remainingShards returns, for each stage, the shards that have something to do. The
// report is included if any other stage is, or if there is no report yet.
func remainingShards(ctx context.Context, g pipeline.Graph, p submit.Plan) (map[pipeline.Stage][]int, error) {
	left := map[pipeline.Stage][]int{}
	for _, j := range p.Jobs {
		// A stage may have several jobs (chunks of a large array).
		if _, ok := left[j.Stage]; ok || j.Stage == pipeline.StageReport {
			continue
		}
		shards, err := g.Left(ctx, j.Stage, j.Shards)
		if err != nil {
			return nil, err
		}
		if len(shards) > 0 {
			left[j.Stage] = shards
		}
	}
	// A report exists or not; whether it is up to date follows from the other stages.
	for _, s := range pipeline.StepsOf[*pipeline.Report](g) {
		state, err := s.State(ctx)
		if err != nil {
			return nil, err
		}
		if len(left) > 0 || state.Text == "to do" {
			left[pipeline.StageReport] = []int{0}
		}
	}
	return left, nil
}
