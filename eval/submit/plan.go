// Package submit hands a reproduction to a batch system: stages become jobs, whose
// scripts and numbers it writes into the results folder, OUT/jobs/, where people read
// and mend them. The batch system queues, places, retries and preempts; what is done
// stands in the results folder, so that jobs need not talk to one another.
//
// It knows stages and shards, and nothing of what they make.
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

// Dir is the name of the folder of scripts, plan and logs in a results folder.
const Dir = results.JobsDir

// Plan is what a reproduction asks of a batch system: jobs/plan.json. The numbers of
// shards stay as they are for the life of a results folder's jobs.
type Plan struct {
	Engine  string   `json:"engine"`
	Folder  string   `json:"folder"`  // that jobs start in
	Command []string `json:"command"` // of every job, without its stage and shard
	Jobs    []Job    `json:"jobs"`    // in the order of their stages

	Kubernetes *Cluster `json:"kubernetes,omitempty"` // of that engine
}

// Job is the part of a plan that does one stage, or puts together what shards of collect made.
type Job struct {
	Name   string         `json:"name"`
	Stage  pipeline.Stage `json:"stage"`
	Shards int            `json:"shards"`
	Resources
}

// cellsPerShard is the share of an evaluation that takes between ten minutes and an
// hour of a GPU: the five tiers and six sets of one checkpoint and solver.
const cellsPerShard = 30

// Shards is how many shards a stage of so many units is cut into where nobody says otherwise.
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

// join is the job that puts together what the shards of collect made.
const join = "join"

// NewPlan lists the jobs of the graph's stages. shards and resources say what was asked
// for by stage.
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

// Keep writes the plan into the results folder out. Where there is an earlier one, its
// numbers of shards hold: other ones that were asked for are an error.
func (p *Plan) Keep(out string, asked map[pipeline.Stage]int) error {
	path := filepath.Join(out, Dir, planName)
	old, err := readPlan(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case old.Engine != p.Engine:
		return pipeline.Requestf("%s is a plan for %s, and %s is asked for (hint: delete %s when none of its jobs is queued)", path, old.Engine, p.Engine, filepath.Dir(path))
	}
	for i, j := range p.Jobs {
		at := slices.IndexFunc(old.Jobs, func(o Job) bool { return o.Name == j.Name })
		if at < 0 {
			continue
		}
		if n := asked[j.Stage]; n != 0 && j.Name != join && n != old.Jobs[at].Shards {
			return pipeline.Requestf("%s has %d shards of %s, and %d are asked for (hint: leave out --shards, or delete %s when none of its jobs is queued)", path, old.Jobs[at].Shards, j.Name, n, filepath.Dir(path))
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
		return p, fmt.Errorf("reading the plan of the jobs: %s is damaged (hint: delete it when none of its jobs is queued)", path)
	}
	return p, nil
}

// write writes one of the files of jobs/.
func write(path, text string) error {
	return safefile.Write(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// commandLine is the shell's line of a job, without its shard.
func (p Plan) commandLine(j Job) string {
	words := append(slices.Clone(p.Command), "--stage", string(j.Stage))
	for i, w := range words {
		words[i] = quote(w)
	}
	return strings.Join(words, " ")
}

// plain are the characters of words that the shell and its linters leave alone.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:./@%"

// quote returns a word as bash reads it back: every byte of it, in ASCII and on one line. A
// dollar is escaped too, since a kubelet replaces $(NAME) and $$ in the arguments of a container.
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

// tasks lists units by number as batch systems write them: "0-3,7".
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

// dealsGPUs reports whether atOnce shards side by side get one GPU each, in turn.
func (j Job) dealsGPUs(atOnce int) bool { return atOnce > 1 && j.GPUs > 1 }

// allocations are the numbers of the allocations that shards belong to, pack in each.
func allocations(shards []int, pack int) (out []int) {
	for _, s := range shards {
		if a := s / max(pack, 1); len(out) == 0 || out[len(out)-1] != a {
			out = append(out, a)
		}
	}
	return out
}

// atOnce bounds the shards of a job that run at once. A shell has one machine, and
// so one allocation at a time unless told.
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

// Seconds is what the jobs take from the first to the last on machines like the one that
// the costs were measured on, as many at once as the plan allows. Stages follow one
// another, but for evaluations and analyses, which run side by side.
func (p Plan) Seconds(costs []pipeline.Cost) (all pipeline.Seconds) {
	var beside pipeline.Seconds // evaluations and analyses
	for _, c := range costs {
		i := slices.IndexFunc(p.Jobs, func(j Job) bool { return j.Stage == c.Stage })
		if i < 0 || c.Seconds == nil {
			continue
		}
		j := p.Jobs[i]
		atOnce := min(max(j.Shards, 1), p.atOnce(j))
		least, most := c.Seconds.Least/float64(atOnce), max(c.Seconds.Most/float64(atOnce), c.Longest)
		switch c.Stage {
		case pipeline.StageEval, pipeline.StageAnalyse:
			beside = pipeline.Seconds{Least: max(beside.Least, least), Most: max(beside.Most, most)}
		default:
			all = pipeline.Seconds{Least: all.Least + least, Most: all.Most + most}
		}
	}
	return pipeline.Seconds{Least: all.Least + beside.Least, Most: all.Most + beside.Most}
}
