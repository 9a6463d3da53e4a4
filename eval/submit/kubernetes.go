package submit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"scalewm/eval/pipeline"
)

// Kubernetes is the engine of that name: a stage is an Indexed Job, whose completion
// index is the shard. Jobs cannot wait for one another there, so submit.sh makes
// them one after the other (docs/sources.md#kubernetes).
const Kubernetes = "kubernetes"

// Cluster is what the pods of a plan for Kubernetes need beyond the resources of their stage.
type Cluster struct {
	Image     string `json:"image"`
	Claim     string `json:"claim"`               // the PersistentVolumeClaim that the results folder lies on
	Mount     string `json:"mount"`               // the folder of the claim, in the pods and here
	Namespace string `json:"namespace,omitempty"` // "": that of kubectl's context
	Secret    string `json:"secret,omitempty"`    // whose keys are variables of the pods' environment; "": none
	Run       string `json:"run"`                 // the value of the label scalewm of all its Jobs, and the beginning of their names
}

// OnKubernetes says where the plan's jobs run. volume is CLAIM or CLAIM:/mount;
// the claim is mounted at the path that its folder has here, so that paths mean the same. Without
// a mount that is the folder that holds out. files are others that the jobs read.
func (p *Plan) OnKubernetes(c Cluster, volume, out string, files ...string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("planning jobs: %w", err)
	}
	c.Claim, c.Mount, _ = strings.Cut(volume, ":")
	switch {
	case c.Image == "":
		return pipeline.Requestf("--submit kubernetes needs --image, which has this program (hint: docker build -t registry.lab/scalewm . in its checkout, and docker push)")
	case c.Claim == "":
		return pipeline.Requestf("--submit kubernetes needs --volume CLAIM, a PersistentVolumeClaim that all pods can write (hint: kubectl get pvc lists them; ReadWriteMany where there is more than one node)")
	case c.Mount == "":
		c.Mount = filepath.Dir(out)
	case !filepath.IsAbs(c.Mount):
		return pipeline.Requestf("--volume %s: the mount is no absolute path (hint: --volume %s:%s)", volume, c.Claim, filepath.Dir(out))
	}
	c.Mount = filepath.Clean(c.Mount)
	for _, file := range append([]string{out}, files...) {
		path, err := filepath.Abs(file)
		if rel, outside := filepath.Rel(c.Mount, path); err != nil || outside != nil || !filepath.IsLocal(rel) {
			return pipeline.Requestf("--volume %s: pods would not see %s, which is not below %s (hint: the claim is mounted at the path that its folder has here; say which, as in --volume %s:/shared, and put files of yours into it)", volume, path, c.Mount, c.Claim)
		}
	}
	for i, j := range p.Jobs {
		switch {
		case j.Account != "":
			return pipeline.Requestf("--account %s: Kubernetes has no accounts (hint: --namespace says whose quota it is, --partition a queue of Kueue)", j.Account)
		case j.Extra != "":
			return pipeline.Requestf("--extra %s: Kubernetes takes no options (hint: --print, then add to OUT/jobs/*.yaml what is wanted and run OUT/jobs/submit.sh)", j.Extra)
		}
		if _, err := duration(j.Time); err != nil {
			return err
		}
		if p.Jobs[i].Mem, err = quantity(j.Mem); err != nil {
			return err
		}
	}
	c.Run = runName(c.Claim, out)
	p.Kubernetes = &c
	return nil
}

// runName tells the Jobs of one results folder from those of others: the folder's name, as far as
// Kubernetes takes it, and a part of a hash of its claim and path.
func runName(claim, out string) string {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(filepath.Base(out)), "-"), "-")
	name = strings.Trim(name[:min(len(name), 20)], "-")
	sum := sha256.Sum256([]byte(claim + "\n" + out))
	return strings.TrimPrefix(fmt.Sprintf("%s-%x", name, sum[:4]), "-")
}

var slurmTime = regexp.MustCompile(`^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$`)

// duration reads a limit as Slurm writes it: minutes, minutes:seconds, hours:minutes:seconds,
// each after the days with a dash, days-hours. "" is none.
func duration(text string) (time.Duration, error) {
	f := slurmTime.FindStringSubmatch(text)
	if f == nil && text != "" {
		return 0, pipeline.Requestf("--time %s: no limit as Slurm writes it (hint: 4:00:00 or 1-12)", text)
	}
	if f == nil {
		return 0, nil
	}
	var n [4]time.Duration
	for i, s := range f[1:] {
		v, _ := strconv.Atoi(s) // a part that is not there is 0
		n[i] = time.Duration(v)
	}
	switch {
	case f[1] != "" || f[4] != "":
		return n[0]*24*time.Hour + n[1]*time.Hour + n[2]*time.Minute + n[3]*time.Second, nil
	default:
		return n[1]*time.Minute + n[2]*time.Second, nil
	}
}

var slurmMem = regexp.MustCompile(`^(\d+)([KMGT]?)i?$`)

// quantity is memory as Kubernetes writes it, of Slurm's, whose units are powers of 1024 and
// megabytes without a letter.
func quantity(mem string) (string, error) {
	f := slurmMem.FindStringSubmatch(mem)
	switch {
	case mem == "" || mem == "0":
		return "", nil
	case f == nil:
		return "", pipeline.Requestf("--mem %s: no amount of memory (hint: 16G)", mem)
	case f[2] == "":
		return f[1] + "Mi", nil
	}
	return f[1] + f[2] + "i", nil
}

//go:embed job.yaml
var jobText string

var jobYAML = template.Must(template.New("job").Funcs(template.FuncMap{
	// A string of JSON is one of YAML.
	"quote": func(s string) (string, error) { text, err := json.Marshal(s); return string(text), err },
	"indent": func(n int, s string) string {
		margin := "\n" + strings.Repeat(" ", n)
		return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(s), "\n", margin), margin+"\n", "\n\n")
	},
}).Parse(jobText))

// kubernetes writes a manifest for each job and submit.sh, which makes those of stages
// that have something left. A completion index is a shard whatever is left: pods of one index have
// one host name, by which a training knows its own lock again, and shards that are done end at once.
func (p Plan) kubernetes(dir string, left map[pipeline.Stage][]int) error {
	var stages strings.Builder
	var files []string
	for _, j := range p.Jobs {
		script, err := p.podScript(dir, j)
		if err != nil {
			return err
		}
		n := len(allocations(upTo(j.Shards), j.Pack))
		var text bytes.Buffer
		err = jobYAML.Execute(&text, struct {
			Job
			Cluster
			Folder, Script      string
			Completions, AtOnce int
		}{j, *p.Kubernetes, p.Folder, script, n, min(n, cmp.Or(j.Throttle, n))})
		if err != nil {
			return fmt.Errorf("writing %s.yaml: %w", j.Name, err)
		}
		if err := write(filepath.Join(dir, j.Name+".yaml"), text.String()); err != nil {
			return err
		}
		if len(left[j.Stage]) == 0 {
			continue
		}
		files = append(files, j.Name+".yaml")
		fmt.Fprintln(&stages, afterOthers(j, len(left[pipeline.StageCollect]) > 0))
	}
	text := fmt.Sprintf(kubernetesHead, quote(dir), quote(p.Kubernetes.Run), p.kubectl(), strings.Join(files, " "), stages.String())
	return write(filepath.Join(dir, "submit.sh"), text)
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// afterOthers is the line of submit.sh that makes a job when those it needs are over: training
// if the data sets are there, evaluations and analyses side by side, and the report last.
func afterOthers(j Job, collects bool) string {
	line := "job " + j.Name
	switch {
	case j.Name == join || j.Stage == pipeline.StageCollect && j.Shards == 1:
		line += " || collected="
	case j.Stage == pipeline.StageTrain && collects:
		line = `[ "$collected" ] && ` + line
	case j.Stage == pipeline.StageEval || j.Stage == pipeline.StageAnalyse:
		line += " &"
	case j.Stage == pipeline.StageReport:
		line = "wait\n" + line
	}
	return line
}

// kubectl are the words that begin every call, for a shell.
func (p Plan) kubectl() string {
	if p.Kubernetes.Namespace == "" {
		return "kubectl"
	}
	return "kubectl --namespace=" + quote(p.Kubernetes.Namespace)
}

const kubernetesHead = `#!/bin/bash
# Makes the Jobs of what was left to do when this file was written, and returns. A process in the
# background waits for the end of each before it makes the next, since Kubernetes has no
# dependencies of Jobs. The command that wrote it, scalewm reproduce with --submit
# kubernetes, writes it anew when it is run again.
set -uo pipefail
cd %s || exit 1
run=%s
kubectl=(%s)
mkdir -p log
if [ $# = 0 ]; then
  exec 9> running
  flock -n 9 || { echo "it is running already" >&2; exit 1; }
  # Pods of former Jobs go first: one of the same shard must not live beside its successor.
  "${kubectl[@]}" delete jobs -l "scalewm=$run" > log/submit.log &&
    "${kubectl[@]}" wait --for=delete pods -l "scalewm=$run" --timeout=10m >> log/submit.log || exit 1
  for file in %s; do
    "${kubectl[@]}" apply --dry-run=server --validate=strict -f "$file" >> log/submit.log || exit 1
  done
  setsid bash submit.sh stages >> log/submit.log 2>&1 < /dev/null &
  echo "process $! makes one Job after the other and notes it in $PWD/log/submit.log (${kubectl[*]} delete jobs -l scalewm=$run ends all)"
  exit
fi
job() { # NAME: makes a Job and waits for its end; fails if the Job does
  local state
  until "${kubectl[@]}" apply -f "$1.yaml"; do sleep 30; done
  while sleep 5; do
    state=$("${kubectl[@]}" get job "$run-$1" --ignore-not-found -o jsonpath='{.metadata.name} {.status.conditions[?(@.status=="True")].type}') || continue
    case $state in
    "") echo "$1 was deleted: nothing follows"; kill 0 ;;
    *" Complete"*) return 0 ;;
    *" Failed"*) echo "$1 failed"; return 1 ;;
    esac
  done
}
collected=1
%swait
`

// podScript is what a pod runs. TERM, of an eviction or a deletion, goes on to the programs; when their
// time is nearly up they are told by USR1 to stop at the next safe point, and another pod goes on.
func (p Plan) podScript(dir string, j Job) (string, error) {
	line := p.commandLine(j)
	limit, err := duration(j.Time)
	if limit > 0 {
		line = fmt.Sprintf("timeout --foreground --preserve-status --signal=USR1 %.0f %s", limit.Seconds(), line)
	}
	var s strings.Builder
	fmt.Fprintf(&s, podHead, quote(filepath.Join(dir, "log")), j.Name)
	if j.Setup != "" {
		fmt.Fprintln(&s, j.Setup)
	}
	s.WriteString(j.programs("JOB_COMPLETION_INDEX", line))
	s.WriteString(podEnd)
	return s.String(), err
}

const podHead = `log=%s
mkdir -p "$log"
exec > >(tee -a "$log/%s.$JOB_COMPLETION_INDEX.log") 2>&1
tee=$!
`

const podEnd = `if [ "$again" ]; then code=75; fi
exec >&- 2>&-
wait "$tee"
exit $code
`

// kubernetesJob is what is asked of a Job's state.
type kubernetesJob struct {
	Metadata struct{ Name string }
	Spec     struct{ Suspend bool }
	Status   struct {
		Active, Ready, Succeeded, Failed int
		Conditions                       []struct{ Type, Status string }
	}
}

// over says whether all pods of the Job have ended for good.
func (j kubernetesJob) over() bool {
	for _, c := range j.Status.Conditions {
		if c.Status == "True" && (c.Type == "Complete" || c.Type == "Failed") {
			return true
		}
	}
	return false
}

// jobs are those that Kubernetes has of a results folder.
func (c Cluster) jobs(ctx context.Context) ([]kubernetesJob, error) {
	args := []string{"get", "jobs", "-l", "scalewm=" + c.Run, "-o", "json"}
	if c.Namespace != "" {
		args = append(args, "--namespace="+c.Namespace)
	}
	out, err := exec.CommandContext(ctx, "kubectl", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("asking kubectl for the Jobs of this reproduction: %w (hint: does kubectl get jobs work, and is --namespace right?)", words(err))
	}
	var list struct{ Items []kubernetesJob }
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("reading what kubectl get jobs says: %w", err)
	}
	return list.Items, nil
}

// queued lists those of the Jobs that are not over.
func (c Cluster) queued(ctx context.Context) (names []string, err error) {
	jobs, err := c.jobs(ctx)
	for _, j := range jobs {
		if !j.over() {
			names = append(names, j.Metadata.Name)
		}
	}
	return names, err
}

// queue counts pods by job and state.
func (c Cluster) queue(ctx context.Context) (lines []string) {
	jobs, _ := c.jobs(ctx) // the server may be away; the files tell all the same
	for _, j := range jobs {
		name := strings.TrimPrefix(j.Metadata.Name, c.Run+"-")
		for _, state := range []struct {
			n    int
			text string
		}{{j.Status.Ready, "running"}, {j.Status.Active - j.Status.Ready, "pending"}, {j.Status.Succeeded, "completed"}, {j.Status.Failed, "failed"}} {
			if state.n > 0 {
				lines = append(lines, fmt.Sprintf("%d %s %s", state.n, name, state.text))
			}
		}
		if j.Spec.Suspend {
			lines = append(lines, name+" suspended")
		}
	}
	return lines
}
