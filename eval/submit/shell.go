package submit

import (
	"fmt"
	"path/filepath"
	"strings"

	"scalewm/eval/pipeline"
)

// Shell is the engine without a batch system: a script that runs all stages on this
// machine, and some shards of a stage at the same time.
const Shell = "shell"

// shell writes submit.sh, which runs the shards that are left.
func (p Plan) shell(dir string, left map[pipeline.Stage][]int) error {
	var s strings.Builder
	fmt.Fprintf(&s, shellHead, pipeline.Quote(dir), pipeline.Quote(p.Folder))
	for _, j := range p.Jobs {
		shards := left[j.Stage]
		if len(shards) == 0 {
			continue
		}
		if j.Name == join {
			shards = []int{0}
		}
		gpus := 0 // 0: every shard sees all GPUs of the machine
		if j.dealsGPUs(p.atOnce(j)) {
			gpus = j.GPUs
		}
		fmt.Fprintf(&s, "shards %s %d %d %s %s <<'SHARDS'\n", j.Name, p.atOnce(j), gpus, pipeline.Quote(j.Setup), p.commandLine(j))
		for _, i := range shards {
			fmt.Fprintf(&s, "%d/%d\n", i, j.Shards)
		}
		s.WriteString("SHARDS\n")
	}
	return write(filepath.Join(dir, "submit.sh"), s.String())
}

// shellHead has the functions of submit.sh. They get the values of a plan as arguments,
// and xargs appends a shard to the words of the command without parsing them, so no
// name can change the script. The exception is the setup, which is a line of shell and
// evaluated as such.
//
// On TERM and INT the trap ends the process group, which the script leads. File
// descriptor 9 holds the lock that tells CheckQueue that the script is running.
const shellHead = `#!/bin/bash
# Runs the shards that had work left when this file was written, stage after stage.
# scalewm reproduce with --submit shell, which wrote it, overwrites it on every run.
set -uo pipefail
jobs=%s
cd %s || exit 1
mkdir -p "$jobs/log"
exec 9> "$jobs/running"
flock -n 9 || { echo "submit.sh is already running" >&2; exit 1; }
trap 'trap - TERM INT; kill -TERM 0; exit 130' TERM INT
shard() { # LOGS COMMAND... --shard I/N: runs a shard, which logs to LOGS/NAME.I.log
  local shard=${!#}
  exec >> "$1/$name.${shard%%/*}.log" 2>&1
  shift
  eval "$setup"
  if [ "$gpus" -gt 0 ]; then # one GPU for each concurrent shard, by its slot of xargs
    IFS=, read -ra devices <<< "${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 "$((gpus - 1))")}"
    export CUDA_VISIBLE_DEVICES=${devices[place %% ${#devices[@]}]}
  fi
  "$@"
}
shards() { # NAME AT-ONCE GPUS SETUP COMMAND...: runs the shards listed on standard input
  local atonce=$2
  export name=$1 gpus=$3 setup=$4
  shift 4
  xargs -n 1 -P "$atonce" --process-slot-var=place bash -c 'shard "$@"' shard "$jobs/log" "$@" --shard
}
export -f shard
`
