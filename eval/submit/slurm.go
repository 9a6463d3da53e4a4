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

// Slurm is the engine of that name: a stage is an array of jobs, and stages wait for
// one another by dependencies (docs/sources.md#slurm).
const Slurm = "slurm"

// maxArray is Slurm's default of MaxArraySize, which is one more than the highest index.
const maxArray = 1001

// maxArraySize asks this cluster's.
func maxArraySize(ctx context.Context) int {
	out, _ := exec.CommandContext(ctx, "scontrol", "show", "config").Output() // without an answer it is the default
	for line := range strings.Lines(string(out)) {
		if key, value, _ := strings.Cut(line, "="); strings.TrimSpace(key) == "MaxArraySize" {
			if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n > 0 {
				return n
			}
		}
	}
	return maxArray
}

// slurm writes a script for each job and submit.sh, which submits those that have shards left.
func (p Plan) slurm(ctx context.Context, dir string, left map[pipeline.Stage][]int) error {
	size := maxArraySize(ctx)
	var submit strings.Builder
	fmt.Fprintf(&submit, slurmHead, quote(dir))
	before := map[string]bool{} // the jobs that later ones can wait for
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

// array says whether the job is an array: the report and what puts shards together are single jobs.
func (j Job) array() bool { return j.Name != join && j.Stage != pipeline.StageReport }

// waitFor is the dependency of a job. Training needs the data sets; evaluations
// take the checkpoints that are there, and the report says what is missing.
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

// slurmScript is the batch script of a job. Slurm's warning that the time is nearly up, USR1,
// goes on to the program, and the task is put back into the queue where the program asks for it (75).
// TERM is the end: scancel, or preemption, after which Slurm itself puts the task back.
func (p Plan) slurmScript(dir string, j Job) string {
	id, log := "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID", "log/"+j.Name+".%A_%a.log" // in the folder of submit.sh
	if !j.array() {
		id, log = "$SLURM_JOB_ID", "log/"+j.Name+".%j.log"
	}
	// Slurm replaces its patterns in the names of folders too, so here the script itself opens the log, which then lacks what Slurm says.
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
		fmt.Fprintf(&s, "exec >> %s/%s.\"%s\".log 2>&1\n", quote(filepath.Join(dir, "log")), j.Name, id)
	}
	fmt.Fprintf(&s, "cd %s || exit 1\n", quote(p.Folder))
	s.WriteString(j.setup())
	s.WriteString(j.programs("${1:-0} + ${SLURM_ARRAY_TASK_ID:-0}", p.commandLine(j)))
	s.WriteString(slurmEnd)
	return s.String()
}

// programs is the shell's part of an allocation, number in shell arithmetic, that runs its shards side by
// side, passes signals on to them, and knows how they ended: again, if one asked to be
// started again, or else the worst code.
func (j Job) programs(number, line string) string {
	var devices, own string
	if j.dealsGPUs(j.Pack) { // those that the batch system lists, or else all of the job's
		devices = fmt.Sprintf("IFS=, read -ra gpus <<< \"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 %d)}\"\n", j.GPUs-1)
		own = "CUDA_VISIBLE_DEVICES=${gpus[(i - first) % ${#gpus[@]}]} "
	}
	return fmt.Sprintf(programs, line, devices, j.Shards, max(j.Pack, 1), number, own)
}

// setup is the line of a script that runs the job's line of shell, which cannot change the meaning of
// the lines after it.
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

// slurmQueued lists those of the jobs ids that Slurm still has.
func slurmQueued(ctx context.Context, ids []string) (queued []string, err error) {
	out, err := exec.CommandContext(ctx, "squeue", "--me", "--noheader", "--format", "%F").Output()
	if err != nil {
		return nil, fmt.Errorf("asking squeue for the jobs of this reproduction: %w (hint: is this a machine of the cluster, and its controller up?)", words(err))
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(out))))) {
		if slices.Contains(ids, id) {
			queued = append(queued, id)
		}
	}
	return queued, nil
}

// words is what a command said when it failed.
func words(err error) error {
	if exit, ok := err.(*exec.ExitError); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%s", cmp.Or(strings.TrimSpace(string(exit.Stderr)), exit.Error()))
	}
	return err
}
