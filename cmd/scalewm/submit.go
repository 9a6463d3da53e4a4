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

// submitFlags are those of `reproduce` that hand its stages to a batch system.
// Those of byJob may be given for one stage, "train:24:00:00", and several times.
type submitFlags struct {
	engine                           *string
	print                            *bool
	image, volume, namespace, secret *string // of Kubernetes
	byJob                            []jobFlag
}

// jobFlag is a flag of what jobs ask for.
type jobFlag struct {
	name, usage string
	given       *texts
	set         func(r *submit.Resources, value string) error // nil: the number of shards
}

func (c *command) submitFlags() submitFlags {
	text := func(at func(*submit.Resources) *string) func(*submit.Resources, string) error {
		return func(r *submit.Resources, value string) error {
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
		engine:    c.String("submit", "", "hand the stages to a batch `system` and return: "+strings.Join(submit.Engines(), ", ")),
		print:     c.Bool("print", false, "with --submit: only write the scripts to OUT/jobs"),
		image:     c.String("image", "", "with --submit kubernetes: container `image` that has this program; the checkout's Dockerfile makes one"),
		volume:    c.String("volume", "", "with --submit kubernetes: `claim` that the results folder lies on: CLAIM or CLAIM:/folder, which it has here and in the pods; the one that holds --out unless told"),
		namespace: c.String("namespace", "", "with --submit kubernetes: `namespace` instead of kubectl's"),
		secret:    c.String("secret", "", "with --submit kubernetes: `name` of a Secret whose keys the pods have as environment, such as the credentials of --remote"),
		byJob: []jobFlag{
			{name: "shards", usage: "jobs of a `stage`, as in eval:64"},
			{name: "partition", usage: "`name` of Slurm's partition, or of a queue of Kueue", set: text(func(r *submit.Resources) *string { return &r.Partition })},
			{name: "account", usage: "`name` of the account that pays", set: text(func(r *submit.Resources) *string { return &r.Account })},
			{name: "time", usage: "`limit` of a job, as Slurm writes it: 4:00:00", set: text(func(r *submit.Resources) *string { return &r.Time })},
			{name: "mem", usage: "`memory` of a job: 16G", set: text(func(r *submit.Resources) *string { return &r.Mem })},
			{name: "cpus", usage: "`cores` of a job", set: number(func(r *submit.Resources) *int { return &r.CPUs })},
			{name: "gpus", usage: "`GPUs` of a job, which packed shards take in turn; collect and report have none unless told", set: number(func(r *submit.Resources) *int { return &r.GPUs })},
			{name: "setup", usage: "`line` of shell before the program: module load cuda", set: text(func(r *submit.Resources) *string { return &r.Setup })},
			{name: "extra", usage: "further `options` of Slurm: --constraint=a100", set: text(func(r *submit.Resources) *string { return &r.Extra })},
			{name: "throttle", usage: "`jobs` of a stage at once", set: number(func(r *submit.Resources) *int { return &r.Throttle })},
			{name: "pack", usage: "`shards` side by side in one job", set: number(func(r *submit.Resources) *int { return &r.Pack })},
		},
	}
	for i, j := range f.byJob {
		f.byJob[i].given = new(texts)
		c.Var(f.byJob[i].given, j.name, "with --submit: "+j.usage)
	}
	return f
}

func parseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("it is not a whole number from 0 on")
	}
	return n, nil
}

// kubernetesFlags are those that no other engine has.
var kubernetesFlags = []string{"image", "volume", "namespace", "secret"}

// names are the flags that jobs are not given.
func (f submitFlags) names() []string {
	names := append([]string{"submit", "print", "stage", "shard"}, kubernetesFlags...)
	for _, j := range f.byJob {
		names = append(names, j.name)
	}
	return names
}

// check refuses flags that mean nothing together.
func (f submitFlags) check(c *command) (err error) {
	if *f.engine != "" && !slices.Contains(submit.Engines(), *f.engine) {
		return usagef("reproduce: --submit %s: choose one of %s", *f.engine, strings.Join(submit.Engines(), ", "))
	}
	c.Visit(func(g *flag.Flag) {
		switch {
		case *f.engine == "" && slices.Contains(f.names()[1:], g.Name) && g.Name != "stage" && g.Name != "shard":
			err = usagef("reproduce: --%s means nothing without --submit", g.Name)
		case *f.engine != "" && (g.Name == "stage" || g.Name == "shard" || g.Name == "restarts"):
			err = usagef("reproduce: --submit does not go with --%s", g.Name)
		case *f.engine != submit.Kubernetes && slices.Contains(kubernetesFlags, g.Name):
			err = usagef("reproduce: --%s means something with --submit kubernetes only", g.Name)
		}
	})
	if err == nil && (*f.engine == submit.Slurm || *f.engine == submit.Kubernetes) && (c.value("device") == "auto" || c.value("precision") == "auto") {
		err = usagef("reproduce: --submit %s needs --device cpu or cuda and --precision fp32 or bf16, since the machines of a cluster differ and results must not", *f.engine)
	}
	if err == nil && (*f.engine == submit.Slurm || *f.engine == submit.Shell) && !gpuBuild && !*f.print && c.value("device") == "cuda" {
		err = usagef("reproduce: --submit %s: the jobs run this program: %v", *f.engine, errNoGPUBuild)
	}
	return err
}

func (c *command) value(name string) string { return c.Lookup(name).Value.String() }

// read is what the flags ask for by stage.
func (f submitFlags) read() (shards map[pipeline.Stage]int, resources map[pipeline.Stage]submit.Resources, err error) {
	shards, resources = map[pipeline.Stage]int{}, map[pipeline.Stage]submit.Resources{}
	for _, s := range pipeline.Stages() {
		resources[s] = submit.Default(s)
	}
	for _, j := range f.byJob {
		for _, given := range *j.given {
			stages, value := pipeline.Stages(), given
			if name, rest, ok := strings.Cut(given, ":"); ok {
				if s, err := pipeline.ParseStage(name); err == nil {
					stages, value = []pipeline.Stage{s}, rest
				}
			}
			for _, s := range stages {
				r := resources[s]
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

// words are this command, as jobs run it.
func (f submitFlags) words(c *command) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program for the jobs: %w", err)
	}
	if *f.engine == submit.Kubernetes {
		self = "scalewm" // of the image
	}
	words := []string{self, c.verb.name}
	c.Visit(func(g *flag.Flag) {
		if !slices.Contains(f.names(), g.Name) {
			values := texts{g.Value.String()}
			if several, ok := g.Value.(*texts); ok {
				values = *several
			}
			for _, v := range values {
				words = append(words, "--"+g.Name+"="+v)
			}
		}
	})
	return words, nil
}

// plan lists the jobs of a grid, and the numbers of shards that were asked for.
func (f submitFlags) plan(c *command, g pipeline.Graph) (p submit.Plan, shards map[pipeline.Stage]int, err error) {
	shards, resources, err := f.read()
	if err != nil {
		return p, nil, err
	}
	words, err := f.words(c)
	if err != nil {
		return p, nil, err
	}
	p, err = submit.NewPlan(*f.engine, words, g, shards, resources)
	return p, shards, err
}

// submit writes the jobs of what is left of a grid and hands them over.
func (c *command) submit(ctx context.Context, f submitFlags, w *pipeline.Workspace, out string) error {
	g := w.Graph()
	if err := g.Check(ctx); err != nil {
		return err
	}
	plan, shards, err := f.plan(c, g)
	if err != nil {
		return err
	}
	if *f.engine == submit.Kubernetes {
		if err := plan.OnKubernetes(submit.Cluster{Image: *f.image, Namespace: *f.namespace, Secret: *f.secret}, *f.volume, out, c.files()...); err != nil {
			return err
		}
	}
	if !*f.print {
		if err := plan.Refuse(ctx, out); err != nil {
			return err
		}
	}
	if err := plan.Keep(out, shards); err != nil {
		return err
	}
	left, err := leftOf(ctx, g, plan)
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
	case len(left) == 0:
		fmt.Fprintln(c.stdout, "all is done: nothing to submit")
		return nil
	case *f.print:
		fmt.Fprintf(c.stdout, "written, and not submitted: %s\n", filepath.Join(out, submit.Dir, "submit.sh"))
		return nil
	}
	said, err := plan.Submit(ctx, out)
	fmt.Fprint(c.stdout, said)
	return err
}

// files are those of the flags that are read by every job.
func (c *command) files() (paths []string) {
	for _, name := range []string{"preset", "backbone"} {
		if path := c.value(name); path != "" && (name != "preset" || strings.HasSuffix(path, ".toml")) {
			paths = append(paths, path)
		}
	}
	return paths
}

// leftOf lists the shards of each stage that have something to do. The report is made
// if anything else is, or if there is none.
func leftOf(ctx context.Context, g pipeline.Graph, p submit.Plan) (map[pipeline.Stage][]int, error) {
	left := map[pipeline.Stage][]int{}
	for _, j := range p.Jobs {
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
	for _, s := range pipeline.Of[*pipeline.Report](g) {
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
