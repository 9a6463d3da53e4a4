package cell

import (
	"os"
	"strings"
	"testing"
)

func TestParseShard(t *testing.T) {
	if s, err := ParseShard("2/5"); err != nil || s != (Shard{2, 5}) || s.String() != "2/5" {
		t.Errorf("ParseShard(2/5) = %v, %v", s, err)
	}
	for _, bad := range []string{"", "1", "5/5", "-1/3", "a/b", "1/2/3", "0/0"} {
		if s, err := ParseShard(bad); err == nil || !strings.Contains(err.Error(), "hint") {
			t.Errorf("ParseShard(%q) = %v, %v; want an error with a hint", bad, s, err)
		}
	}
}

// Every unit belongs to exactly one shard, and the sizes of shards differ by at most
// one.
func TestShardsPartition(t *testing.T) {
	for n := 1; n <= 7; n++ {
		count := make([]int, n)
		for unit := range 20 {
			owners := 0
			for i := range n {
				if (Shard{i, n}).Has(unit) {
					owners++
					count[i]++
				}
			}
			if owners != 1 {
				t.Errorf("unit %d of n=%d has %d owners", unit, n, owners)
			}
		}
		for i, c := range count {
			if c < 20/n || c > 20/n+1 {
				t.Errorf("shard %d/%d has %d of 20 units", i, n, c)
			}
		}
	}
	if !(Shard{}).Has(3) || (Shard{}).String() != "0/1" {
		t.Error("the zero shard is not the whole")
	}
}

func TestShardFromEnv(t *testing.T) {
	names := []string{"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS"}
	for _, c := range []struct {
		name string
		env  string // values of names, "-" is unset
		want Shard
		fail bool
	}{
		{"no batch system", "- - - - - -", Shard{}, false},
		{"slurm from 0", "3 8 0 7 - -", Shard{3, 8}, false},
		{"slurm from 1", "1 8 1 8 - -", Shard{1, 8}, true},
		{"slurm, tasks 3 and 7 again", "1 2 3 7 - -", Shard{1, 2}, true},
		{"slurm without minimum", "7 8 - - - -", Shard{7, 8}, false},
		{"slurm in steps of 2", "6 4 0 6 - -", Shard{}, true},
		{"slurm without count", "3 - - - - -", Shard{}, true},
		{"kubernetes", "- - - - 2 4", Shard{2, 4}, false},
		{"kubernetes without completions", "- - - - 2 -", Shard{}, true},
		{"not a number", "x 8 0 7 - -", Shard{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, v := range strings.Fields(c.env) {
				t.Setenv(names[i], v)
				if v == "-" {
					unset(t, names[i])
				}
			}
			got, err := ShardFromEnv()
			if (err != nil) != c.fail || err == nil && got != c.want {
				t.Errorf("ShardFromEnv() = %v, %v; want %v, failure %v", got, err, c.want, c.fail)
			}
			if err != nil && !strings.Contains(err.Error(), "hint") {
				t.Errorf("error without a hint: %v", err)
			}
		})
	}
}

// unset removes a variable for one test; t.Setenv before it restores the old value.
func unset(t *testing.T, name string) {
	if err := os.Unsetenv(name); err != nil {
		t.Fatal(err)
	}
}
