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

// Resources of one allocation, in the words of the batch system; "" and 0 are its defaults.
type Resources struct {
	Partition string `json:"partition,omitempty"`
	Account   string `json:"account,omitempty"`
	Time      string `json:"time,omitempty"`
	Mem       string `json:"mem,omitempty"`
	CPUs      int    `json:"cpus,omitempty"`
	GPUs      int    `json:"gpus,omitempty"`
	Setup     string `json:"setup,omitempty"`    // a line of shell before the program
	Extra     string `json:"extra,omitempty"`    // further options of the batch system
	Throttle  int    `json:"throttle,omitempty"` // allocations at once
	Pack      int    `json:"pack,omitempty"`     // shards side by side in one allocation
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

// MaxCount bounds shards, cores, GPUs and whatever else a job has a number of.
const MaxCount = 100_000 // completions of an Indexed Job of Kubernetes

// check returns a RequestError if a batch system could not take the job as it is.
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

// checkNames returns a RequestError if the value of a flag is not "" and no name in a batch system: of a
// partition, an account, an image, a claim.
func checkNames(flags map[string]string) error {
	for flag, name := range flags {
		if strings.Trim(name, plain+",") != "" {
			return pipeline.Requestf("--%s %q: not a name in a batch system (hint: letters, digits and -_+=:,./@%%)", flag, name)
		}
	}
	return nil
}

var slurmTime = regexp.MustCompile(`^(?:(\d{1,4})-)?(\d{1,6})(?::(\d{1,6}))?(?::(\d{1,6}))?$`)

// duration reads a time limit as Slurm writes it: minutes, minutes:seconds, hours:minutes:seconds,
// each of them after days and a dash, days-hours. "", "0", "infinite" and "unlimited" are none.
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
		v, _ := strconv.Atoi(s) // a part that is missing is 0
		n[i] = time.Duration(v)
	}
	if f[1] != "" || f[4] != "" {
		return n[0]*24*time.Hour + n[1]*time.Hour + n[2]*time.Minute + n[3]*time.Second, nil
	}
	return n[1]*time.Minute + n[2]*time.Second, nil
}

var slurmMem = regexp.MustCompile(`^(\d{1,12})([KMGTkmgt]?)(?:i?[Bb]?)$`)

// quantity converts an amount of memory of Slurm's, whose units are powers of 1024 and megabytes without a
// letter, into one of Kubernetes'. "" and "0" are none.
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
