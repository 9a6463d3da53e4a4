package cell

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Shard is part I (from 0) of N of a list of units of work. The zero value is the
// complete list.
type Shard struct{ I, N int }

// Has reports whether unit i of the list belongs to the shard. Units are assigned
// round robin: neighbouring units take similar time, so each shard gets its share of
// the long ones.
func (s Shard) Has(i int) bool { return s.N <= 1 || i%s.N == s.I }

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.I, max(s.N, 1)) }

// ParseShard parses "i/n" with 0 <= i < n.
func ParseShard(text string) (Shard, error) {
	a, b, ok := strings.Cut(text, "/")
	i, errI := strconv.Atoi(a)
	n, errN := strconv.Atoi(b)
	if !ok || errI != nil || errN != nil || i < 0 || i >= n {
		return Shard{}, fmt.Errorf("shard %q is not of the form i/n with 0 <= i < n (hint: 0/4 is the first of four)", text)
	}
	return Shard{i, n}, nil
}

// ShardFromEnv returns the shard that a batch system assigned: a task of a Slurm
// array 0 to n-1 (SLURM_ARRAY_TASK_ID with _COUNT) or an index of a Kubernetes
// Indexed Job (JOB_COMPLETION_INDEX; the manifest must pass the number of completions
// as JOB_COMPLETIONS, which Kubernetes does not set). Outside both it is the complete
// list.
//
// If only some tasks of an array run again, as with --array=3,7, Slurm's count is the
// number of these tasks and not of shards. ShardFromEnv detects this from the
// smallest and largest index and returns an error: with a wrong count, cells would be
// computed twice or never.
func ShardFromEnv() (Shard, error) {
	if _, ok := os.LookupEnv("SLURM_ARRAY_TASK_ID"); ok {
		s, err := shardFrom("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT")
		low, high := os.Getenv("SLURM_ARRAY_TASK_MIN"), os.Getenv("SLURM_ARRAY_TASK_MAX")
		if err == nil && (low != "" && low != "0" || high != "" && high != strconv.Itoa(s.N-1)) {
			err = fmt.Errorf("the shard of this job: the array has %d tasks from %s to %s, not 0 to n-1 (hint: give --shard i/n)", s.N, low, high)
		}
		return s, err
	}
	if _, ok := os.LookupEnv("JOB_COMPLETION_INDEX"); ok {
		return shardFrom("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS")
	}
	return Shard{}, nil
}

// shardFrom parses the variables with a task's index and the number of tasks.
func shardFrom(index, count string) (Shard, error) {
	i, err := envInt(index)
	if err != nil {
		return Shard{}, err
	}
	n, err := envInt(count)
	if err != nil {
		return Shard{}, err
	}
	if i < 0 || i >= n {
		return Shard{}, fmt.Errorf("%s=%s is outside the %s=%s tasks (hint: number them 0 to n-1 in steps of 1, or give --shard i/n)",
			index, os.Getenv(index), count, os.Getenv(count))
	}
	return Shard{i, n}, nil
}

// envInt parses an environment variable as a number.
func envInt(name string) (int, error) {
	v, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return 0, fmt.Errorf("the shard of this job: %s=%q is not a number (hint: set it, or give --shard i/n)", name, os.Getenv(name))
	}
	return v, nil
}
