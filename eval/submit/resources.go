package submit

import (
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"scalewm/eval/pipeline"
)

// Resources are those of one allocation: a task of a Slurm array or a pod. Texts are in
// Slurm's syntax. "" and 0 stand for the default of the batch system.
type Resources struct {
	Partition string `json:"partition,omitempty"` // on Kubernetes a queue of Kueue
	Account   string `json:"account,omitempty"`
	Time      string `json:"time,omitempty"`     // limit, see duration
	Mem       string `json:"mem,omitempty"`      // see quantity
	CPUs      int    `json:"cpus,omitempty"`     // cores
	GPUs      int    `json:"gpus,omitempty"`     // number of GPUs
	Setup     string `json:"setup,omitempty"`    // a line of shell to run before the program
	Extra     string `json:"extra,omitempty"`    // further options for sbatch
	Throttle  int    `json:"throttle,omitempty"` // largest number of concurrent allocations
	Pack      int    `json:"pack,omitempty"`     // concurrent shards in one allocation
}

// Default returns the resources that a stage requests by default.
func Default(stage pipeline.Stage) Resources {
	r := Resources{Time: "04:00:00", Mem: "16G", CPUs: 4, Pack: 1}
	switch stage {
	case pipeline.StageTrain:
		r.Time, r.Mem, r.GPUs = "24:00:00", "32G", 1
	case pipeline.StageEval, pipeline.StageAnalyse:
		r.GPUs = 1
	case pipeline.StageReport:
		r.Time = "01:00:00"
	}
	return r
}

// MaxCount is the limit for shards, cores, GPUs and other numbers of a job. It is the limit
// of Kubernetes for the completions of an Indexed Job.
const MaxCount = 100_000

// check returns a RequestError if the job cannot be submitted to any batch system.
// Texts become lines of scripts, so anything that could change the meaning of other
// lines is rejected.
func (j Job) check() error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"shards", j.Shards}, {"cpus", j.CPUs}, {"gpus", j.GPUs}, {"throttle", j.Throttle}, {"pack", j.Pack}} {
		if n.value < 0 || n.value > MaxCount {
			return pipeline.Requestf("--%s %s:%d is out of range (hint: at most %d)", n.flag, j.Stage, n.value, MaxCount)
		}
	}
	if err := checkNames(map[string]string{"partition": j.Partition, "account": j.Account}); err != nil {
		return err
	}
	for flag, text := range map[string]string{"setup": j.Setup, "extra": j.Extra} {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
			return pipeline.Requestf("--%s %q: it is not a line of text (hint: without control characters; separate commands of the shell by ;)", flag, text)
		}
	}
	// Let bash parse the setup line. If there is no bash, the job will report it.
	if said, err := exec.Command("bash", "-n", "-c", j.Setup).CombinedOutput(); errors.As(err, new(*exec.ExitError)) {
		return pipeline.Requestf("--setup %q: %s (hint: a line that bash can run)", j.Setup, strings.TrimSpace(string(said)))
	}
	if _, err := duration(j.Time); err != nil {
		return err
	}
	_, err := quantity(j.Mem)
	return err
}

// checkNames returns a RequestError if a flag's value is not a valid name in a batch
// system (of a partition, account, image or claim). Empty values are valid.
func checkNames(flags map[string]string) error {
	for flag, name := range flags {
		if strings.Trim(name, pipeline.PlainWord+",") != "" {
			return pipeline.Requestf("--%s %q: not a name in a batch system (hint: letters, digits and -_+=:,./@%%)", flag, name)
		}
	}
	return nil
}

// slurmTime matches days, a dash, and up to three numbers, see duration.
var slurmTime = regexp.MustCompile(`^(?:(\d{1,4})-)?(\d{1,6})(?::(\d{1,6}))?(?::(\d{1,6}))?$`)

// duration parses a time limit in the syntax of Slurm: minutes, minutes:seconds or
// hours:minutes:seconds, or after a number of days and a dash hours, hours:minutes or
// hours:minutes:seconds. "", "0", "infinite" and "unlimited" mean no limit, returned as
// 0.
func duration(text string) (time.Duration, error) {
	if text == "" || strings.EqualFold(text, "infinite") || strings.EqualFold(text, "unlimited") {
		return 0, nil
	}
	f := slurmTime.FindStringSubmatch(text)
	if f == nil {
		return 0, pipeline.Requestf("--time %q: not a time limit as Slurm writes it (hint: 4:00:00 or 1-12)", text)
	}
	var n [4]time.Duration
	for i, s := range f[1:] {
		v, _ := strconv.Atoi(s) // a missing part is "", and becomes 0
		n[i] = time.Duration(v)
	}
	// With days, or with three numbers, the first number is hours, otherwise minutes.
	if f[1] != "" || f[4] != "" {
		return n[0]*24*time.Hour + n[1]*time.Hour + n[2]*time.Minute + n[3]*time.Second, nil
	}
	return n[1]*time.Minute + n[2]*time.Second, nil
}

// slurmMem matches an amount of memory in the syntax of Slurm.
var slurmMem = regexp.MustCompile(`^(\d{1,12})([KMGTkmgt]?)(?:i?[Bb]?)$`)

// quantity converts an amount of memory from the syntax of Slurm to that of Kubernetes.
// Units of Slurm are powers of 1024, and megabytes without a letter. "" and "0" mean
// the default, returned as "".
func quantity(mem string) (string, error) {
	f := slurmMem.FindStringSubmatch(mem)
	switch {
	case mem == "" || mem == "0":
		return "", nil
	case f == nil:
		return "", pipeline.Requestf("--mem %q: not an amount of memory (hint: 16G)", mem)
	case f[2] == "":
		return f[1] + "Mi", nil
	}
	return f[1] + strings.ToUpper(f[2]) + "i", nil
}
