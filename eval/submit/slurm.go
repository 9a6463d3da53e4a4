package submit

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"scalewm/eval/pipeline"
)

// Slurm names the engine that submits to Slurm. A stage becomes a job array, and stages wait for one
// another by dependencies (docs/sources.md#slurm).
const Slurm = "slurm"

// maxArray is the default of Slurm's MaxArraySize, which is one more than the highest index.
const maxArray = 1001

// maxArraySize returns the MaxArraySize of this cluster.
func maxArraySize(ctx context.Context) int {
	out, _ := exec.CommandContext(ctx, "scontrol", "show", "config").Output() // without an answer use the default
	for line := range strings.Lines(string(out)) {
		if key, value, _ := strings.Cut(line, "="); strings.TrimSpace(key) == "MaxArraySize" {
			if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n > 0 {
				return n
			}
		}
	}
	return maxArray
}

// slurm writes a script for each job, and submit.sh, which submits the jobs with unfinished shards.
func (p Plan) slurm(ctx context.Context, dir string, left map[pipeline.Stage][]int) error {
	size := maxArraySize(ctx)
	var submit strings.Builder
	fmt.Fprintf(&submit, slurmHead, quote(dir))
	before := map[string]bool{} // jobs that were written, for dependencies of later ones
	for _, j := range p.Jobs {
		if err := write(filepath.Join(dir, j.Name+".sh"), p.slurmScript(dir, j)); err != nil {
			return err
		}
		units := allocations(left[j.Stage], j.Pack)
		if len(units) == 0 {
			continue
		}
		wait := waitFor(j, before)
		if !j.array() {
			fmt.Fprintf(&submit, "submit %s %s%s.sh\n", j.Name, wait, j.Name)
		}
		// Indices of an array are below MaxArraySize. A longer list is submitted as several
		// arrays, whose script gets the index of the first allocation as its argument.
		for j.array() && len(units) > 0 {
			offset := units[0] / size * size
			n, _ := slices.BinarySearch(units, offset+size)
			array := slices.Clone(units[:n])
			for i := range array {
				array[i] -= offset
			}
			units = units[n:]
			list := tasks(array)
			if j.Throttle > 0 {
				list += "%" + strconv.Itoa(j.Throttle)
			}
			fmt.Fprintf(&submit, "submit %s %s--array=%s %s.sh %d\n", j.Name, wait, list, j.Name, offset)
		}
		before[j.Name] = true
	}
	return write(filepath.Join(dir, "submit.sh"), submit.String())
}

// array reports whether the job is an array. The report and join are single jobs.
func (j Job) array() bool { return j.Name != join && j.Stage != pipeline.StageReport }

// waitFor returns the dependency option of a job. Training needs all data sets (afterok). Evaluations
// use the existing checkpoints, and the report lists what is missing (afterany).
func waitFor(j Job, before map[string]bool) string {
	after := func(how string, names ...string) string {
		var ids []string
		for _, name := range names {
			if before[name] {
				ids = append(ids, "${ids["+name+"]}")
			}
		}
		if len(ids) == 0 {
			return ""
		}
		return `"--dependency=` + how + ":" + strings.Join(ids, ":") + `" `
	}
	switch {
	case j.Name == join:
		// afterany: join also collects the shares of shards that failed.
		return after("afterany", string(pipeline.StageCollect))
	case j.Stage == pipeline.StageTrain:
		collected := string(pipeline.StageCollect)
		if before[join] {
			collected = join
		}
		// Without this option, a job whose dependency failed would stay in the queue forever.
		if wait := after("afterok", collected); wait != "" {
			return wait + "--kill-on-invalid-dep=yes "
		}
	case j.Stage == pipeline.StageEval || j.Stage == pipeline.StageAnalyse:
		return after("afterany", string(pipeline.StageTrain))
	case j.Stage == pipeline.StageReport:
		if wait := after("afterany", string(pipeline.StageEval), string(pipeline.StageAnalyse)); wait != "" {
			return wait
		}
		return after("afterany", string(pipeline.StageTrain))
	}
	return ""
}

const slurmHead = `#!/bin/bash
# Submits what was left to do when this file was written.
# scalewm reproduce with --submit slurm, which wrote it, overwrites it on every run.
set -euo pipefail
shopt -s inherit_errexit
cd %s
mkdir -p log
: > submitted
declare -A ids # the numbers of the jobs of a name, with colons between them
submit() { # NAME OPTIONS SCRIPT [OFFSET]: submits a job and records its number, or cancels it
  local name=$1 id
  shift
  id=$(sbatch --parsable "$@")
  id=${id%%%%;*} # a number, or "number;cluster"
  echo "$id $name" >> submitted || { scancel "$id"; return 1; }
  ids[$name]=${ids[$name]:+${ids[$name]}:}$id
}
`

// slurmScript returns the batch script of a job. It forwards USR1, with which Slurm announces the end
// of the time limit, to the program, and requeues the task if the program exits with 75. TERM
// means scancel, or a preemption, after which Slurm itself requeues the task.
func (p Plan) slurmScript(dir string, j Job) string {
	id, log := "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID", "log/"+j.Name+".%A_%a.log" // relative to the folder of submit.sh
	if !j.array() {
		id, log = "$SLURM_JOB_ID", "log/"+j.Name+".%j.log"
	}
	// Slurm expands % patterns in names of folders too. The script therefore opens the log itself,
	// which then lacks Slurm's own messages.
	pattern := strings.ContainsAny(dir, `%\`)
	if pattern {
		log = "/dev/null"
	}
	var s strings.Builder
	s.WriteString("#!/bin/bash\n")
	option := func(name, value string) {
		if value != "" && value != "0" {
			fmt.Fprintf(&s, "#SBATCH --%s=%s\n", name, value)
		}
	}
	option("job-name", "scalewm-"+j.Name)
	option("output", log)
	option("open-mode", "append") // a requeued task continues its log
	s.WriteString("#SBATCH --requeue\n")
	// 120 seconds before the limit, signal the script (B:). Without B: Slurm signals only job steps, which
	// srun starts, and the script has none.
	option("signal", "B:USR1@120")
	option("partition", j.Partition)
	option("account", j.Account)
	option("time", j.Time)
	option("mem", j.Mem)
	option("cpus-per-task", strconv.Itoa(j.CPUs))
	if j.GPUs > 0 {
		option("gres", "gpu:"+strconv.Itoa(j.GPUs))
	}
	if j.Extra != "" {
		fmt.Fprintf(&s, "#SBATCH %s\n", j.Extra)
	}
	if pattern {
		fmt.Fprintf(&s, "exec >> %s/%s.\"%s\".log 2>&1\n", quote(filepath.Join(dir, "log")), j.Name, id)
	}
	fmt.Fprintf(&s, "cd %s || exit 1\n", quote(p.Folder))
	s.WriteString(j.setup())
	s.WriteString(j.programs("${1:-0} + ${SLURM_ARRAY_TASK_ID:-0}", p.commandLine(j)))
	s.WriteString(slurmEnd)
	return s.String()
}

// programs returns the part of a script that runs the shards of an allocation in parallel and
// forwards signals to them. number is the index of the allocation, as a shell expression. It sets
// again if a shard exited with 75, and else code to the worst exit code.
func (j Job) programs(number, line string) string {
	var devices, own string
	if j.dealsGPUs(j.Pack) { // the GPUs that the batch system lists, or else all of the job's
		devices = fmt.Sprintf("IFS=, read -ra gpus <<< \"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 %d)}\"\n", j.GPUs-1)
		own = "CUDA_VISIBLE_DEVICES=${gpus[(i - first) % ${#gpus[@]}]} "
	}
	return fmt.Sprintf(programs, line, devices, j.Shards, max(j.Pack, 1), number, own)
}

// setup returns the line that runs the job's setup command with eval, so that an open quote in it
// cannot change the meaning of the lines after it.
func (j Job) setup() string {
	if j.Setup == "" {
		return ""
	}
	return "eval " + quote(j.Setup) + "\n"
}

const programs = `
program=(%s)
%sshards=%d pack=%d
first=$(((%s) * pack))
# shellcheck disable=SC2034 # only Slurm's script reads warned
pids=() warned=
for ((i = first; i < first + pack && i < shards; i++)); do
  %s"${program[@]}" --shard "$i/$shards" --restarts 5 &
  pids+=($!)
done
trap 'warned=1; kill -USR1 "${pids[@]}" 2>/dev/null' USR1
trap 'warned=; kill -TERM "${pids[@]}" 2>/dev/null' TERM INT
code=0 again=
for p in "${pids[@]}"; do
  while kill -0 "$p" 2>/dev/null; do wait "$p"; done # which every signal ends, too
  wait "$p"; c=$?
  if [ $c = 75 ]; then again=1; elif [ $c -gt $code ]; then code=$c; fi
done
`

const slurmEnd = `if [ "$again" ]; then
  if [ "$warned" ]; then
    id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
    scontrol requeue "${id:-$SLURM_JOB_ID}" && sleep 60 # until Slurm ends this script
  fi
  exit 75
fi
exit $code
`

// slurmQueued returns those of the job ids that Slurm still has.
func slurmQueued(ctx context.Context, ids []string) (queued []string, err error) {
	// %F is the id of the array, which sbatch printed, and not that of a task.
	out, err := exec.CommandContext(ctx, "squeue", "--me", "--noheader", "--format", "%F").Output()
	if err != nil {
		return nil, fmt.Errorf("querying squeue for the jobs of this reproduction: %w (hint: run this on a machine of the cluster whose controller is up)", words(err))
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(out))))) {
		if slices.Contains(ids, id) {
			queued = append(queued, id)
		}
	}
	return queued, nil
}

// words returns an error with the stderr of a failed command.
func words(err error) error {
	if exit, ok := err.(*exec.ExitError); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%s", cmp.Or(strings.TrimSpace(string(exit.Stderr)), exit.Error()))
	}
	return err
}
