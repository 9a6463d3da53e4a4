package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slurm is one of two nodes on this machine, without systemd, cgroups or
// accounting: its own munge socket, configuration and ports.
type slurm struct{ *cluster }

const slurmConf = `ClusterName=test
SlurmctldHost=%[2]s(127.0.0.1)
SlurmctldPort=%[3]d
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[1]s/munge.socket,cred_expire=3
CredType=cred/munge
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool-%%n
SlurmctldPidFile=%[1]s/slurmctld.pid
SlurmdPidFile=%[1]s/slurmd.%%n.pid
SlurmctldLogFile=%[1]s/slurmctld.log
SlurmdLogFile=%[1]s/slurmd.%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
MaxArraySize=3
MinJobAge=3600
KillWait=5
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n1 NodeHostname=%[2]s NodeAddr=127.0.0.1 Port=%[4]d CPUs=2 RealMemory=4000 State=UNKNOWN
NodeName=n2 NodeHostname=%[2]s NodeAddr=127.0.0.1 Port=%[5]d CPUs=2 RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
`

func startSlurm(t *testing.T) slurm {
	c := slurm{&cluster{T: t, dir: t.TempDir(), queue: []string{"squeue", "-a", "-t", "all"}}}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	port := 20000 + os.Getpid()%20000
	conf := filepath.Join(c.dir, "slurm.conf")
	files := map[string]string{
		conf:                                fmt.Sprintf(slurmConf, c.dir, host, port, port+1, port+2),
		filepath.Join(c.dir, "cgroup.conf"): "CgroupMountpoint=/sys/fs/cgroup\n",
		filepath.Join(c.dir, "munge.key"):   strings.Repeat("a key of this test, and no secret ", 31)[:1024],
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(c.dir, 0o755); err != nil { // munged wants that of its socket's folder
		t.Fatal(err)
	}
	t.Setenv("SLURM_CONF", conf)
	t.Cleanup(func() {
		for _, name := range []string{"slurmd.n1", "slurmd.n2", "slurmctld", "munged"} {
			c.kill(name, syscall.SIGKILL)
			if log, err := os.ReadFile(filepath.Join(c.dir, name+".log")); t.Failed() && err == nil {
				t.Logf("%s.log:\n%s", name, log[max(0, len(log)-8192):])
			}
		}
	})
	at := func(name string) string { return filepath.Join(c.dir, name) }
	c.must("munged", "--force", "--key-file="+at("munge.key"), "--socket="+at("munge.socket"), "--pid-file="+at("munged.pid"),
		"--log-file="+at("munged.log"), "--seed-file="+at("munged.seed"), "--num-threads=2")
	c.must("slurmctld", "-c", "-f", conf)
	for _, node := range []string{"n1", "n2"} {
		c.must("slurmd", "-f", conf, "-N", node)
	}
	c.await("two idle nodes", func() bool { return c.output("sinfo", "-h", "-t", "idle", "-o", "%D") == "2" })
	return c
}

// kill signals a daemon of the cluster.
func (c slurm) kill(name string, sig syscall.Signal) {
	text, err := os.ReadFile(filepath.Join(c.dir, name+".pid"))
	if err != nil {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		syscall.Kill(pid, sig)
	}
}

// settled waits until nothing is queued. It lets requeued jobs start at once, which would
// otherwise wait two minutes.
func (c slurm) settled() {
	c.Helper()
	c.await("the end of all jobs", func() bool {
		left := strings.Fields(c.output("squeue", "-h", "-o", "%i"))
		for _, job := range left {
			c.now(job)
		}
		return len(left) == 0
	})
}

// now lets a requeued job start without the two minutes that Slurm waits. Slurm waits
// because a late report of the end of the former run would count for the new one; so no run
// may be in progress on any node.
func (c slurm) now(job string) {
	if c.output("pgrep", "-x", "slurmstepd") == "" && c.output("squeue", "-h", "-j", job, "-o", "%T %r") == "PENDING BeginTime" {
		c.output("scontrol", "update", "jobid="+job, "StartTime=now")
	}
}

// TestSlurm submits grids to a real Slurm, disturbs their jobs, and compares every
// file with a run in one process.
func TestSlurm(t *testing.T) {
	if os.Getenv("SCALEWM_SLURM") == "" {
		t.Skip("make test-slurm runs it")
	}
	c := startSlurm(t)
	small := []string{"--mem", "200M", "--cpus", "1", "--gpus", "0", "--time", "10"}

	t.Run("a grid", func(t *testing.T) {
		whole, out := t.TempDir(), filepath.Join(t.TempDir(), hostileName)
		c.T, c.out = t, out
		axes := []string{"--preset", "testdata/tiny.toml", "--tasks", "tworoom,pointmaze", "--methods", "scale,random", "--tiers", "T5", "--sets", "s101,s102",
			"--episodes", "2", "--analyses", "spectrum"}
		c.reproduce(exitDone, "", axes, "--out", whole)
		to := append([]string{"--out", out, "--submit", "slurm", "--shards", "collect:5", "--shards", "eval:4", "--pack", "eval:2"}, small...)
		// sbatch's error message is shown to the user.
		c.reproduce(exitFailed, "nosuch", axes, append(slices.Clone(to), "--partition", "nosuch")...)
		// The controller is killed when all jobs are on its disk and none has started. A job
		// that ran without being recorded would run again under the same number, for which
		// Slurm drains the node.
		c.must("scontrol", "update", "partitionname=all", "state=down")
		c.reproduce(exitDone, "report", axes, to...)
		c.await("the jobs on the controller's disk", func() bool {
			saved, _ := os.ReadFile(filepath.Join(c.dir, "state", "job_state"))
			return strings.Contains(string(saved), "scalewm-report")
		})
		c.kill("slurmctld", syscall.SIGKILL)
		c.must("slurmctld", "-f", os.Getenv("SLURM_CONF"))
		c.await("the controller", func() bool { return strings.Contains(c.output("scontrol", "ping"), "UP") })
		c.reproduce(exitFailed, "still queued", axes, to...)
		c.must("scontrol", "update", "partitionname=all", "state=up")
		c.settled()
		c.sameGrid("by Slurm", out, whole)
		if logs := c.logs(); !strings.Contains(logs, "eval.") {
			t.Errorf("no logs of jobs in the results folder: %s", logs)
		}
		c.reproduce(exitDone, "nothing to submit", axes, to...)
		c.reproduce(exitUsage, "has 4 shards of eval, and 3 were requested", axes, append(slices.Clone(to), "--shards", "eval:3")...)
	})
	t.Run("disturbed", func(t *testing.T) {
		whole, out := t.TempDir(), t.TempDir()
		c.T, c.out = t, out
		axes := []string{"--preset", slowPreset(t, 6000), "--tasks", "tworoom", "--methods", "scale", "--tiers", "T5", "--sets", "s101", "--episodes", "2"}
		c.reproduce(exitDone, "", axes, "--out", whole)
		to := append([]string{"--out", out, "--submit", "slurm"}, small...)
		c.reproduce(exitDone, "", axes, to...)
		train := func() (job, node string) { // the training that runs
			for line := range strings.Lines(c.output("squeue", "-h", "-t", "R", "-n", "scalewm-train", "-o", "%F_%K %N")) {
				if f := strings.Fields(line); len(f) == 2 {
					return f[0], f[1]
				}
			}
			return "", ""
		}
		c.await("a training under way", func() bool { return c.rows() > 0 })
		job, _ := train()
		if job == "" {
			t.Fatalf("no training runs\n%s", c.output("squeue", "-a", "-t", "all"))
		}
		c.must("scancel", "--batch", "--signal=USR1", job) // as before the time limit
		c.await("the training in the queue again", func() bool { return strings.HasPrefix(c.output("squeue", "-h", "-j", job, "-o", "%T"), "PENDING") })
		before := c.rows()
		c.await("the training to go on", func() bool { c.now(job); return c.rows() > before })
		_, node := train()
		c.kill("slurmd."+node, syscall.SIGKILL) // the node is lost, with its program still at work
		c.must("scontrol", "update", "nodename="+node, "state=down", "reason=lost")
		c.await("the training in the queue again", func() bool { return strings.HasPrefix(c.output("squeue", "-h", "-j", job, "-o", "%T"), "PENDING") })
		c.must("scancel", "--name=scalewm-train")
		c.await("the training's end", func() bool { return c.output("squeue", "-h", "-n", "scalewm-train") == "" })
		time.Sleep(2 * time.Second)
		if left := c.output("squeue", "-h", "-n", "scalewm-train"); left != "" {
			t.Errorf("what was cancelled is back: %s", left)
		}
		c.settled()
		c.must("slurmd", "-f", os.Getenv("SLURM_CONF"), "-N", node)
		c.reproduce(exitDone, "train", axes, to...)
		c.settled()
		c.sameGrid("disturbed", out, whole)
	})
}
