// Package submit runs a reproduction on a batch system: Slurm, Kubernetes, or a single shell
// without a batch system. `scalewm reproduce --submit` uses it.
//
// A Plan turns the stages of a graph of package pipeline into jobs, each with a number of
// shards and the resources of an allocation. Plan.Write writes the scripts into the results
// folder, in OUT/jobs, where people can read and edit them, and Plan.Submit runs submit.sh.
// The batch system queues, places, retries and preempts the jobs.
//
// A job runs `scalewm reproduce --stage STAGE --shard I/N`. The state of a shard is the
// files of the results folder, so jobs need no communication, a job may be killed at any
// time, and submitting again runs what is left. The package depends on stages and shards,
// but not on what they compute.
//
//	plan.go        Plan and its jobs, how many shards a stage has, quoting
//	resources.go   the resources of a job, and their syntax
//	submit.go      writing scripts, checks before a submission, submission
//	slurm.go, kubernetes.go, shell.go  the engines
//	look.go        the state of submitted jobs, for `scalewm watch`
package submit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"scalewm/dataset/safefile"
	"scalewm/eval/pipeline"
	"scalewm/eval/results"
)

// Dir is the name of the folder in a results folder that has the scripts, the plan and
// the logs.
const Dir = results.JobsDir

// Plan is the list of a reproduction's jobs. It is stored as jobs/plan.json. The numbers of
// shards never change during the life of a results folder's jobs, see Save.
type Plan struct {
	Engine  string   `json:"engine"`  // Slurm, Kubernetes or Shell
	Folder  string   `json:"folder"`  // working folder of the jobs
	Command []string `json:"command"` // command of every job, without its stage and shard
	Jobs    []Job    `json:"jobs"`    // in the order of stages

	Kubernetes *Cluster `json:"kubernetes,omitempty"` // nil for other engines
}

// Job is the part of a plan that runs one stage, or that merges the shards of collect.
type Job struct {
	Name   string         `json:"name"` // the stage, or join
	Stage  pipeline.Stage `json:"stage"`
	Shards int            `json:"shards"`
	Resources
}

// cellsPerShard is a number of cells that takes between ten minutes and an hour on a
// GPU: the five tiers and six sets of one checkpoint and solver. Shorter jobs would
// mostly start up, and longer ones would wait long in the queue and lose more to a
// preemption.
const cellsPerShard = 30

// Shards returns the default number of shards of a stage with a number of units. Data
// sets are collected in parts, so several shards work on one of them; a checkpoint is
// trained by one shard.
func Shards(stage pipeline.Stage, units int) int {
	switch stage {
	case pipeline.StageCollect:
		return min(4*units, MaxCount)
	case pipeline.StageEval:
		return (units + cellsPerShard - 1) / cellsPerShard
	case pipeline.StageReport:
		return 1
	}
	return min(units, MaxCount)
}

// join is the name of the job that merges the parts of data sets that shards of collect
// wrote.
const join = "join"

// NewPlan returns the plan of a graph's stages. Stages without units get no job. shards
// has the numbers of shards that the user requests, by stage; 0 stands for the default.
func NewPlan(engine string, command []string, g pipeline.Graph, shards map[pipeline.Stage]int, resources map[pipeline.Stage]Resources) (Plan, error) {
	folder, err := os.Getwd()
	if err != nil {
		return Plan{}, fmt.Errorf("planning jobs: %w", err)
	}
	p := Plan{Engine: engine, Folder: folder, Command: command}
	for _, stage := range pipeline.Stages() {
		units := g.Units(stage)
		if units == 0 {
			continue
		}
		j := Job{Name: string(stage), Stage: stage, Shards: shards[stage], Resources: resources[stage]}
		if j.Shards == 0 {
			j.Shards = Shards(stage, units)
		}
		if err := j.check(); err != nil {
			return Plan{}, err
		}
		p.Jobs = append(p.Jobs, j)
		if stage == pipeline.StageCollect && j.Shards > 1 {
			p.Jobs = append(p.Jobs, Job{Name: join, Stage: stage, Shards: 1, Resources: resources[stage]})
		}
	}
	return p, nil
}

// planName is the name of the plan's file in Dir.
const planName = "plan.json"

// Save writes the plan into the results folder out. The numbers of shards of an earlier plan
// are retained, since jobs of it may still be queued: with another number, two shards could
// work on the same unit. Requesting other numbers in asked is an error.
func (p *Plan) Save(out string, asked map[pipeline.Stage]int) error {
	path := filepath.Join(out, Dir, planName)
	old, err := readPlan(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case old.Engine != p.Engine:
		return pipeline.Requestf("%s is a plan for %s, and %s was requested (hint: delete %s when none of its jobs is queued)", path, old.Engine, p.Engine, filepath.Dir(path))
	}
	for i, j := range p.Jobs {
		at := slices.IndexFunc(old.Jobs, func(o Job) bool { return o.Name == j.Name })
		if at < 0 {
			continue
		}
		if n := asked[j.Stage]; n != 0 && j.Name != join && n != old.Jobs[at].Shards {
			return pipeline.Requestf("%s has %d shards of %s, and %d were requested (hint: leave out --shards, or delete %s when none of its jobs is queued)", path, old.Jobs[at].Shards, j.Name, n, filepath.Dir(path))
		}
		p.Jobs[i].Shards = old.Jobs[at].Shards
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the plan of the jobs: %w", err)
	}
	return write(path, string(text)+"\n")
}

// readPlan reads a plan. It checks the numbers of shards, which become loops of a shell.
func readPlan(path string) (p Plan, err error) {
	text, err := safefile.Read(path, safefile.MaxRecord)
	if err != nil {
		return p, fmt.Errorf("reading the plan of the jobs: %w", err)
	}
	if json.Unmarshal(text, &p) != nil || slices.ContainsFunc(p.Jobs, func(j Job) bool { return j.Shards < 1 || j.Shards > MaxCount }) {
		return p, fmt.Errorf("reading the plan of the jobs: %s is damaged (hint: delete it when none of its jobs is queued)", path)
	}
	return p, nil
}

// write writes one of the files of jobs/, atomically.
func write(path, text string) error {
	return safefile.Write(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// commandLine returns the command of a job, without its shard, quoted for a shell.
func (p Plan) commandLine(j Job) string {
	words := append(slices.Clone(p.Command), "--stage", string(j.Stage))
	for i, w := range words {
		words[i] = pipeline.Quote(w)
	}
	return strings.Join(words, " ")
}

// tasks formats ascending numbers as batch systems write them: "0-3,7".
func tasks(units []int) string {
	var out []string
	for i := 0; i < len(units); {
		k := i
		for k+1 < len(units) && units[k+1] == units[k]+1 {
			k++
		}
		if k == i {
			out = append(out, fmt.Sprint(units[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", units[i], units[k]))
		}
		i = k + 1
	}
	return strings.Join(out, ",")
}

// dealsGPUs reports whether atOnce concurrent shards of a job get one GPU each, assigned
// round robin.
func (j Job) dealsGPUs(atOnce int) bool { return atOnce > 1 && j.GPUs > 1 }

// allocations returns the numbers of the allocations to which ascending shards belong:
// allocation a runs the shards a*pack ... a*pack+pack-1.
func allocations(shards []int, pack int) (out []int) {
	for _, s := range shards {
		if a := s / max(pack, 1); len(out) == 0 || out[len(out)-1] != a {
			out = append(out, a)
		}
	}
	return out
}

// atOnce returns the largest number of a job's shards that run at the same time. The
// shell has one machine, and by default one allocation at a time.
func (p Plan) atOnce(j Job) int {
	allocations := j.Throttle
	if p.Engine == Shell {
		allocations = max(allocations, 1)
	}
	if allocations == 0 {
		return math.MaxInt
	}
	return allocations * max(j.Pack, 1)
}

// Seconds predicts the time from the first job to the end of the last, on machines like
// the one on which the costs were measured, without time in queues. Stages follow one
// another, except for evaluations and analyses, which run at the same time.
func (p Plan) Seconds(costs []pipeline.Cost) (all pipeline.Seconds) {
	var parallel pipeline.Seconds // the longer of evaluations and analyses
	for _, c := range costs {
		i := slices.IndexFunc(p.Jobs, func(j Job) bool { return j.Stage == c.Stage })
		if i < 0 || c.Seconds == nil {
			continue
		}
		j := p.Jobs[i]
		atOnce := min(max(j.Shards, 1), p.atOnce(j))
		// With many shards a stage still takes as long as its longest unit.
		least, most := c.Seconds.Least/float64(atOnce), max(c.Seconds.Most/float64(atOnce), c.Longest)
		switch c.Stage {
		case pipeline.StageEval, pipeline.StageAnalyse:
			parallel = pipeline.Seconds{Least: max(parallel.Least, least), Most: max(parallel.Most, most)}
		default:
			all = pipeline.Seconds{Least: all.Least + least, Most: all.Most + most}
		}
	}
	return pipeline.Seconds{Least: all.Least + parallel.Least, Most: all.Most + parallel.Most}
}
