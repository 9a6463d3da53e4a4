package submit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"scalewm/eval/pipeline"
)

func TestTasks(t *testing.T) {
	for _, c := range []struct {
		shards []int
		pack   int
		want   string
	}{
		{nil, 1, ""}, {[]int{3}, 1, "3"}, {[]int{0, 1, 2, 3, 7}, 1, "0-3,7"}, {[]int{1, 3, 5}, 1, "1,3,5"},
		{[]int{0, 1, 2, 3, 7}, 2, "0-1,3"}, {[]int{4, 5}, 3, "1"},
	} {
		if got := tasks(allocations(c.shards, c.pack)); got != c.want {
			t.Errorf("shards %v, %d in each: %q, want %q", c.shards, c.pack, got, c.want)
		}
	}
}

// A shell parses a quoted word to the original. A kubelet finds nothing to replace in
// it, which would be $(NAME) or $$
// (https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/).
func TestQuote(t *testing.T) {
	for _, word := range append(hostileWords(), "", "a", "--time=1:00", "a b", "it's", `$HOME "x" \`, "a;b", "*", "ä", "$$", "a\n$(b)") {
		if strings.ContainsAny(strings.TrimPrefix(pipeline.Quote(word), "$'"), "$`\n") {
			t.Errorf("%q is quoted %s", word, pipeline.Quote(word))
		}
		out, err := exec.Command("bash", "-c", "printf %s "+pipeline.Quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q became %q, %v", word, out, err)
		}
	}
}

func plan(t *testing.T) Plan {
	t.Helper()
	p := Plan{Engine: Slurm, Folder: "/a folder", Command: []string{"scalewm", "reproduce", "--out=x y"}}
	for _, s := range pipeline.Stages() {
		j := Job{Name: string(s), Stage: s, Shards: 3, Resources: Default(s)}
		switch s {
		case pipeline.StageEval:
			j.Shards, j.Pack, j.Throttle = 25, 2, 4
		case pipeline.StageReport:
			j.Shards = 1
		}
		p.Jobs = append(p.Jobs, j)
		if s == pipeline.StageCollect {
			p.Jobs = append(p.Jobs, Job{Name: join, Stage: s, Shards: 1, Resources: Default(s)})
		}
	}
	return p
}

func all(n int) (shards []int) {
	for i := range n {
		shards = append(shards, i)
	}
	return shards
}

// fakeBin puts a program first in PATH that logs its arguments and prints an answer.
func fakeBin(t *testing.T, name, answer string) (log string) {
	t.Helper()
	dir := t.TempDir()
	log = filepath.Join(dir, "log")
	text := "#!/bin/bash\necho \"$*\" >> " + log + "\n" + answer + "\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return log
}

// The calls of sbatch are checked: several arrays for a cluster with a small
// MaxArraySize, two shards per task, and dependencies between stages.
func TestSlurmSubmission(t *testing.T) {
	out := t.TempDir()
	fakeBin(t, "scontrol", "echo 'MaxArraySize            = 10'")
	log := fakeBin(t, "sbatch", `echo $((100 + $(wc -l < "$(dirname "$0")/log")))`)
	p := plan(t)
	left := map[pipeline.Stage][]int{pipeline.StageCollect: {0, 2}, pipeline.StageTrain: {1}, pipeline.StageEval: all(25), pipeline.StageReport: {0}}
	if err := p.Write(t.Context(), out, left); err != nil {
		t.Fatal(err)
	}
	said, err := p.Submit(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	if want := "101 collect\n102 join\n103 train\n104 eval\n105 eval\n106 report\n"; said != want {
		t.Errorf("submitted\n%s, want\n%s", said, want)
	}
	calls, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	want := `--parsable --array=0,2 collect.sh 0
--parsable --dependency=afterany:101 join.sh
--parsable --dependency=afterok:102 --kill-on-invalid-dep=yes --array=1 train.sh 0
--parsable --dependency=afterany:103 --array=0-9%4 eval.sh 0
--parsable --dependency=afterany:103 --array=0-2%4 eval.sh 10
--parsable --dependency=afterany:104:105 report.sh
`
	if string(calls) != want {
		t.Errorf("sbatch was called\n%s, want\n%s", calls, want)
	}
	for name, has := range map[string]string{
		"train.sh":   "#SBATCH --gres=gpu:1\n",
		"eval.sh":    "shards=25 pack=2\n",
		"collect.sh": "cd '/a folder' || exit 1\n",
		"report.sh":  "scalewm reproduce '--out=x y' --stage report",
	} {
		text, err := os.ReadFile(filepath.Join(out, Dir, name))
		if err != nil || !strings.Contains(string(text), has) {
			t.Errorf("%s has no %q, %v:\n%s", name, has, err, text)
		}
		if err := exec.Command("bash", "-n", filepath.Join(out, Dir, name)).Run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	fakeBin(t, "squeue", "echo 104; echo 104; echo 7")
	if err := p.CheckQueue(t.Context(), out); err == nil || !strings.Contains(err.Error(), "still queued: 104 (hint") {
		t.Errorf("with a job in the queue: %v", err)
	}
	fakeBin(t, "squeue", "echo 7")
	if err := p.CheckQueue(t.Context(), out); err != nil {
		t.Errorf("with other jobs in the queue: %v", err)
	}
	fakeBin(t, "sbatch", "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1")
	if _, err := p.Submit(t.Context(), out); err == nil || !strings.Contains(err.Error(), "invalid partition specified: x (hint") {
		t.Errorf("sbatch refuses: %v", err)
	}
}

// A script passes the warning before the end of its time on, and requeues itself only
// if the program requests it. Otherwise its exit code is the worst of its programs'.
func TestSlurmScript(t *testing.T) {
	dir := t.TempDir()
	requeued := fakeBin(t, "scontrol", "exit 1") // which lets the script end
	program := filepath.Join(dir, "program")
	text := "#!/bin/bash\ntrap 'exit 75' USR1\ntrap 'exit 130' TERM\n[ \"$MODE\" = wait ] && { touch " + dir + "/up; for i in $(seq 500); do sleep 0.02; done; }\n" +
		"case \" $* \" in *\" --shard $FAILS/4 \"*) exit 3;; esac\n"
	if err := os.WriteFile(program, []byte(text), 0o777); err != nil {
		t.Fatal(err)
	}
	p := Plan{Folder: dir, Command: []string{program}}
	script := filepath.Join(dir, "eval.sh")
	j := Job{Name: "eval", Stage: pipeline.StageEval, Shards: 4, Resources: Resources{Pack: 2}}
	if err := os.WriteFile(script, []byte(p.slurmScript(dir, j)), 0o777); err != nil {
		t.Fatal(err)
	}
	run := func(signal string, env ...string) int {
		cmd := exec.Command("bash", "-c", `bash "$1" & p=$!; if [ "$2" ]; then while [ ! -e up ]; do sleep 0.01; done; sleep 0.2; kill -"$2" $p; fi; wait $p`, "-", script, signal)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), append(env, "SLURM_JOB_ID=9", "SLURM_ARRAY_JOB_ID=7", "SLURM_ARRAY_TASK_ID=1")...)
		os.Remove(filepath.Join(dir, "up"))
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		signal, mode, fails string
		want                int
		requeued            bool
	}{
		{"", "", "", 0, false}, {"", "", "3", 3, false}, {"", "", "1", 0, false}, // shard 1 is another task's
		{"USR1", "wait", "", 75, true}, {"TERM", "wait", "", 130, false},
	} {
		os.Remove(requeued)
		if got := run(c.signal, "MODE="+c.mode, "FAILS="+c.fails); got != c.want {
			t.Errorf("%+v: exit %d", c, got)
		}
		asked, _ := os.ReadFile(requeued)
		if want := "requeue 7_1\n"; (string(asked) == want) != c.requeued {
			t.Errorf("%+v: scontrol %q", c, asked)
		}
	}
}

// Concurrent shards get the GPUs of their allocation round robin: those that Slurm
// lists, under any names, or as many as were requested. All shards share a single GPU.
func TestPackedGPUs(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	p := Plan{Engine: Slurm, Folder: dir, Command: []string{"bash", "-c", `echo "$4 on ${CUDA_VISIBLE_DEVICES-all}" >> ` + log, "-"}}
	j := Job{Name: "eval", Stage: pipeline.StageEval, Shards: 7, Resources: Resources{Pack: 4}}
	for _, c := range []struct {
		gpus   int
		listed string
		want   []string // of the second allocation: shards 4 to 6
	}{
		{4, "", []string{"4/7 on 0", "5/7 on 1", "6/7 on 2"}},
		{4, "2,3,6,7", []string{"4/7 on 2", "5/7 on 3", "6/7 on 6"}},
		{2, "GPU-a,GPU-b", []string{"4/7 on GPU-a", "5/7 on GPU-b", "6/7 on GPU-a"}},
		{1, "3", []string{"4/7 on 3", "5/7 on 3", "6/7 on 3"}},
		{1, "", []string{"4/7 on all", "5/7 on all", "6/7 on all"}},
	} {
		j.GPUs = c.gpus
		os.Remove(log)
		cmd := exec.Command("bash", "-c", p.slurmScript(dir, j), "-")
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "CUDA_VISIBLE_DEVICES=") }), "SLURM_ARRAY_TASK_ID=1")
		if c.listed != "" {
			cmd.Env = append(cmd.Env, "CUDA_VISIBLE_DEVICES="+c.listed)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Split(strings.TrimSpace(string(text)), "\n"); !slices.Equal(slices.Sorted(slices.Values(got)), c.want) {
			t.Errorf("%d GPUs, %q listed: %q, want %q", c.gpus, c.listed, got, c.want)
		}
	}
}

// The numbers of shards of the first submission are retained.
func TestKeep(t *testing.T) {
	out := t.TempDir()
	first := plan(t)
	if err := first.Save(out, nil); err != nil {
		t.Fatal(err)
	}
	again := plan(t)
	again.Jobs[3].Shards = 7 // of a grid that has grown
	if err := again.Save(out, nil); err != nil || again.Jobs[3].Shards != 25 {
		t.Errorf("%d shards, %v", again.Jobs[3].Shards, err)
	}
	var refused *pipeline.RequestError
	if err := again.Save(out, map[pipeline.Stage]int{pipeline.StageEval: 7}); !errors.As(err, &refused) {
		t.Errorf("another number of shards: %v", err)
	}
	other := plan(t)
	other.Engine = Shell
	if err := other.Save(out, nil); !errors.As(err, &refused) {
		t.Errorf("another engine: %v", err)
	}
	if err := os.WriteFile(filepath.Join(out, Dir, planName), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := other.Save(out, nil); err == nil || !strings.Contains(err.Error(), "damaged (hint") {
		t.Errorf("a torn plan: %v", err)
	}
}

// The script without a batch system runs every shard of every stage, some at the same
// time.
func TestShell(t *testing.T) {
	out := t.TempDir()
	log := filepath.Join(out, "calls")
	p := plan(t)
	p.Engine, p.Folder, p.Command = Shell, out, []string{"bash", "-c", `echo "$*" >> ` + log, "-"}
	left := map[pipeline.Stage][]int{pipeline.StageCollect: {0, 2}, pipeline.StageEval: {1, 24}, pipeline.StageReport: {0}}
	if err := p.Write(t.Context(), out, left); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("bash", filepath.Join(out, Dir, "submit.sh")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	calls, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(calls)), "\n")
	slices.Sort(lines)
	want := []string{"--stage collect --shard 0/1", "--stage collect --shard 0/3", "--stage collect --shard 2/3", "--stage eval --shard 1/25", "--stage eval --shard 24/25", "--stage report --shard 0/1"}
	if !slices.Equal(lines, want) {
		t.Errorf("ran %q, want %q", lines, want)
	}
}

// Without a batch system concurrent shards get the GPUs of the machine by their slots,
// so that no GPU has two programs while another has none.
func TestShellGPUs(t *testing.T) {
	out := t.TempDir()
	p := plan(t)
	p.Engine, p.Folder = Shell, out
	p.Command = []string{"bash", "-c", `cd ` + out + `; mkdir "on-$CUDA_VISIBLE_DEVICES" || touch twice; echo "$CUDA_VISIBLE_DEVICES" >> used; sleep 0.05; rmdir "on-$CUDA_VISIBLE_DEVICES"`, "-"}
	for i, j := range p.Jobs {
		if j.Stage == pipeline.StageEval {
			p.Jobs[i].GPUs, p.Jobs[i].Pack, p.Jobs[i].Throttle = 3, 3, 0
		}
	}
	t.Setenv("CUDA_VISIBLE_DEVICES", "5,6,7")
	if err := p.Write(t.Context(), out, map[pipeline.Stage][]int{pipeline.StageEval: all(9)}); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("bash", filepath.Join(out, Dir, "submit.sh")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if _, err := os.Stat(filepath.Join(out, "twice")); err == nil {
		t.Error("two programs on one GPU")
	}
	text, err := os.ReadFile(filepath.Join(out, "used"))
	used := strings.Fields(string(text))
	slices.Sort(used)
	if err != nil || len(used) != 9 || !slices.Equal(slices.Compact(used), []string{"5", "6", "7"}) {
		t.Errorf("GPUs used: %q, %v", text, err)
	}
}

// The last errors of failed jobs are returned, those of the latest logs first.
func TestLastErrors(t *testing.T) {
	out := t.TempDir()
	dir := filepath.Join(out, Dir, "log")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i, text := range []string{
		"all well\n",
		"evaluate x failed: the first\nevaluate y failed: the second\nscalewm: some cells failed:\n  evaluate y\n",
		strings.Repeat("long\n", 5000) + "scalewm: no progress: the time was up\nand a line after it\n",
	} {
		path := filepath.Join(dir, []string{"a.log", "b.log", "c.log"}[i])
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"c.log: scalewm: no progress: the time was up", "b.log: scalewm: some cells failed:"}
	if got := LastErrors(out); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := LastErrors(t.TempDir()); len(got) != 0 {
		t.Errorf("of no folder: %q", got)
	}
}

// Shards divide the time of a stage, a throttle limits how many run at once, no stage
// is shorter than its longest unit, and analyses run at the same time as evaluations.
func TestPlanSeconds(t *testing.T) {
	cost := func(stage pipeline.Stage, least, most, longest float64) pipeline.Cost {
		return pipeline.Cost{Stage: stage, Seconds: &pipeline.Seconds{Least: least, Most: most}, Longest: longest}
	}
	got := plan(t).Seconds([]pipeline.Cost{
		cost(pipeline.StageCollect, 30, 60, 0),   // by 3 shards: 10 to 20
		cost(pipeline.StageTrain, 30, 60, 50),    // by 3: 10 to 20, but one takes 50
		cost(pipeline.StageEval, 80, 160, 1),     // 4 jobs of 2 at once: 10 to 20
		cost(pipeline.StageAnalyse, 33, 36, 1),   // by 3, at the same time: 11 to 12
		{Stage: pipeline.StageReport, Units: 10}, // without a rate
	})
	if want := (pipeline.Seconds{Least: 31, Most: 90}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
