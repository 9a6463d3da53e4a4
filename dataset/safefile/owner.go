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

// Owner is a process that has a lock.
type Owner struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
	Job  string `json:"job,omitempty"` // of Slurm, as squeue knows it
}

// Self is this process.
func Self() Owner {
	host, _ := os.Hostname() // "" would be a host like any other
	return Owner{Host: host, PID: os.Getpid(), Job: slurmJob()}
}

// nobody stands for the owner of a lock that names none.
var nobody = Owner{Host: "an unreadable " + lockName}

func (o Owner) String() string {
	if o == nobody {
		return o.Host
	}
	text := fmt.Sprintf("process %d on %s", o.PID, o.Host)
	if o.Job != "" {
		text += ", job " + o.Job
	}
	return text
}

// slurmJob is the job that this process belongs to, "" outside Slurm. A task of an
// array keeps its name when it is put back into the queue.
func slurmJob() string {
	if array := os.Getenv("SLURM_ARRAY_JOB_ID"); array != "" {
		return array + "_" + os.Getenv("SLURM_ARRAY_TASK_ID")
	}
	return os.Getenv("SLURM_JOB_ID")
}

// succeeds says whether an owner on another host is certainly gone: its job is this
// process's own, started again, or one that does not run. Without Slurm nothing is certain.
func (o Owner) succeeds(gone Owner) bool {
	if gone.Job == "" {
		return false
	}
	return gone.Job == o.Job || !runs(gone.Job)
}

// squeueTime is how long a busy controller may take to answer.
const squeueTime = 20 * time.Second

// runs asks squeue whether a job has processes; without an answer it may have.
func runs(job string) bool {
	ctx, stop := context.WithTimeout(context.Background(), squeueTime)
	defer stop()
	out, err := exec.CommandContext(ctx, "squeue", "--noheader", "--jobs", job, "--format", "%T").CombinedOutput()
	if err != nil {
		return !strings.Contains(string(out), "Invalid job id") // that it has forgotten
	}
	states := strings.Fields(string(out))
	return slices.ContainsFunc(states, func(s string) bool { return s != "PENDING" && !strings.HasPrefix(s, "REQUEUE") })
}
