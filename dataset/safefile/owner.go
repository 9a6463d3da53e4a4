package safefile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Owner identifies a process that holds a lock. Its JSON form is the content of the
// lock.
type Owner struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Job is the Slurm job as squeue names it, ID or ARRAY_TASK, or "" outside Slurm.
	Job string `json:"job,omitempty"`
}

// Self returns this process. A host without a name has the empty one, which compares
// like any other.
func Self() Owner {
	host, _ := os.Hostname()
	return Owner{Host: host, PID: os.Getpid(), Job: slurmJob()}
}

// unreadable is the owner reported for a lock whose content cannot be read.
var unreadable = Owner{Host: "an unreadable " + lockName}

func (o Owner) String() string {
	if o == unreadable {
		return o.Host
	}
	text := fmt.Sprintf("process %d on %s", o.PID, o.Host)
	if o.Job != "" {
		text += ", job " + o.Job
	}
	return text
}

// slurmJob returns the job of this process, or "" outside Slurm. A task is named by
// its array and index and not by SLURM_JOB_ID, because that pair stays the same when
// the task is requeued.
func slurmJob() string {
	if array := os.Getenv("SLURM_ARRAY_JOB_ID"); array != "" {
		return array + "_" + os.Getenv("SLURM_ARRAY_TASK_ID")
	}
	return os.Getenv("SLURM_JOB_ID")
}

// seesGone reports whether an owner on another host is certainly gone: its job is
// this process's own job, started again, or a job that is not running. An owner
// outside Slurm may always be alive.
func (o Owner) seesGone(gone Owner) bool {
	if gone.Job == "" {
		return false
	}
	return gone.Job == o.Job || !jobRunning(gone.Job)
}

// squeueTime is how long squeue may take: a busy controller answers slowly.
const squeueTime = 20 * time.Second

// jobRunning asks squeue whether a job has running processes. It returns true if squeue
// gives no answer, since a lock must not be broken on a guess.
func jobRunning(job string) bool {
	ctx, stop := context.WithTimeout(context.Background(), squeueTime)
	defer stop()
	out, err := exec.CommandContext(ctx, "squeue", "--noheader", "--jobs", job, "--format", "%T").CombinedOutput()
	if err != nil {
		// The controller forgets jobs some time after they end. Every other failure
		// proves nothing.
		return !strings.Contains(string(out), "Invalid job id")
	}
	states := strings.Fields(string(out))
	// A pending or requeued job has no processes yet. All other states may have some,
	// including those of jobs that are completing.
	return slices.ContainsFunc(states, func(s string) bool { return s != "PENDING" && !strings.HasPrefix(s, "REQUEUE") })
}
