package submit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"scalewm/eval/pipeline"
)

// hostileWords returns malicious names of folders: some that once broke a script, 50 of
// random printable characters, and 50 of random bytes.
func hostileWords() []string {
	words := []string{"a$(touch PWN)b", "a`touch PWN`b", "it's \"x\"", "$HOME {} %j", "a\ntouch PWN\n#", "a b#c", "--", "x\\",
		"a\u2028securityContext: {privileged: true}", "a\u2029b", "a\u0085b", "a\rb", "\x1b[2J", "\xff\xfe", "\xe2\x80'; touch PWN; '", "{}", "%%A_%a", "ünï", "…“”’"}
	r := rand.New(rand.NewPCG(3072, 40))
	for range 50 {
		printable, raw := make([]byte, 1+r.IntN(20)), make([]byte, 1+r.IntN(20))
		for i := range printable {
			printable[i] = byte(' ' + r.IntN('~'-' '+1))
		}
		for i := range raw {
			raw[i] = byte(1 + r.IntN(255))
		}
		words = append(words, string(printable), string(raw))
	}
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "/", "|")
	}
	return words
}

// hostilePlan returns a plan with the word in its command, folder and setup. Its
// program writes its arguments, each followed by a NUL, to the file args in the folder.
func hostilePlan(t *testing.T, word string) (p Plan, out string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "f"+word)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "program"+word)
	if err := os.WriteFile(program, []byte("#!/bin/bash\nprintf '%s\\0' \"$SETUP\" \"$@\" >> args\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	p = Plan{Folder: folder, Command: []string{program, "--out=" + word}}
	j := Job{Name: "eval", Stage: pipeline.StageEval, Shards: 1, Resources: Resources{Setup: "export SETUP='a b' \\"}}
	if err := j.check(); err != nil {
		t.Fatal(err)
	}
	p.Jobs = []Job{j}
	return p, filepath.Join(folder, word+".out")
}

// decoded returns v as another program reads its JSON.
func decoded[T any](t *testing.T, v any) (out T) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ran compares the arguments with which the program of a plan was called, and looks for
// side effects of the word.
func ran(t *testing.T, p Plan, word string, restarts bool) {
	t.Helper()
	want := []string{"a b", "--out=" + word, "--stage", "eval", "--shard", "0/1"}
	if restarts {
		want = append(want, "--restarts", "5")
	}
	got, err := os.ReadFile(filepath.Join(p.Folder, "args"))
	if list := strings.Split(strings.TrimSuffix(string(got), "\x00"), "\x00"); err != nil || !slices.Equal(list, want) {
		t.Errorf("called with %q, %v, want %q", list, err, want)
	}
	filepath.WalkDir(filepath.Dir(p.Folder), func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == "PWN" {
			t.Errorf("%s was made", path)
		}
		return err
	})
}

// lint checks scripts with bash and shellcheck.
func lint(t *testing.T, scripts ...string) {
	t.Helper()
	dir := t.TempDir() // whose name is UTF-8, which shellcheck needs
	var names []string
	for i, path := range scripts {
		if out, err := exec.Command("bash", "-n", path).CombinedOutput(); err != nil {
			t.Errorf("bash -n: %v\n%s", err, out)
		}
		names = append(names, filepath.Join(dir, fmt.Sprint(i)))
		if err := os.Link(path, names[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.LookPath("shellcheck"); err != nil {
		return // TestShellcheck is skipped
	}
	if out, err := exec.Command("shellcheck", append([]string{"--shell=bash"}, names...)...).CombinedOutput(); err != nil {
		t.Errorf("shellcheck: %v\n%s", err, out)
	}
}

func TestShellcheck(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("the generated scripts are not linted: shellcheck is not installed (make test-slurm installs it)")
	}
}

// Whatever the name of a folder, the scripts of all engines call the program with that
// name and run nothing else.
func TestHostilePaths(t *testing.T) {
	for i, word := range hostileWords() {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			left := map[pipeline.Stage][]int{pipeline.StageEval: {0}}
			p, out := hostilePlan(t, word)
			p.Engine = Shell
			if err := p.Write(t.Context(), out, left); err != nil {
				t.Fatal(err)
			}
			script := filepath.Join(out, Dir, "submit.sh")
			scripts := []string{script}
			if said, err := exec.Command("bash", script).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, said)
			}
			ran(t, p, word, false)

			p, out = hostilePlan(t, word)
			p.Engine = Slurm
			if err := p.Write(t.Context(), out, left); err != nil {
				t.Fatal(err)
			}
			script = filepath.Join(out, Dir, "eval.sh")
			scripts = append(scripts, script, filepath.Join(out, Dir, "submit.sh"))
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(text) {
				if bytes.HasPrefix(line, []byte("#SBATCH")) && strings.Trim(string(line), pipeline.PlainWord+"# \n") != "" {
					t.Errorf("Slurm has to parse %q", line)
				}
			}
			if err := os.Mkdir(filepath.Join(out, Dir, "log"), 0o777); err != nil { // as submit.sh does
				t.Fatal(err)
			}
			cmd := exec.Command("bash", script)
			cmd.Env = append(os.Environ(), "SLURM_ARRAY_JOB_ID=7", "SLURM_ARRAY_TASK_ID=0")
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, said)
			}
			ran(t, p, word, true)

			p, out = hostilePlan(t, word)
			p.Engine = Kubernetes
			var refused *pipeline.RequestError
			printable := utf8.ValidString(word) && !strings.ContainsFunc(word, func(r rune) bool { return !strconv.IsPrint(r) })
			if err := p.OnKubernetes(Cluster{Image: "scalewm"}, "lab:/", out); printable != (err == nil) || err != nil && !errors.As(err, &refused) {
				t.Errorf("a folder that YAML cannot hold: %v, %v", !printable, err)
			}
			p.Folder = filepath.Dir(p.Folder)
			if err := p.OnKubernetes(Cluster{Image: "scalewm"}, "lab:/", out); err != nil {
				t.Fatal(err)
			}
			if err := p.Write(t.Context(), out, left); err != nil {
				t.Fatal(err)
			}
			scripts = append(scripts, filepath.Join(out, Dir, "submit.sh"))
			text, err = os.ReadFile(filepath.Join(out, Dir, "eval.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			intent, err := p.job(filepath.Join(out, Dir), p.Jobs[0])
			if err != nil {
				t.Fatal(err)
			}
			var got object
			if err := yaml.UnmarshalStrict(text, &got); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if diff := cmp.Diff(decoded[object](t, intent), got); diff != "" {
				t.Error(diff)
			}
			pod := decoded[struct {
				Spec struct {
					Template struct {
						Spec struct {
							Containers []struct {
								Command, Args []string
								WorkingDir    string
							}
						}
					}
				}
			}](t, got).Spec.Template.Spec.Containers[0]
			script = filepath.Join(t.TempDir(), "pod.sh")
			if err := os.WriteFile(script, []byte("#!/bin/bash\n"+pod.Args[0]), 0o666); err != nil {
				t.Fatal(err)
			}
			lint(t, append(scripts, script)...)
			cmd = exec.Command(pod.Command[0], append(pod.Command[1:], pod.Args...)...)
			cmd.Dir, cmd.Env = pod.WorkingDir, append(os.Environ(), "JOB_COMPLETION_INDEX=0")
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, said)
			}
			ran(t, p, word, true)
		})
	}
}

// Resources that no batch system accepts cause an error that names the flag, before
// anything is written.
func TestResources(t *testing.T) {
	for want, change := range map[string]func(*Job){
		`--shards eval:-5 is out of range`:         func(j *Job) { j.Shards = -5 },
		`--shards eval:2147483648 is out of range`: func(j *Job) { j.Shards = 1 << 31 },
		`--pack eval:9223372036854775807 is out`:   func(j *Job) { j.Pack = 1<<63 - 1 },
		`--throttle eval:-1 is out of range`:       func(j *Job) { j.Throttle = -1 },
		`--cpus eval:100001 is out of range`:       func(j *Job) { j.CPUs = MaxCount + 1 },
		`--gpus eval:100001 is out of range`:       func(j *Job) { j.GPUs = MaxCount + 1 },
		`--time "tomorrow"`:                        func(j *Job) { j.Time = "tomorrow" },
		`--time "-1:00"`:                           func(j *Job) { j.Time = "-1:00" },
		`--time "99999999"`:                        func(j *Job) { j.Time = "99999999" },
		`--mem "-16G"`:                             func(j *Job) { j.Mem = "-16G" },
		`--mem "16G\n"`:                            func(j *Job) { j.Mem = "16G\n" },
		`--partition "a b"`:                        func(j *Job) { j.Partition = "a b" },
		`--account "a\n#SBATCH"`:                   func(j *Job) { j.Account = "a\n#SBATCH" },
		`--extra "a\x1b"`:                          func(j *Job) { j.Extra = "a\x1b" },
		`--setup "a\nb"`:                           func(j *Job) { j.Setup = "a\nb" },
		`--setup "echo 'a": bash: `:                func(j *Job) { j.Setup = "echo 'a" },
		"":                                         func(j *Job) { j.Time, j.Mem, j.Setup = "UNLIMITED", "16gb", `echo hi \` },
	} {
		j := Job{Name: "eval", Stage: pipeline.StageEval, Shards: 1, Resources: Default(pipeline.StageEval)}
		change(&j)
		err := j.check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "(hint: ")) {
			t.Errorf("%v, want %q and a hint", err, want)
		}
	}
}

// A plan with damaged numbers of shards is an error, because they determine what is
// computed.
func TestDamagedPlan(t *testing.T) {
	for _, shards := range []string{"0", "-5", "2147483648", "1e3", `"7"`} {
		out := t.TempDir()
		p := plan(t)
		if err := p.Save(out, nil); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(out, Dir, planName)
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, bytes.Replace(text, []byte(`"shards": 25`), []byte(`"shards": `+shards), 1), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Save(out, nil); err == nil || !strings.Contains(err.Error(), "damaged (hint") {
			t.Errorf("%s shards: %v", shards, err)
		}
	}
}
