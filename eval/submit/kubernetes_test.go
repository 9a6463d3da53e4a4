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

func kubernetesPlan(t *testing.T, out string) Plan {
	t.Helper()
	p := plan(t)
	p.Engine = Kubernetes
	for i := range p.Jobs {
		p.Jobs[i].Partition = "gpu-queue"
	}
	if err := p.OnKubernetes(Cluster{Image: "registry.lab/scalewm:1", Namespace: "team", Secret: "s3-keys"}, "lab", out); err != nil {
		t.Fatal(err)
	}
	return p
}

// The manifest of a stage with all options is compared with the file in testdata. `make
// test-kubernetes` decodes it, and all others, with the types of Kubernetes.
func TestKubernetesManifest(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "paper")
	p := kubernetesPlan(t, out)
	p.Jobs[3].Setup = "ulimit -c 0"
	p.Kubernetes.Run = "paper-0123abcd" // it depends on the folder
	if err := p.Write(t.Context(), out, nil); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(out, Dir, "eval.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.ReplaceAll(string(got), dir, "/shared"); text != string(want) {
		t.Errorf("the manifest is\n%s\nwant testdata/job.yaml", text)
	}
}

// Options that Kubernetes cannot fulfil are rejected before anything is written.
func TestOnKubernetesRefuses(t *testing.T) {
	for _, c := range []struct {
		image, volume, file string
		change              func(*Job)
		want                string
	}{
		{"", "lab", "", nil, "needs --image"},
		{"x", "", "", nil, "needs --volume CLAIM"},
		{"x", "lab:data", "", nil, "not an absolute path"},
		{"x", "lab:/elsewhere", "", nil, "pods would not see /runs/a"},
		{"x", "lab", "/home/me/mine.toml", nil, "pods would not see /home/me/mine.toml"},
		{"x", "lab", "", func(j *Job) { j.Account = "a" }, "has no accounts"},
		{"x", "lab", "", func(j *Job) { j.Extra = "--x" }, "takes no options"},
		{"x", "lab", "", func(j *Job) { j.Mem = "16Q" }, "not an amount of memory"},
		{"x y", "lab", "", nil, `--image "x y": not a name`},
		{"x", "lab\n", "", nil, `--volume "lab\n": not a name`},
		{"x", "lab:/", "/runs/b/mine.toml", nil, ""},
	} {
		p := plan(t)
		if c.change != nil {
			c.change(&p.Jobs[2])
		}
		var refused *pipeline.RequestError
		err := p.OnKubernetes(Cluster{Image: c.image}, c.volume, "/runs/a", append([]string{"/runs/a/x"}, strings.Fields(c.file)...)...)
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestQuantities(t *testing.T) {
	for in, want := range map[string]string{"": "", "0": "", "16G": "16Gi", "16Gi": "16Gi", "500": "500Mi", "200M": "200Mi"} { // sbatch(1), --mem
		if got, err := quantity(in); err != nil || got != want {
			t.Errorf("%q is %q, %v, want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]time.Duration{ // sbatch(1), --time
		"": 0, "0": 0, "30": 30 * time.Minute, "30:10": 30*time.Minute + 10*time.Second, "4:00:00": 4 * time.Hour,
		"1-12": 36 * time.Hour, "1-12:30": 36*time.Hour + 30*time.Minute, "1-0:0:5": 24*time.Hour + 5*time.Second,
	} {
		if got, err := duration(in); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", in, got, err, want)
		}
	}
}

// The names of Jobs are valid in Kubernetes, and those of other folders differ.
func TestRunName(t *testing.T) {
	for out, begin := range map[string]string{"/x/Paper_Grid 1": "paper-grid-1-", "/": "", "/x/ä": "", "/x/" + strings.Repeat("long", 9): "longlonglonglonglong-"} {
		got := runName("lab", out)
		if !strings.HasPrefix(got, begin) || len(got) != len(begin)+8 || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("%s: %q", out, got)
		}
	}
	if runName("lab", "/x/a") == runName("lab", "/y/a") || runName("lab", "/x/a") == runName("other", "/x/a") {
		t.Error("two folders with one name")
	}
}

// submit.sh creates one Job after the other: training only if the data sets were
// collected, later stages in any case, and nothing after somebody has deleted a Job.
func TestKubernetesStages(t *testing.T) {
	for _, c := range []struct {
		name, ends string // the end of Jobs, a case of bash
		want       []string
	}{
		{"all well", "*) echo x Complete;;", []string{"collect", "join", "train", "analyse+eval", "report"}},
		{"no data", "*-join*) echo x FailureTarget Failed;; *) echo x SuccessCriteriaMet Complete;;", []string{"collect", "join", "analyse+eval", "report"}},
		{"a failed training", "*-train*) echo x Failed;; *) echo x Complete;;", []string{"collect", "join", "train", "analyse+eval", "report"}},
		{"deleted", "*-train*) ;; *) echo x Complete;;", []string{"collect", "join", "train"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := t.TempDir()
			p := kubernetesPlan(t, out)
			left := map[pipeline.Stage][]int{}
			for _, s := range pipeline.Stages() {
				left[s] = []int{0}
			}
			if err := p.Write(t.Context(), out, left); err != nil {
				t.Fatal(err)
			}
			fakeBin(t, "sleep", "")
			log := fakeBin(t, "kubectl", `case "$*" in *" get job "*) case "$*" in `+c.ends+` esac;; *" get jobs "*) echo '{"items": []}';; esac`)
			said, err := p.Submit(t.Context(), out)
			if err != nil || !strings.Contains(said, "kubectl --namespace=team delete jobs -l scalewm="+p.Kubernetes.Run) {
				t.Fatalf("%q, %v", said, err)
			}
			for end := time.Now().Add(time.Minute); running(filepath.Join(out, Dir)); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("submit.sh does not end")
				}
			}
			calls, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			var made []string
			for line := range strings.Lines(string(calls)) {
				if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--namespace=team apply -f "); ok {
					made = append(made, strings.TrimSuffix(name, ".yaml"))
				}
			}
			if i := slices.Index(made, "eval"); i >= 0 { // side by side, in any order
				if k := slices.Index(made, "analyse"); k == i+1 || k == i-1 {
					made = slices.Replace(made, min(i, k), max(i, k)+1, "analyse+eval")
				}
			}
			if !slices.Equal(made, c.want) {
				t.Errorf("made %q, want %q\n%s", made, c.want, calls)
			}
		})
	}
}

// The server's objections to a manifest are reported to the user, and nothing is
// submitted while Jobs are running.
func TestKubernetesRefuses(t *testing.T) {
	out := t.TempDir()
	p := kubernetesPlan(t, out)
	if err := p.Write(t.Context(), out, map[pipeline.Stage][]int{pipeline.StageEval: {1}}); err != nil {
		t.Fatal(err)
	}
	fakeBin(t, "kubectl", `case "$*" in *dry-run*) echo 'Error: namespaces "team" not found' >&2; exit 1;; esac`)
	if _, err := p.Submit(t.Context(), out); err == nil || !strings.Contains(err.Error(), `namespaces "team" not found (hint`) {
		t.Errorf("the server refuses: %v", err)
	}
	if err := p.Save(out, nil); err != nil {
		t.Fatal(err)
	}
	job := func(status string) string {
		return `echo '{"items": [{"metadata": {"name": "` + p.Kubernetes.Run + `-eval"}, "status": ` + status + `}]}'`
	}
	fakeBin(t, "kubectl", job(`{"active": 3, "ready": 1, "succeeded": 2}`))
	if err := p.CheckQueue(t.Context(), out); err == nil || !strings.Contains(err.Error(), p.Kubernetes.Run+"-eval (hint") {
		t.Errorf("with a Job under way: %v", err)
	}
	if got, want := Queue(t.Context(), out), []string{"1 eval running", "2 eval pending", "2 eval completed"}; !slices.Equal(got, want) {
		t.Errorf("queue %q, want %q", got, want)
	}
	fakeBin(t, "kubectl", job(`{"failed": 1, "conditions": [{"type": "Failed", "status": "True"}]}`))
	if err := p.CheckQueue(t.Context(), out); err != nil {
		t.Errorf("with a Job that is over: %v", err)
	}
	fakeBin(t, "kubectl", "echo 'no such host' >&2; exit 1")
	if err := p.CheckQueue(t.Context(), out); err == nil || !strings.Contains(err.Error(), "no such host (hint") {
		t.Errorf("without a server: %v", err)
	}
}

// A pod passes signals on and copies the output of its programs to its log. It exits
// with the worst code of its programs, or with 75 if one of them can be resumed.
func TestPodScript(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	text := "#!/bin/bash\ntrap 'exit 75' USR1\ntrap 'exit 130' TERM\necho \"does $*\"\n[ \"$MODE\" = wait ] && { touch " + dir + "/up; for i in $(seq 500); do sleep 0.02; done; }\n" +
		"case \" $* \" in *\" --shard $FAILS/4 \"*) exit 3;; esac\n"
	if err := os.WriteFile(program, []byte(text), 0o777); err != nil {
		t.Fatal(err)
	}
	p := Plan{Folder: dir, Command: []string{program}}
	for _, c := range []struct {
		signal, mode, fails, limit string
		want                       int
	}{
		{"", "", "", "", 0}, {"", "", "3", "4:00:00", 3}, {"", "", "1", "", 0}, // shard 1 is another pod's
		{"TERM", "wait", "", "4:00:00", 130}, {"", "wait", "", "0:1", 75},
	} {
		os.RemoveAll(filepath.Join(dir, "log"))
		os.Remove(filepath.Join(dir, "up"))
		script, err := p.podScript(dir, Job{Name: "eval", Stage: pipeline.StageEval, Shards: 4, Resources: Resources{Pack: 2, Time: c.limit}})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("bash", "-c", `bash -c "$1" & p=$!; if [ "$2" ]; then while [ ! -e up ]; do sleep 0.01; done; sleep 0.2; kill -"$2" $p; fi; wait $p`, "-", script, c.signal)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "JOB_COMPLETION_INDEX=1", "MODE="+c.mode, "FAILS="+c.fails)
		said, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != c.want {
			t.Errorf("%+v: exit %d", c, got)
		}
		log, err := os.ReadFile(filepath.Join(dir, "log", "eval.1.log"))
		if err != nil || string(log) != string(said) || !strings.Contains(string(log), "does --stage eval --shard 2/4") {
			t.Errorf("%+v: the log has %q, standard output %q (%v)", c, log, said, err)
		}
	}
}
