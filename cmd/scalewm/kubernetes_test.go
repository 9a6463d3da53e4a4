package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"scalewm/eval/submit"
)

// kubernetes is the one of eval/submit/testdata/kubernetes/cluster: the released API server and
// controllers, whose pods are processes of this machine.
type kubernetes struct{ *cluster }

func startKubernetes(t *testing.T) kubernetes {
	c := kubernetes{&cluster{T: t, dir: t.TempDir(), queue: []string{"kubectl", "get", "jobs,pods"}}}
	if err := os.Symlink(os.Getenv("SCALEWM_KUBERNETES"), filepath.Join(c.dir, "kubectl")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", c.dir+":"+os.Getenv("PATH"))
	t.Setenv("KUBECONFIG", filepath.Join(c.dir, "kubeconfig"))
	log, err := os.Create(filepath.Join(c.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(os.Getenv("SCALEWM_KUBERNETES"), c.dir)
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
		log.Close()
	})
	c.await("the API server", func() bool { _, err := os.Stat(os.Getenv("KUBECONFIG")); return err == nil })
	return c
}

// settled waits until the last stage's Job has ended.
func (c kubernetes) settled() {
	c.Helper()
	c.await("the end of all Jobs", func() bool {
		return exec.Command("flock", "-n", filepath.Join(c.out, "jobs/running"), "true").Run() == nil
	})
}

// job returns the full name of a stage's Job of this results folder, "" if there is none.
func (c kubernetes) job(stage string) string {
	c.Helper()
	var plan submit.Plan
	text, err := os.ReadFile(filepath.Join(c.out, submit.Dir, "plan.json"))
	if err == nil {
		err = json.Unmarshal(text, &plan)
	}
	if err != nil {
		c.Fatal(err)
	}
	for _, name := range strings.Fields(c.output("kubectl", "get", "jobs", "-l", "scalewm="+plan.Kubernetes.Run, "-o", "jsonpath={.items[*].metadata.name}")) {
		if strings.HasSuffix(name, "-"+stage) {
			return name
		}
	}
	return ""
}

// of returns a field of a stage's Job.
func (c kubernetes) of(stage, field string) string {
	return c.output("kubectl", "get", "job", c.job(stage), "-o", "jsonpath={"+field+"}")
}

// pod returns the name of a stage's running pod, and the number of failures of its index.
func (c kubernetes) pod(stage string) (name, failures string) {
	f := strings.Fields(c.output("kubectl", "get", "pods", "-l", "job-name="+c.job(stage), "--field-selector=status.phase=Running", "-o",
		`jsonpath={.items[*].metadata.name} {.items[*].metadata.annotations.batch\.kubernetes\.io/job-index-failure-count}`))
	if len(f) != 2 {
		return "", ""
	}
	return f[0], f[1]
}

// TestKubernetes submits grids to a real API server and Job controller, disturbs their pods,
// and compares every file with a run in one process.
func TestKubernetes(t *testing.T) {
	if os.Getenv("SCALEWM_KUBERNETES") == "" {
		t.Skip("make test-kubernetes runs it")
	}
	c := startKubernetes(t)
	to := func(more ...string) []string {
		return slices.Concat([]string{"--out", c.out, "--submit", "kubernetes", "--image", "any", "--volume", "any:/", "--mem", "200M", "--cpus", "1", "--gpus", "0"}, more)
	}

	t.Run("a grid", func(t *testing.T) {
		whole := t.TempDir()
		c.T, c.out = t, filepath.Join(t.TempDir(), hostileName)
		axes := []string{"--preset", "testdata/tiny.toml", "--tasks", "tworoom,pointmaze", "--methods", "scale,lewm,random", "--tiers", "T5", "--sets", "s101,s102",
			"--episodes", "2", "--analyses", "spectrum"}
		c.reproduce(exitDone, "", axes, "--out", whole)
		jobs := to("--shards", "collect:5", "--shards", "eval:4", "--pack", "eval:2")
		// The server's error message is shown to the user.
		c.reproduce(exitFailed, "nosuch", axes, append(slices.Clone(jobs), "--namespace", "nosuch")...)
		// A training whose log cannot be written fails permanently; everything that does not
		// need its weights is computed. Its folder has the preset that every training writes
		// first: otherwise checking the folder would fail before submission.
		run := "train/tworoom-lewm-s3072"
		blocked := filepath.Join(c.out, run, "metrics.jsonl")
		if err := errors.Join(os.MkdirAll(blocked, 0o777), os.Link(filepath.Join(whole, run, "config.toml"), filepath.Join(c.out, run, "config.toml"))); err != nil {
			t.Fatal(err)
		}
		c.reproduce(exitDone, "report", axes, jobs...)
		c.reproduce(exitFailed, "are not over", axes, jobs...)
		c.settled()
		failed := c.of("train", ".status.failedIndexes")
		if pods := c.of("train", ".status.failed"); len(failed) != 1 || pods != "1" || c.of("train", ".status.succeeded") != "3" {
			t.Errorf("of four trainings %q failed, in %s pods\n%s", failed, pods, c.output("kubectl", "describe", "job", c.job("train")))
		}
		c.reproduce(exitDone, "train."+failed+".log: scalewm:", axes, "--out", c.out, "--watch")
		if _, err := os.Stat(filepath.Join(c.out, "report.html")); err != nil {
			t.Errorf("no report of what is there: %v", err)
		}
		if err := os.Remove(blocked); err != nil {
			t.Fatal(err)
		}
		c.reproduce(exitDone, "train", axes, jobs...)
		c.settled()
		c.sameGrid("by Kubernetes", c.out, whole)
		c.reproduce(exitDone, "nothing to submit", axes, jobs...)
	})
	t.Run("disturbed", func(t *testing.T) {
		whole := t.TempDir()
		c.T, c.out = t, t.TempDir()
		axes := []string{"--preset", slowPreset(t, 6000), "--tasks", "tworoom", "--methods", "scale", "--tiers", "T5", "--sets", "s101", "--episodes", "2"}
		c.reproduce(exitDone, "", axes, "--out", whole)
		c.reproduce(exitDone, "", axes, to()...)
		c.await("a training under way", func() bool { return c.rows() > 0 })
		// goesOn waits until the training has resumed in a pod other than the former, with the
		// given number of failures of its index.
		goesOn := func(former, failures string) (pod string) {
			t.Helper()
			before := c.rows()
			c.await("the training to go on after pod "+former, func() bool {
				name, counted := c.pod("train")
				pod = name
				return name != "" && name != former && counted == failures && c.rows() > before
			})
			return pod
		}
		pod := goesOn("", "0")
		eviction := filepath.Join(t.TempDir(), "eviction.json")
		if err := os.WriteFile(eviction, []byte(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "`+pod+`"}}`), 0o666); err != nil {
			t.Fatal(err)
		}
		c.must("kubectl", "create", "--raw", "/api/v1/namespaces/default/pods/"+pod+"/eviction", "-f", eviction)
		pod = goesOn(pod, "0")
		c.must("kubectl", "delete", "pod", pod, "--wait=false")
		pod = goesOn(pod, "0")

		c.must("kubectl", "patch", "job", c.job("train"), "-p", `{"spec": {"suspend": true}}`) // as Kueue does
		c.await("no pod", func() bool {
			return c.output("kubectl", "get", "pods", "-l", "job-name="+c.job("train"), "-o", "name") == ""
		})
		before := c.rows()
		c.reproduce(exitDone, "train suspended", axes, "--out", c.out, "--watch")
		if c.rows() != before {
			t.Error("a suspended training goes on")
		}
		c.must("kubectl", "patch", "job", c.job("train"), "-p", `{"spec": {"suspend": false}}`)
		pod = goesOn(pod, "0")
		c.must("pkill", "-KILL", "-f", "^scalewm reproduce.*"+c.out) // as if memory were short
		goesOn(pod, "1")
		c.must("kubectl", "delete", "job", c.job("train"))
		c.settled()
		if job := c.job("eval"); job != "" {
			t.Errorf("%s follows a training that was deleted", job)
		}
		c.reproduce(exitDone, "train", axes, to()...)
		c.settled()
		c.sameGrid("disturbed", c.out, whole)
	})
}
