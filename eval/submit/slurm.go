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

// Slurm is the engine that runs each stage as a job array, whose tasks are shards.
// Stages wait for one another by dependencies (docs/sources.md#slurm).
const Slurm = "slurm"

// maxArray is the default of Slurm's MaxArraySize. Array indices must be less than it.
const maxArray = 1001

// maxArraySize returns MaxArraySize of the cluster, or the default if scontrol does not
// answer.
func maxArraySize(ctx context.Context) int {
	out, _ := exec.CommandContext(ctx, "scontrol", "show", "config").Output()
	for line := range strings.Lines(string(out)) {
		if key, value, _ := strings.Cut(line, "="); strings.TrimSpace(key) == "MaxArraySize" {
			if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n > 0 {
				return n
			}
		}
	}
	return maxArray
}

// slurm writes a batch script for each job, and submit.sh, which submits the jobs with
// shards left. Only tasks with shards left are submitted.
//
// Stages with more tasks than MaxArraySize become several arrays. The script adds an
// offset, passed as its argument, to the index of the task.
func (p Plan) slurm(ctx context.Context, dir string, left map[pipeline.Stage][]int) error {
	size := maxArraySize(ctx)
	var submit strings.Builder
	fmt.Fprintf(&submit, slurmHead, pipeline.Quote(dir))
	before := map[string]bool{} // submitted jobs, for which later ones can wait
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
		for j.array() && len(units) > 0 {
			// Take the tasks of the next array: those with numbers in [offset, offset+size).
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

// array reports whether the job is an array. The report and the join are single jobs.
func (j Job) array() bool { return j.Name != join && j.Stage != pipeline.StageReport }

// waitFor returns the options of sbatch that make a job wait for others in before.
// Training needs all data sets (afterok). Evaluations use the checkpoints that exist,
// and the report names what is missing, so they start even after failures (afterany).
//
// Without --kill-on-invalid-dep a job whose dependency failed would stay in the queue
// forever. The names of jobs refer to the shell array ids, since ids are known only
// when submit.sh runs.
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
		return after("afterany", string(pipeline.StageCollect))
	case j.Stage == pipeline.StageTrain:
		collected := string(pipeline.StageCollect)
		if before[join] {
			collected = join
		}
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

// slurmHead has the function of submit.sh that submits one job. The ids of jobs are written
// to the file submitted, by which Queue and CheckQueue recognize them. A job that could not be
// recorded there is cancelled, because nothing would know about it.
const slurmHead = `#!/bin/bash
# Submits what was left to do when this file was written.
# scalewm reproduce with --submit slurm, which wrote it, overwrites it on every run.
set -euo pipefail
shopt -s inherit_errexit
cd %s
mkdir -p log
: > submitted
declare -A ids # the ids of the jobs of a name, separated by colons
submit() { # NAME OPTIONS SCRIPT [OFFSET]: submits a job and records its id, or cancels it
  local name=$1 id
  shift
  id=$(sbatch --parsable "$@")
  id=${id%%%%;*} # sbatch prints "ID" or "ID;CLUSTER"
  echo "$id $name" >> submitted || { scancel "$id"; return 1; }
  ids[$name]=${ids[$name]:+${ids[$name]}:}$id
}
`

// slurmScript returns the batch script of a job. Slurm announces the end of the time
// limit by USR1, two minutes before. The script passes the signal on to the programs,
// and if one exits with 75, which means that it can be resumed, requeues the task. TERM
// is the end: of scancel, after which a requeue would undo the cancellation, or of a
// preemption, after which Slurm requeues the task itself.
func (p Plan) slurmScript(dir string, j Job) string {
	// The path of the log is relative to the folder of submit.sh.
	id, log := "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID", "log/"+j.Name+".%A_%a.log"
	if !j.array() {
		id, log = "$SLURM_JOB_ID", "log/"+j.Name+".%j.log"
	}
	// Slurm expands its patterns in the names of folders too. If the folder contains such
	// characters, the script opens the log itself, which then lacks messages of Slurm.
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
	option("open-mode", "append")
	s.WriteString("#SBATCH --requeue\n")
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
		fmt.Fprintf(&s, "exec >> %s/%s.\"%s\".log 2>&1\n", pipeline.Quote(filepath.Join(dir, "log")), j.Name, id)
	}
	fmt.Fprintf(&s, "cd %s || exit 1\n", pipeline.Quote(p.Folder))
	s.WriteString(j.setup())
	s.WriteString(j.programs("${1:-0} + ${SLURM_ARRAY_TASK_ID:-0}", p.commandLine(j)))
	s.WriteString(slurmEnd)
	return s.String()
}

// programs returns the part of a script that runs the shards of one allocation at the
// same time, passes signals on to them, and collects their exit codes. The number of
// the allocation is an expression of shell arithmetic, and line the command.
// Afterwards, the shell variable again is set if a program can be resumed (75), and
// code is the highest of the other exit codes.
func (j Job) programs(number, line string) string {
	var devices, own string
	// Take the GPUs from the list of the batch system, or number them if there is none.
	if j.dealsGPUs(j.Pack) {
		devices = fmt.Sprintf("IFS=, read -ra gpus <<< \"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 %d)}\"\n", j.GPUs-1)
		own = "CUDA_VISIBLE_DEVICES=${gpus[(i - first) % ${#gpus[@]}]} "
	}
	return fmt.Sprintf(programs, line, devices, j.Shards, max(j.Pack, 1), number, own)
}

// setup returns the line of a script that runs the job's setup. It is an argument of
// eval, so an open quote or a comment in it cannot swallow the lines below.
func (j Job) setup() string {
	if j.Setup == "" {
		return ""
	}
	return "eval " + pipeline.Quote(j.Setup) + "\n"
}

// programs is the template of Job.programs. The shell's wait returns early on a signal,
// so it is repeated until the process has ended. With --restarts a program that was
// stopped five times in a row without progress fails instead of being requeued forever.
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
  while kill -0 "$p" 2>/dev/null; do wait "$p"; done # wait also returns on a signal
  wait "$p"; c=$?
  if [ $c = 75 ]; then again=1; elif [ $c -gt $code ]; then code=$c; fi
done
`

// slurmEnd is the end of a batch script. It requeues a task only after the warning: a program
// that exits with 75 after TERM belongs to a task that was cancelled or preempted. Slurm ends
// the script some seconds after the requeue, hence the sleep.
const slurmEnd = `if [ "$again" ]; then
  if [ "$warned" ]; then
    id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
    scontrol requeue "${id:-$SLURM_JOB_ID}" && sleep 60 # Slurm ends this script in the meantime
  fi
  exit 75
fi
exit $code
`

// slurmQueued returns those of the job ids that Slurm still has.
func slurmQueued(ctx context.Context, ids []string) (queued []string, err error) {
	out, err := exec.CommandContext(ctx, "squeue", "--me", "--noheader", "--format", "%F").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the jobs of this reproduction with squeue: %w (hint: check that this machine belongs to the cluster and that its controller is up)", words(err))
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(out))))) {
		if slices.Contains(ids, id) {
			queued = append(queued, id)
		}
	}
	return queued, nil
}

// words returns the error output of a command that failed, as an error.
func words(err error) error {
	if exit, ok := err.(*exec.ExitError); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%s", cmp.Or(strings.TrimSpace(string(exit.Stderr)), exit.Error()))
	}
	return err
}
