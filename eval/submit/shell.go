package submit

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"scalewm/eval/pipeline"
)

// Shell is the engine without a batch system: one script that does all stages on
// this machine, some shards of each side by side.
const Shell = "shell"

// shell writes submit.sh.
func (p Plan) shell(dir string, left map[pipeline.Stage][]int) error {
	var s strings.Builder
	fmt.Fprintf(&s, shellHead, quote(dir), quote(p.Folder))
	for _, j := range p.Jobs {
		if len(left[j.Stage]) == 0 {
			continue
		}
		shards := left[j.Stage]
		if j.Name == join {
			shards = []int{0}
		}
		var list []string
		for _, i := range shards {
			list = append(list, strconv.Itoa(i))
		}
		devices, own := j.deal(p.atOnce(j), "place")
		line := devices + own + p.commandLine(j)
		if j.Setup != "" {
			line = j.Setup + "\n" + line
		}
		fmt.Fprintf(&s, "shards %s %d %d %s <<'SHARDS'\n%s\nSHARDS\n", j.Name, j.Shards, p.atOnce(j), quote(line), strings.Join(list, "\n"))
	}
	return write(filepath.Join(dir, "submit.sh"), s.String())
}

const shellHead = `#!/bin/bash
# Does what was left to do when this file was written, stage after stage. The command
# that wrote it, scalewm reproduce with --submit shell, writes it anew when it is run again.
set -uo pipefail
jobs=%s
cd %s || exit 1
mkdir -p "$jobs/log"
exec 9> "$jobs/running"
flock -n 9 || { echo "it is running already" >&2; exit 1; }
trap 'trap - TERM INT; kill -TERM 0; exit 130' TERM INT
shards() { # NAME SHARDS AT-ONCE COMMAND: runs those that are listed on standard input
  xargs -P "$3" --process-slot-var=place -I{} bash -c "$4 --shard {}/$2 >> \"$jobs/log/$1.{}.log\" 2>&1"
}
export jobs
`
