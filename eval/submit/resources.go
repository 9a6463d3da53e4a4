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

// Resources are those of one allocation, in the notation of Slurm. "" and 0 mean the batch system's
// defaults.
type Resources struct {
	Partition string `json:"partition,omitempty"`
	Account   string `json:"account,omitempty"`
	Time      string `json:"time,omitempty"`
	Mem       string `json:"mem,omitempty"`
	CPUs      int    `json:"cpus,omitempty"`
	GPUs      int    `json:"gpus,omitempty"`
	Setup     string `json:"setup,omitempty"`    // shell command line to run before the program
	Extra     string `json:"extra,omitempty"`    // further options of the batch system
	Throttle  int    `json:"throttle,omitempty"` // largest number of allocations at once
	Pack      int    `json:"pack,omitempty"`     // parallel shards in one allocation
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

// MaxCount is the limit of shards, cores, GPUs and other counts of a job.
const MaxCount = 100_000 // the limit of completions of an Indexed Job

// check returns a RequestError if a batch system could not accept the job.
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
	if said, err := exec.Command("bash", "-n", "-c", j.Setup).CombinedOutput(); errors.As(err, new(*exec.ExitError)) {
		return pipeline.Requestf("--setup %q: %s (hint: a line that bash can run)", j.Setup, strings.TrimSpace(string(said)))
	}
	if _, err := duration(j.Time); err != nil {
		return err
	}
	_, err := quantity(j.Mem)
	return err
}

// checkNames returns a RequestError if the value of a flag is neither "" nor a possible name of a
// partition, account, image or claim.
func checkNames(flags map[string]string) error {
	for flag, name := range flags {
		if strings.Trim(name, plain+",") != "" {
			return pipeline.Requestf("--%s %q: not a name in a batch system (hint: letters, digits and -_+=:,./@%%)", flag, name)
		}
	}
	return nil
}

var slurmTime = regexp.MustCompile(`^(?:(\d{1,4})-)?(\d{1,6})(?::(\d{1,6}))?(?::(\d{1,6}))?$`)

// duration parses a time limit in Slurm's notation: minutes, minutes:seconds, hours:minutes:seconds,
// days-hours, days-hours:minutes or days-hours:minutes:seconds. "", "0", "infinite" and
// "unlimited" mean no limit, 0.
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
		v, _ := strconv.Atoi(s) // a missing part is 0
		n[i] = time.Duration(v)
	}
	if f[1] != "" || f[4] != "" {
		return n[0]*24*time.Hour + n[1]*time.Hour + n[2]*time.Minute + n[3]*time.Second, nil
	}
	return n[1]*time.Minute + n[2]*time.Second, nil
}

var slurmMem = regexp.MustCompile(`^(\d{1,12})([KMGTkmgt]?)(?:i?[Bb]?)$`)

// quantity converts an amount of memory from Slurm's notation to Kubernetes'. Slurm's units are
// powers of 1024, and megabytes without a letter. "" and "0" mean no limit, "".
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
