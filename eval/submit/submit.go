package submit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"scalewm/dataset/safefile"
	"scalewm/eval/pipeline"
)

// Engines returns the names of all engines.
func Engines() []string { return []string{Slurm, Kubernetes, Shell} }

// tool is the program with which an engine submits jobs.
var tool = map[string]string{Slurm: "sbatch", Kubernetes: "kubectl", Shell: "flock"}

// Write writes the scripts of the plan into the results folder out. left has the shards
// of each stage that are not finished; submit.sh runs only these.
func (p Plan) Write(ctx context.Context, out string, left map[pipeline.Stage][]int) error {
	dir, err := filepath.Abs(filepath.Join(out, Dir))
	if err != nil {
		return fmt.Errorf("writing the jobs: %w", err)
	}
	switch p.Engine {
	case Shell:
		return p.shell(dir, left)
	case Kubernetes:
		return p.kubernetes(dir, left)
	}
	return p.slurm(ctx, dir, left)
}

// CheckQueue returns an error if nothing may be submitted: the engine is not available, or
// jobs of an earlier submission are not over. Two jobs of one shard would do the same
// work twice.
func (p Plan) CheckQueue(ctx context.Context, out string) error {
	if _, err := exec.LookPath(tool[p.Engine]); err != nil {
		return fmt.Errorf("submitting to %s: there is no %s here (hint: run it on a machine of the cluster, or --print only writes the scripts)", p.Engine, tool[p.Engine])
	}
	dir := filepath.Join(out, Dir)
	switch p.Engine {
	case Shell:
		if running(dir) {
			return fmt.Errorf("%s/submit.sh is still running (hint: wait, or end it and its programs with kill)", dir)
		}
		return nil
	case Kubernetes:
		queued, err := p.Kubernetes.queued(ctx)
		if err == nil && (len(queued) > 0 || running(dir)) {
			err = fmt.Errorf("the Jobs of %s are not over: %s (hint: wait, or %s delete jobs -l scalewm=%s)", out, cmp.Or(strings.Join(queued, ", "), "its submit.sh is running"), p.kubectl(), p.Kubernetes.Run)
		}
		return err
	}
	ids, err := Submitted(out)
	if err != nil || len(ids) == 0 {
		return err
	}
	queued, err := slurmQueued(ctx, ids)
	if err == nil && len(queued) > 0 {
		err = fmt.Errorf("jobs of %s are still queued: %s (hint: wait, or scancel %s)", out, strings.Join(queued, ", "), strings.Join(queued, " "))
	}
	return err
}

// running reports whether a submit.sh that waits for jobs is running on this machine:
// it holds a lock on the file running. The lock disappears with the process, so a crash
// leaves no trace.
func running(dir string) bool {
	f, err := safefile.Open(filepath.Join(dir, "running"), safefile.MaxRecord)
	if err != nil {
		return false // submit.sh never ran
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

// Submitted returns the ids of the jobs of the last submission to Slurm, or none if
// there was none.
func Submitted(out string) (ids []string, err error) {
	text, err := safefile.Read(filepath.Join(out, Dir, "submitted"), safefile.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 0 {
			ids = append(ids, f[0])
		}
	}
	return slices.Compact(ids), err
}

// Submit runs submit.sh, and returns when the jobs are submitted, without waiting for
// them. The result has a line for each job, or for the process that runs them.
func (p Plan) Submit(ctx context.Context, out string) (string, error) {
	dir := filepath.Join(out, Dir)
	script := filepath.Join(dir, "submit.sh")
	if p.Engine == Shell {
		cmd := exec.Command("bash", script)
		// In a separate session the process survives the end of this command and of its terminal.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return "", fmt.Errorf("starting %s: %w", script, err)
		}
		return fmt.Sprintf("process %d runs all stages; its programs log to %s (kill -- -%d ends them)\n", cmd.Process.Pid, filepath.Join(dir, "log"), cmd.Process.Pid), nil
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", script)
	cmd.Stderr = &said
	if p.Engine == Kubernetes {
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("submitting to Kubernetes: %s (hint: fix the options, run the same command again)", strings.TrimSpace(said.String()))
		}
		return string(out), err
	}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("submitting to Slurm: %s (hint: jobs submitted before the error are listed in %s/submitted; scancel them or wait, fix the options, run the same command again)",
			strings.TrimSpace(said.String()), dir)
	}
	text, err := safefile.Read(filepath.Join(dir, "submitted"), safefile.MaxRecord)
	return string(text), err
}
