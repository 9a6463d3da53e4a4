package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// wrong are command lines that are wrong on every machine and with every file.
var wrong = []string{
	"", "nosuch", "help nosuch", "tasks x", "tasks --nosuch",
	"bench --what nosuch", "bench --what ''", "bench --rounds 0", "bench --rounds -1", "bench --device nosuch", "bench --preset nosuch", "bench x",
	"collect", "collect tworoom", "collect nosuch --out x.h5", "collect tworoom --out ''", "collect tworoom --out x.h5 --episodes 0",
	"collect tworoom --out x.h5 --episodes -1", "collect tworoom --out x.h5 --episodes 99999999999", "collect tworoom --out x.h5 --episodes many",
	"collect tworoom --out x.h5 --switch nosuch=1", "collect tworoom --out x.h5 --switch nosuch", "collect tworoom --out x.h5 --policy nosuch",
	"collect tworoom --out x.h5 --policy ''", "collect tworoom --out x.h5 --size 64", "collect tworoom pusht --out x.h5",
	"compare", "compare a", "compare a b c", "compare a b --seed ''", "compare a b --seed x", "compare a b --seed -1",
	"data info x.h5 --out y.h5", "data check x.h5 --frames a", "weights info a --transformers 4", "bench --what train --side 2", "bench --what plan --data x.h5", "replay x.h5 --force",
	"analyse rank o --starts 2", "analyse rank o --seconds 2", "reproduce --out o --dry-run --json --verbose", "reproduce --out o --verbose", "reproduce --out o --measure", "reproduce --out o --watch --dry-run",
	"reproduce --out o --watch --submit shell", "reproduce --out o --watch --shard 0/2", "reproduce --out o --submit shell --json", "reproduce --out o --tasks tworoom --starts 2",
	"train --task tworoom --data d --out o --q half", "train --task tworoom --data d --out o/cells", "train --task tworoom --data d --out o/cells/",
	"data", "data info", "data nosuch x.h5", "data convert x.h5", "data convert x.h5 --out ''", "data convert x.h5 --out y.h5 --filter nosuch", "data info a b",
	"doctor x", "doctor --nosuch",
	"tensorboard", "tensorboard a", "encode", "encode --weights a --data b", "encode --weights a --data b --out ''", "encode x", "rollout --weights a --data b", "rollout --weights a --data b --out c --blocks -1",
	"eval", "eval --task tworoom --data d --out o", "eval --task tworoom --data d --out o --random --weights w", "eval --task nosuch --data d --out o --random",
	"eval --task tworoom --data d --out o --random --tier ''", "eval --task tworoom --data d --out o --random --tier T9",
	"eval --task tworoom --data d --out o --random --sets ''", "eval --task tworoom --data d --out o --random --sets s007",
	"eval --task tworoom --data d --out o --random --solver ''", "eval --task tworoom --data d --out o --random --solver nosuch",
	"eval --task tworoom --data d --out o --random --episodes 0", "eval --task tworoom --data d --out o --random --protocol nosuch",
	"eval --task tworoom --data d --out o --random --temperature nosuch", "eval --task tworoom --data d --out o --random --icem-clip nosuch",
	"eval --task tworoom --data d --out o --random --pool nosuch", "eval --task tworoom --data d --out o --random --solver gd --tier T2p",
	"render", "render x.h5", "render x.h5 --out x.jpg", "render x.h5 --out x.gif --episode -1",
	"replay", "replay a b", "replay x.h5 --episodes -1", "replay x.h5 --out ''",
	"report", "report a b", "report a --format nosuch", "report a --format ''",
	"reproduce --out o --set lr", "reproduce --out o --submit nosuch", "reproduce --out o --submit slurm", "reproduce --out o --submit shell --stage eval", "reproduce --out o --print", "reproduce --out o --time 1:00:00",
	"reproduce --out o --submit shell --throttle eval:x", "reproduce --out o --submit shell --cpus -1", "reproduce --out o --stage nosuch", "reproduce --out o --stage report --shard 0/2",
	"reproduce", "reproduce --out ''", "reproduce --out o --tasks nosuch", "reproduce --out o --tasks ''", "reproduce --out o --methods ''", "reproduce --out o --methods nosuch",
	"reproduce --out o --tiers ''", "reproduce --out o --sets ''", "reproduce --out o --solvers ''", "reproduce --out o --seeds ''", "reproduce --out o --seeds x",
	"reproduce --out o --preset nosuch", "reproduce --out o --preset ''", "reproduce --out o --shard 3/2", "reproduce --out o --shard x", "reproduce --out o --episodes -1", "reproduce x --out o",
	"reproduce --out o --sets s101,s0101", "reproduce --out o --device nosuch", "reproduce --out o --precision fp64", "encode --weights a --data b --out c --device nosuch", "eval --precision fp8",
	"train", "train --task tworoom --data d", "train --task nosuch --data d --out o", "train --task tworoom --data d --out o --method nosuch",
	"train --task tworoom --data d --out o --method random", "train --task tworoom --data d --out o --protocol nosuch", "train --task tworoom --data d --out o --preset nosuch",
	"train --task tworoom --data d --out o --reading nosuch", "train --task tworoom --data d --out o --steps -1", "train --task tworoom --data d --out o --seed x",
	"train --task tworoom --data d --out o --q nosuch",
	"weights", "weights info", "weights nosuch x", "weights info a b", "weights convert a", "weights convert a b --transformers 3",
	"weights convert a b --task nosuch", "weights convert a b --method nosuch",
}

// A wrong command line gives exit code 2 and one line, before any file is read or written.
func TestWrongUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, line := range wrong {
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.Trim(args[i], "'")
		}
		var stdout, stderr bytes.Buffer
		err := run(context.Background(), args, &stdout, &stderr)
		if code := exitCode(err, &stderr); code != exitUsage || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("scalewm %s: exit %d and %q, want %d and one line", line, code, stderr.String(), exitUsage)
		}
	}
}
