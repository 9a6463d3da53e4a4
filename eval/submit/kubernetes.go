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
	"strings"
	"unicode"
	"unicode/utf8"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"scalewm/eval/pipeline"
)

// Kubernetes names the engine that submits to Kubernetes. A stage becomes an Indexed Job whose
// completion index is the shard. Jobs have no dependencies there, so submit.sh creates them one
// after the other (docs/sources.md#kubernetes).
const Kubernetes = "kubernetes"

// Cluster is what the pods of a plan for Kubernetes need beyond the resources of their stage.
type Cluster struct {
	Image     string `json:"image"`
	Claim     string `json:"claim"`               // PersistentVolumeClaim that contains the results folder
	Mount     string `json:"mount"`               // path of the claim's folder, in the pods and on this machine
	Namespace string `json:"namespace,omitempty"` // "": that of kubectl's current context
	Secret    string `json:"secret,omitempty"`    // Secret whose keys become environment variables of the pods; "": none
	Run       string `json:"run"`                 // value of the label "scalewm" of all its Jobs, and prefix of their names
}

// OnKubernetes sets where the plan's jobs run. volume is CLAIM or CLAIM:/mount, where mount is the
// path of the claim's folder on this machine. Pods mount it at the same path, so that paths mean
// the same in both. Without a mount it is the folder that contains out. files are further files
// that the jobs read; they must be below the mount.
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
	for _, path := range []string{c.Mount, p.Folder} {
		// YAML folds some Unicode line breaks to a space, even in quoted scalars.
		if !utf8.ValidString(path) || strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) || path == c.Mount && strings.Contains(path, ":") {
			return pipeline.Requestf("--submit kubernetes: %q cannot be a folder of a pod (hint: printable characters, and no colon in that of a mount)", path)
		}
	}
	if err := checkNames(map[string]string{"image": c.Image, "volume": c.Claim, "namespace": c.Namespace, "secret": c.Secret}); err != nil {
		return err
	}
	// Pods see only the claim, so everything they read must be below its mount.
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
		if p.Jobs[i].Mem, err = quantity(j.Mem); err != nil {
			return err
		}
	}
	c.Run = runName(c.Claim, out)
	p.Kubernetes = &c
	return nil
}

// runName returns a name that distinguishes the Jobs of one results folder from those of others: the
// folder's name, as far as Kubernetes allows its characters, and the start of a hash of claim and
// path.
func runName(claim, out string) string {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(filepath.Base(out)), "-"), "-")
	// Names of Jobs, with the stage appended, must fit a label of 63 characters.
	name = strings.Trim(name[:min(len(name), 20)], "-")
	sum := sha256.Sum256([]byte(claim + "\n" + out))
	return strings.TrimPrefix(fmt.Sprintf("%s-%x", name, sum[:4]), "-")
}

// kubernetes writes a manifest for each job, and submit.sh, which creates the Jobs of unfinished
// stages. A Job always has all shards of its stage, and a completion index is always the same
// shard. Pods of one index then have the same host name, by which a training recognises its own
// lock; finished shards end at once.
func (p Plan) kubernetes(dir string, left map[pipeline.Stage][]int) error {
	var stages strings.Builder
	var files []string
	depends := len(left[pipeline.StageCollect]) > 0 && len(left[pipeline.StageTrain]) > 0
	if depends {
		stages.WriteString("collected=1\n")
	}
	// Every job gets a manifest, for people who edit or resubmit them; submit.sh creates only those that
	// have work.
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
	text := fmt.Sprintf(kubernetesHead, quote(dir), quote(p.Kubernetes.Run), p.kubectl(), strings.Join(files, " "), stages.String())
	return write(filepath.Join(dir, "submit.sh"), text)
}

const manifestHead = `# The %s stage of %s. Edit it before you run submit.sh: scalewm reproduce with --submit kubernetes,
# which wrote it, overwrites it on every run.
%s`

// job returns the Kubernetes Job of a job, whose pods run its shards.
func (p Plan) job(dir string, j Job) (*batch.Job, error) {
	script, err := p.podScript(dir, j)
	if err != nil {
		return nil, err
	}
	c := p.Kubernetes
	n := int32(len(allocations(upTo(j.Shards), j.Pack)))
	ours := map[string]string{"scalewm": c.Run}
	labels := maps.Clone(ours)
	if j.Partition != "" {
		labels["kueue.x-k8s.io/queue-name"] = j.Partition
	}
	container := core.Container{
		Name: containerName, Image: c.Image, WorkingDir: p.Folder, Command: []string{"bash", "-c"}, Args: []string{script},
		Resources:    core.ResourceRequirements{Requests: core.ResourceList{}, Limits: core.ResourceList{}},
		VolumeMounts: []core.VolumeMount{{Name: volumeName, MountPath: c.Mount}},
	}
	if c.Secret != "" {
		container.EnvFrom = []core.EnvFromSource{{SecretRef: &core.SecretEnvSource{LocalObjectReference: core.LocalObjectReference{Name: c.Secret}}}}
	}
	if j.CPUs > 0 {
		container.Resources.Requests[core.ResourceCPU] = *resource.NewQuantity(int64(j.CPUs), resource.DecimalSI)
	}
	if j.GPUs > 0 {
		container.Resources.Limits["nvidia.com/gpu"] = *resource.NewQuantity(int64(j.GPUs), resource.DecimalSI)
	}
	if j.Mem != "" {
		memory, err := resource.ParseQuantity(j.Mem)
		if err != nil {
			return nil, fmt.Errorf("--mem %s: %w (hint: 16G)", j.Mem, err)
		}
		// A node that runs out of memory first evicts pods that use more than they requested, so request all.
		container.Resources.Requests[core.ResourceMemory], container.Resources.Limits[core.ResourceMemory] = memory, memory
	}
	return &batch.Job{
		TypeMeta:   meta.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: meta.ObjectMeta{Name: c.Run + "-" + j.Name, Labels: labels},
		Spec: batch.JobSpec{
			CompletionMode: new(batch.IndexedCompletion),
			Completions:    &n,
			Parallelism:    new(min(n, int32(cmp.Or(j.Throttle, MaxCount)))),
			// A shard that crashes is tried twice more. Disruptions and orderly stops do not count, see
			// the rules below.
			BackoffLimitPerIndex: new(int32(2)),
			MaxFailedIndexes:     &n,                // a failing shard does not stop the others
			PodReplacementPolicy: new(batch.Failed), // replace a pod only after it ended, so that no shard runs twice at once
			PodFailurePolicy: &batch.PodFailurePolicy{Rules: []batch.PodFailurePolicyRule{ // the first matching rule applies
				{Action: batch.PodFailurePolicyActionIgnore, // evicted, preempted or drained: another pod continues
					OnPodConditions: []batch.PodFailurePolicyOnPodConditionsPattern{{Type: core.DisruptionTarget, Status: core.ConditionTrue}}},
				onExit(batch.PodFailurePolicyActionFailJob, 2),             // a mistake in the command line
				onExit(batch.PodFailurePolicyActionFailIndex, 3),           // cells that failed and would fail again
				onExit(batch.PodFailurePolicyActionIgnore, 75, 130, 143)}}, // stopped in order, by the time limit (75) or a signal: another pod continues
			Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Labels: ours},
				Spec: core.PodSpec{
					RestartPolicy:                 core.RestartPolicyNever,
					TerminationGracePeriodSeconds: new(int64(30)), // the program needs one to stop in order
					Containers:                    []core.Container{container},
					Volumes: []core.Volume{{Name: volumeName, VolumeSource: core.VolumeSource{
						PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: c.Claim}}}},
				},
			},
		},
	}, nil
}

const (
	containerName = "scalewm"
	volumeName    = "results"
)

// onExit is the rule for pods whose program exits with one of the codes.
func onExit(action batch.PodFailurePolicyAction, codes ...int32) batch.PodFailurePolicyRule {
	return batch.PodFailurePolicyRule{Action: action, OnExitCodes: &batch.PodFailurePolicyOnExitCodesRequirement{
		ContainerName: new(containerName), Operator: batch.PodFailurePolicyOnExitCodesOpIn, Values: codes}}
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// afterOthers returns the line of submit.sh that creates a job after the jobs that it needs have
// ended. Training runs only if the data sets were collected. Evaluations and analyses run at the
// same time, and the report last. depends is true if the plan both collects and trains.
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

// kubectl returns the start of every kubectl command line, quoted for a shell.
func (p Plan) kubectl() string {
	if p.Kubernetes.Namespace == "" {
		return "kubectl"
	}
	return "kubectl --namespace=" + quote(p.Kubernetes.Namespace)
}

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
  flock -n 9 || { echo "it is running already" >&2; exit 1; }
  # Delete the Jobs of the last submission and wait for their pods to end: two pods of one shard must not run at once.
  "${kubectl[@]}" delete jobs -l "scalewm=$run" > log/submit.log &&
    "${kubectl[@]}" wait --for=delete pods -l "scalewm=$run" --timeout=10m >> log/submit.log || exit 1
  for file in "${files[@]}"; do
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
%swait
`

// podScript returns the script that a pod runs. It forwards TERM, which Kubernetes sends on an
// eviction or a deletion, to the programs. When the time limit is near, it sends them USR1: they
// stop at the next safe point, and another pod resumes.
func (p Plan) podScript(dir string, j Job) (string, error) {
	line := p.commandLine(j)
	limit, err := duration(j.Time)
	if limit > 0 {
		line = fmt.Sprintf("timeout --foreground --preserve-status --signal=USR1 %.0f %s", limit.Seconds(), line)
	}
	var s strings.Builder
	fmt.Fprintf(&s, podHead, quote(filepath.Join(dir, "log")), j.Name)
	s.WriteString(j.setup())
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

// kubernetesJob has the fields of a Job that are read from kubectl's JSON.
type kubernetesJob struct {
	Metadata struct{ Name string }
	Spec     struct{ Suspend bool }
	Status   struct {
		Active, Ready, Succeeded, Failed int
		Conditions                       []struct{ Type, Status string }
	}
}

// over reports whether no pod of the Job runs or will run again.
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
		return nil, fmt.Errorf("querying kubectl for the Jobs of this reproduction: %w (hint: check that kubectl get jobs works, and --namespace)", words(err))
	}
	var list struct{ Items []kubernetesJob }
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("reading the output of kubectl get jobs: %w", err)
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

// queue returns the numbers of pods by job and state, a line per job.
func (c Cluster) queue(ctx context.Context) (lines []string) {
	jobs, _ := c.jobs(ctx) // the server may be unreachable; --watch then shows the files only
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
