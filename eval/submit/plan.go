// Package submit submits a reproduction to a batch system: Slurm, Kubernetes, or a shell script.
//
// The stages of a graph become jobs, and their shards tasks of these jobs. The package writes
// scripts and a [Plan] to OUT/jobs/, where people can read and edit them. The batch system
// queues, places, retries and preempts. Results are in the results folder, which all jobs share,
// so jobs do not communicate: each computes what is missing. A job that stops in order exits with
// 75, and the scripts requeue it.
//
// Names of folders may contain any byte. Scripts pass them as quoted words, and never let a shell
// or a template expand them; hostile_test.go tests this.
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

// Dir is the folder of scripts, plan and logs in a results folder.
const Dir = results.JobsDir

// Plan is a reproduction as jobs of a batch system, stored in jobs/plan.json. The numbers of shards
// of the first submission hold for all later ones, so that a shard always has the same work.
type Plan struct {
	Engine  string   `json:"engine"`
	Folder  string   `json:"folder"`  // working directory of the jobs
	Command []string `json:"command"` // command of every job, without stage and shard
	Jobs    []Job    `json:"jobs"`    // in the order of their stages

	Kubernetes *Cluster `json:"kubernetes,omitempty"` // set for that engine
}

// Job runs one stage, or joins the shards of collect.
type Job struct {
	Name   string         `json:"name"`
	Stage  pipeline.Stage `json:"stage"`
	Shards int            `json:"shards"`
	Resources
}

// cellsPerShard is the default size of an evaluation shard: the five tiers and six sets of one
// checkpoint and solver, which take between ten minutes and an hour on a GPU.
const cellsPerShard = 30

// Shards returns the default number of shards of a stage with that many units.
func Shards(stage pipeline.Stage, units int) int {
	switch stage {
	case pipeline.StageCollect:
		return min(4*units, MaxCount) // data sets are few and slow to draw
	case pipeline.StageEval:
		return (units + cellsPerShard - 1) / cellsPerShard
	case pipeline.StageReport:
		return 1
	}
	return min(units, MaxCount)
}

// join is the name of the job that assembles the data sets from the shards of collect.
const join = "join"

// NewPlan returns the plan of a graph's stages. shards and resources have the user's choices by
// stage.
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

const planName = "plan.json"

// Save writes the plan to the results folder out. The numbers of shards of an earlier plan hold; it is
// an error if the user requested others.
func (p *Plan) Save(out string, asked map[pipeline.Stage]int) error {
	path := filepath.Join(out, Dir, planName)
	old, err := readPlan(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case old.Engine != p.Engine:
		return pipeline.Requestf("%s is a plan for %s, and this command requests %s (hint: delete %s if none of its jobs is queued)", path, old.Engine, p.Engine, filepath.Dir(path))
	}
	// A shard of a resubmitted stage must have the same work as before, because it recognises the lock of its
	// own training.
	for i, j := range p.Jobs {
		at := slices.IndexFunc(old.Jobs, func(o Job) bool { return o.Name == j.Name })
		if at < 0 {
			continue
		}
		if n := asked[j.Stage]; n != 0 && j.Name != join && n != old.Jobs[at].Shards {
			return pipeline.Requestf("%s has %d shards of %s, and %d are requested (hint: leave out --shards, or delete %s when none of its jobs is queued)", path, old.Jobs[at].Shards, j.Name, n, filepath.Dir(path))
		}
		p.Jobs[i].Shards = old.Jobs[at].Shards
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the plan of the jobs: %w", err)
	}
	return write(path, string(text)+"\n")
}

func readPlan(path string) (p Plan, err error) {
	text, err := safefile.Read(path, safefile.MaxRecord)
	if err != nil {
		return p, fmt.Errorf("reading the plan of the jobs: %w", err)
	}
	if json.Unmarshal(text, &p) != nil || slices.ContainsFunc(p.Jobs, func(j Job) bool { return j.Shards < 1 || j.Shards > MaxCount }) {
		return p, fmt.Errorf("reading the plan of the jobs: %s is damaged (hint: delete it if none of its jobs is queued)", path)
	}
	return p, nil
}

// write writes a file of jobs/ atomically.
func write(path, text string) error {
	return safefile.Write(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// commandLine returns the quoted command line of a job, without its shard.
func (p Plan) commandLine(j Job) string {
	words := append(slices.Clone(p.Command), "--stage", string(j.Stage))
	for i, w := range words {
		words[i] = quote(w)
	}
	return strings.Join(words, " ")
}

// plain are the characters of words that need no quotes in a shell.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:./@%"

// quote returns a word quoted for bash, in ASCII and on one line, whatever bytes it has. A dollar sign
// is escaped too, because a kubelet expands $(NAME) and $$ in the arguments of a container.
func quote(word string) string {
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	var s strings.Builder
	for _, c := range []byte(word) {
		switch {
		case c < ' ' || c > '~' || c == '\'' || c == '$' || c == '`' || c == '\\':
			fmt.Fprintf(&s, `\%03o`, c)
		default:
			s.WriteByte(c)
		}
	}
	if s.Len() == len(word) {
		return "'" + word + "'"
	}
	return "$'" + s.String() + "'"
}

// tasks formats indices as batch systems write them: "0-3,7".
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

// dealsGPUs reports whether atOnce parallel shards get one GPU each.
func (j Job) dealsGPUs(atOnce int) bool { return atOnce > 1 && j.GPUs > 1 }

// allocations returns the indices of the allocations of shards, if each has pack shards.
func allocations(shards []int, pack int) (out []int) {
	for _, s := range shards {
		if a := s / max(pack, 1); len(out) == 0 || out[len(out)-1] != a {
			out = append(out, a)
		}
	}
	return out
}

// atOnce returns the largest number of shards of a job that run at once. A shell has one machine, so
// its default is one allocation.
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

// Seconds returns the time from the start of the first job to the end of the last, on machines like
// the one on which the costs were measured, with as many jobs at once as the plan allows. Stages
// run one after the other, except evaluations and analyses, which run at the same time.
func (p Plan) Seconds(costs []pipeline.Cost) (all pipeline.Seconds) {
	var parallel pipeline.Seconds // evaluations and analyses
	for _, c := range costs {
		i := slices.IndexFunc(p.Jobs, func(j Job) bool { return j.Stage == c.Stage })
		if i < 0 || c.Seconds == nil {
			continue
		}
		j := p.Jobs[i]
		// The work divided by the shards that run at once, but never less than the longest unit, which
		// cannot be split.
		atOnce := min(max(j.Shards, 1), p.atOnce(j))
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
