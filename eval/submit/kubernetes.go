package submit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"scalewm/eval/pipeline"
)

// Kubernetes is the engine that runs each stage as an Indexed Job, whose completion
// index is the shard. Jobs of Kubernetes have no dependencies on one another, so
// submit.sh creates them one after the other (docs/sources.md#kubernetes).
const Kubernetes = "kubernetes"

// Cluster holds what the pods of a plan need in addition to the resources of their stage.
type Cluster struct {
	Image string `json:"image"` // container image with this program
	Claim string `json:"claim"` // PersistentVolumeClaim that holds the results folder
	// Mount is the path of the claim in the pods. It must be its path on this machine too,
	// because command lines and files refer to absolute paths.
	Mount     string `json:"mount"`
	Namespace string `json:"namespace,omitempty"` // "" for that of kubectl's context
	// Secret is the name of a Secret whose keys become environment variables of the pods,
	// such as the keys of an object store. "" means none.
	Secret string `json:"secret,omitempty"`
	// Run identifies the Jobs of one results folder: it is the value of their label scalewm
	// and the prefix of their names.
	Run string `json:"run"`
}

// OnKubernetes sets where the plan's jobs run, and returns a RequestError if Kubernetes
// could not run them. The volume is CLAIM or CLAIM:MOUNT. Without a mount it is the
// folder that contains out. The results folder out and the files, which the jobs read,
// must be below the mount.
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
		return pipeline.Requestf("--volume %s: the mount is not an absolute path (hint: --volume %s:%s)", volume, c.Claim, filepath.Dir(out))
	}
	c.Mount = filepath.Clean(c.Mount)
	for _, path := range []string{c.Mount, p.Folder} {
		// YAML reads some line breaks of Unicode as a space, even between quotes.
		if !utf8.ValidString(path) || strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) || path == c.Mount && strings.Contains(path, ":") {
			return pipeline.Requestf("--submit kubernetes: %q cannot be a folder of a pod (hint: printable characters, and no colon in that of a mount)", path)
		}
	}
	if err := checkNames(map[string]string{"image": c.Image, "volume": c.Claim, "namespace": c.Namespace, "secret": c.Secret}); err != nil {
		return err
	}
	for _, file := range append([]string{out}, files...) {
		path, err := filepath.Abs(file)
		if rel, outside := filepath.Rel(c.Mount, path); err != nil || outside != nil || !filepath.IsLocal(rel) {
			return pipeline.Requestf("--volume %s: pods would not see %s, which is not below %s (hint: the claim is mounted at the path that its folder has on this machine; name it, as in --volume %s:/shared, and move your files there)", volume, path, c.Mount, c.Claim)
		}
	}
	for i, j := range p.Jobs {
		switch {
		case j.Account != "":
			return pipeline.Requestf("--account %s: Kubernetes has no accounts (hint: --namespace says whose quota it is, --partition a queue of Kueue)", j.Account)
		case j.Extra != "":
			return pipeline.Requestf("--extra %s: Kubernetes takes no options (hint: --print, then edit OUT/jobs/*.yaml and run OUT/jobs/submit.sh)", j.Extra)
		}
		if p.Jobs[i].Mem, err = quantity(j.Mem); err != nil {
			return err
		}
	}
	c.Run = runName(c.Claim, out)
	p.Kubernetes = &c
	return nil
}

// runName returns the name that distinguishes the Jobs of one results folder from those
// of others: the name of the folder in lower case without characters that Kubernetes
// rejects, and a part of the hash of its claim and path. Names of Jobs and labels are
// limited to 63 characters, hence the limit of 20.
func runName(claim, out string) string {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(filepath.Base(out)), "-"), "-")
	name = strings.Trim(name[:min(len(name), 20)], "-")
	sum := sha256.Sum256([]byte(claim + "\n" + out))
	return strings.TrimPrefix(fmt.Sprintf("%s-%x", name, sum[:4]), "-")
}

// kubernetes writes a manifest for each job, and submit.sh, which creates the Jobs of
// stages that have shards left. A Job has all shards of its stage, whatever is left:
// the completion index then always is the shard. The pods of one index also have the
// same host name, by which a training recognizes its own lock after a restart. Pods of
// finished shards end at once.
func (p Plan) kubernetes(dir string, left map[pipeline.Stage][]int) error {
	var stages strings.Builder
	var files []string
	depends := len(left[pipeline.StageCollect]) > 0 && len(left[pipeline.StageTrain]) > 0
	if depends {
		stages.WriteString("collected=1\n")
	}
	for _, j := range p.Jobs {
		job, err := p.job(dir, j)
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(job)
		if err != nil {
			return fmt.Errorf("writing %s.yaml: %w", j.Name, err)
		}
		if err := write(filepath.Join(dir, j.Name+".yaml"), fmt.Sprintf(manifestHead, j.Stage, p.Kubernetes.Run, text)); err != nil {
			return err
		}
		if len(left[j.Stage]) == 0 {
			continue
		}
		files = append(files, j.Name+".yaml")
		fmt.Fprintln(&stages, afterOthers(j, depends))
	}
	text := fmt.Sprintf(kubernetesHead, pipeline.Quote(dir), pipeline.Quote(p.Kubernetes.Run), p.kubectl(), strings.Join(files, " "), stages.String())
	return write(filepath.Join(dir, "submit.sh"), text)
}

// manifestHead is the head of a manifest; its values are the stage, the run and the Job.
const manifestHead = `# The %s stage of %s. Edit it before you run submit.sh: scalewm reproduce with --submit kubernetes,
# which wrote it, overwrites it on every run.
%s`

// object is an object of a manifest. The packages of Kubernetes have a type for each, but
// take as long to compile as a sixth of this program. `make test-kubernetes` checks all
// manifests with the API server.
type object = map[string]any

// job returns the Job of a stage. Each pod runs j.Pack shards.
func (p Plan) job(dir string, j Job) (object, error) {
	script, err := p.podScript(dir, j)
	if err != nil {
		return nil, err
	}
	c := p.Kubernetes
	pods := len(allocations(upTo(j.Shards), j.Pack))
	ours := object{"scalewm": c.Run}
	labels := maps.Clone(ours)
	if j.Partition != "" {
		labels["kueue.x-k8s.io/queue-name"] = j.Partition
	}
	// CPU is only requested: a limit would throttle the pod even on an idle node. GPUs must
	// be limits. For memory both are equal, so that a pod is not evicted for memory that the
	// scheduler never reserved. Quantities are strings.
	requests, limits := object{}, object{}
	if j.CPUs > 0 {
		requests["cpu"] = strconv.Itoa(j.CPUs)
	}
	if j.GPUs > 0 {
		limits["nvidia.com/gpu"] = strconv.Itoa(j.GPUs)
	}
	if j.Mem != "" {
		requests["memory"], limits["memory"] = j.Mem, j.Mem
	}
	resources := object{}
	for name, list := range map[string]object{"requests": requests, "limits": limits} {
		if len(list) > 0 {
			resources[name] = list
		}
	}
	container := object{
		"name": containerName, "image": c.Image, "workingDir": p.Folder, "command": []string{"bash", "-c"}, "args": []string{script},
		"resources": resources, "volumeMounts": []object{{"name": volumeName, "mountPath": c.Mount}},
	}
	if c.Secret != "" {
		container["envFrom"] = []object{{"secretRef": object{"name": c.Secret}}}
	}
	return object{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": object{"name": c.Run + "-" + j.Name, "labels": labels},
		"spec": object{
			"completionMode":       "Indexed",
			"completions":          pods,
			"parallelism":          min(pods, cmp.Or(j.Throttle, MaxCount)),
			"backoffLimitPerIndex": 2,
			// A failed shard must not stop the other shards of its stage.
			"maxFailedIndexes": pods,
			// By default a replacement starts while the old pod is still terminating, and two
			// pods would run one shard.
			"podReplacementPolicy": "Failed",
			// The first rule that matches applies. Ignored failures do not count towards the
			// backoff limit, and another pod resumes the shard.
			"podFailurePolicy": object{"rules": []object{
				// Evicted, preempted or drained.
				{"action": "Ignore", "onPodConditions": []object{{"type": "DisruptionTarget", "status": "True"}}},
				// A mistake in the command line, which all shards share.
				onExit("FailJob", 2),
				// Cells failed, and would fail again.
				onExit("FailIndex", 3),
				// Stopped at a safe point: 75 near the time limit, 130 and 143 by a signal.
				onExit("Ignore", 75, 130, 143)}},
			"template": object{
				"metadata": object{"labels": ours},
				"spec": object{
					"restartPolicy":                 "Never", // required by podFailurePolicy
					"terminationGracePeriodSeconds": 30,      // the program needs one second
					"containers":                    []object{container},
					"volumes":                       []object{{"name": volumeName, "persistentVolumeClaim": object{"claimName": c.Claim}}},
				},
			},
		},
	}, nil
}

// Names inside a pod, to which other parts of the manifest refer.
const (
	containerName = "scalewm"
	volumeName    = "results"
)

// onExit returns the rule for pods whose container exits with one of the codes.
func onExit(action string, codes ...int) object {
	return object{"action": action, "onExitCodes": object{"containerName": containerName, "operator": "In", "values": codes}}
}

// upTo returns 0, 1, ..., n-1.
func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// afterOthers returns the line of submit.sh that creates a Job when those it depends on
// are over. Training runs only if all data sets were collected. Evaluations and
// analyses run at the same time, with whatever checkpoints exist, and the report runs
// last. depends says that the plan both collects and trains.
//
// The shell variable collected is empty after a failure of the job that completes the
// data sets: the join, or the collection itself if it has one shard. Failed shards of a
// collection with several are found by the join.
func afterOthers(j Job, depends bool) string {
	line := "job " + j.Name
	switch {
	case depends && (j.Name == join || j.Stage == pipeline.StageCollect && j.Shards == 1):
		line += " || collected="
	case depends && j.Stage == pipeline.StageTrain:
		line = `[ "$collected" ] && ` + line
	case j.Stage == pipeline.StageEval || j.Stage == pipeline.StageAnalyse:
		line += " &"
	case j.Stage == pipeline.StageReport:
		line = "wait\n" + line
	}
	return line
}

// kubectl returns the words with which every call of kubectl begins, quoted for a
// shell.
func (p Plan) kubectl() string {
	if p.Kubernetes.Namespace == "" {
		return "kubectl"
	}
	return "kubectl --namespace=" + pipeline.Quote(p.Kubernetes.Namespace)
}

// kubernetesHead is submit.sh without its stages. Called without arguments, it checks
// everything in the foreground, so that mistakes are reported at once, and starts itself
// again in the background with an argument. Its values are the folder, the run, kubectl, the
// manifests, and the lines of afterOthers. The lock on the file running tells CheckQueue that the
// script is at work; the background process inherits it.
const kubernetesHead = `#!/bin/bash
# Creates the Jobs of what was left to do when this file was written, and returns. A process in the
# background waits for the end of each before it creates the next, since Kubernetes has no
# dependencies between Jobs. scalewm reproduce with --submit kubernetes, which wrote this file,
# overwrites it on every run.
set -uo pipefail
cd %s || exit 1
run=%s
kubectl=(%s)
files=(%s)
mkdir -p log
if [ $# = 0 ]; then
  exec 9> running
  flock -n 9 || { echo "submit.sh is already running" >&2; exit 1; }
  # Delete the pods of earlier Jobs first, so that no shard has two pods.
  "${kubectl[@]}" delete jobs -l "scalewm=$run" > log/submit.log &&
    "${kubectl[@]}" wait --for=delete pods -l "scalewm=$run" --timeout=10m >> log/submit.log || exit 1
  for file in "${files[@]}"; do
    "${kubectl[@]}" apply --dry-run=server --validate=strict -f "$file" >> log/submit.log || exit 1
  done
  setsid bash submit.sh stages >> log/submit.log 2>&1 < /dev/null &
  echo "process $! creates one Job after the other and logs to $PWD/log/submit.log (${kubectl[*]} delete jobs -l scalewm=$run ends all)"
  exit
fi
job() { # NAME: creates a Job and waits for its end; fails if the Job does
  local state
  until "${kubectl[@]}" apply -f "$1.yaml"; do sleep 30; done
  while sleep 5; do
    state=$("${kubectl[@]}" get job "$run-$1" --ignore-not-found -o jsonpath='{.metadata.name} {.status.conditions[?(@.status=="True")].type}') || continue
    case $state in
    "") echo "$1 was deleted: no further Job is created"; kill 0 ;;
    *" Complete"*) return 0 ;;
    *" Failed"*) echo "$1 failed"; return 1 ;;
    esac
  done
}
%swait
`

// podScript returns the script that a pod runs. Signal TERM, sent on eviction or
// deletion, is passed on to the programs. Shortly before the time limit they get USR1,
// stop at the next safe point, and exit with 75, upon which another pod continues.
func (p Plan) podScript(dir string, j Job) (string, error) {
	line := p.commandLine(j)
	limit, err := duration(j.Time)
	if limit > 0 {
		line = fmt.Sprintf("timeout --foreground --preserve-status --signal=USR1 %.0f %s", limit.Seconds(), line)
	}
	var s strings.Builder
	fmt.Fprintf(&s, podHead, pipeline.Quote(filepath.Join(dir, "log")), j.Name)
	s.WriteString(j.setup())
	s.WriteString(j.programs("JOB_COMPLETION_INDEX", line))
	s.WriteString(podEnd)
	return s.String(), err
}

// podHead appends all output to the log of the pod's index in the results folder, and copies
// it to the container's output for kubectl logs.
const podHead = `log=%s
mkdir -p "$log"
exec > >(tee -a "$log/%s.$JOB_COMPLETION_INDEX.log") 2>&1
tee=$!
`

// podEnd closes the output and waits for tee: the container ends with the script, and would
// otherwise lose the last lines.
const podEnd = `if [ "$again" ]; then code=75; fi
exec >&- 2>&-
wait "$tee"
exit $code
`

// kubernetesJob is the part of a Job's JSON that is read here.
type kubernetesJob struct {
	Metadata struct{ Name string }
	Spec     struct{ Suspend bool }
	Status   struct {
		Active, Ready, Succeeded, Failed int
		Conditions                       []struct{ Type, Status string }
	}
}

// over reports whether the Job has ended, with all its pods.
func (j kubernetesJob) over() bool {
	for _, c := range j.Status.Conditions {
		if c.Status == "True" && (c.Type == "Complete" || c.Type == "Failed") {
			return true
		}
	}
	return false
}

// jobs returns the Jobs of the results folder that Kubernetes has.
func (c Cluster) jobs(ctx context.Context) ([]kubernetesJob, error) {
	args := []string{"get", "jobs", "-l", "scalewm=" + c.Run, "-o", "json"}
	if c.Namespace != "" {
		args = append(args, "--namespace="+c.Namespace)
	}
	out, err := exec.CommandContext(ctx, "kubectl", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("listing the Jobs of this reproduction with kubectl: %w (hint: check that kubectl get jobs works, and --namespace)", words(err))
	}
	var list struct{ Items []kubernetesJob }
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("parsing the output of kubectl get jobs: %w", err)
	}
	return list.Items, nil
}

// queued returns the names of the Jobs that are not over.
func (c Cluster) queued(ctx context.Context) (names []string, err error) {
	jobs, err := c.jobs(ctx)
	for _, j := range jobs {
		if !j.over() {
			names = append(names, j.Metadata.Name)
		}
	}
	return names, err
}

// queue returns the number of pods by job and state, one line each.
func (c Cluster) queue(ctx context.Context) (lines []string) {
	// Without an answer of the server there are no lines; progress is read from files.
	jobs, _ := c.jobs(ctx)
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
