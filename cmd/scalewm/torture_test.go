package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"scalewm/dataset/rng"
)

// The program is disturbed while it fills a folder: it is killed and interrupted at random
// moments, alone and two at a time, its system calls fail, and its disk fills up. Then the
// same command must leave the same folder as an undisturbed run: every file byte for byte,
// and no other.
//
// `go test` runs a small part of this. SCALEWM_TORTURE is the number of kills (`make
// torture`), SCALEWM_TORTURE_SEED selects other moments, and the counts are written to the
// file SCALEWM_TORTURE_JSON. Each trial is a separate test with its own random stream, so
// that -run can repeat it.
const (
	tortureEnv     = "SCALEWM_TORTURE"
	tortureSeedEnv = "SCALEWM_TORTURE_SEED"
	tortureJSONEnv = "SCALEWM_TORTURE_JSON"

	quickKills = 6
	folderEnv  = "SCALEWM_TORTURE_FOLDER" // marks the processes of a trial and those that they start
	hangs      = time.Minute              // a process that runs on so long after a signal
	lingers    = 5 * time.Second          // a worker that outlives so long the process that it works for
)

// stage is a command that fills a folder.
type stage struct {
	name  string
	share float64                   // of the campaign
	args  func(dir string) []string // the command
	base  string                    // folder that it begins with, "" an empty one
	timed *regexp.Regexp            // files that hold measured times

	span  time.Duration     // duration of an undisturbed run; 0 until there was one
	want  map[string]string // what that run left: a digest of each file
	bytes int64             // that it added to what it began with
	calls map[string]int    // system calls of each kind that it made on its folder
}

// torture is a campaign: what it needs, and what it has counted.
type torture struct {
	*testing.T `json:"-"`
	rand       *rand.Rand // of a trial
	stages     []*stage
	shared     string // folder of what trials begin with
	fault      string // the program of testdata/torture/fault.c, "" where there is none

	Seed        string                    `json:"seed"`
	Kills       map[string]map[string]int `json:"kills"`    // by stage and signal: processes ended by it
	Early       int                       `json:"early"`    // of these, ended by INT or TERM before the program listened
	Spared      int                       `json:"spared"`   // processes that had ended before their signal
	Pairs       int                       `json:"pairs"`    // times that two processes were at work on a folder
	Refused     int                       `json:"refused"`  // of these processes, those that said that another is at work
	Faults      map[string]map[string]int `json:"faults"`   // disturbed system calls, by call and by what became of it
	Survived    int                       `json:"survived"` // of these, those in spite of which the command succeeded
	FullDisks   int                       `json:"full_disks"`
	ClocksSet   int                       `json:"clocks_set"` // folders whose dates were changed before the next run
	Reruns      map[string]int            `json:"reruns"`     // by stage: folders that a last run completed and that were compared
	Lost        int                       `json:"lost"`       // files missing or with other bytes after the last run
	Leftovers   int                       `json:"leftovers"`  // files that an undisturbed run does not leave
	Orphans     int                       `json:"orphans"`    // processes that outlived the command
	SlowestStop float64                   `json:"slowest_stop_seconds"`
}

func TestTorture(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	kills, err := strconv.Atoi(cmp.Or(os.Getenv(tortureEnv), strconv.Itoa(quickKills)))
	if err != nil || kills < 1 {
		t.Fatalf("%s=%s: want a number of kills", tortureEnv, os.Getenv(tortureEnv))
	}
	c := &torture{T: t, Seed: cmp.Or(os.Getenv(tortureSeedEnv), "1"), shared: t.TempDir(), Reruns: map[string]int{},
		Kills: map[string]map[string]int{}, Faults: map[string]map[string]int{}}
	untraced, unmounted := c.compileFault(), c.tryMount()
	c.prepare(os.Getenv(tortureEnv) != "")
	c.campaign("kills", kills, c.killTrial, nil)
	c.campaign("faults", max(6, kills/2), c.faultTrial, untraced)
	c.campaign("full disks", max(2, kills/20), c.fullTrial, unmounted)
	c.print()
}

// campaign gives each stage its share of n disturbances. A trial disturbs one folder and
// returns the number of disturbances, which is 0 if the command ended before.
func (c *torture) campaign(name string, n int, trial func(s *stage, i int) int, impossible error) {
	c.part(name, func() {
		if impossible != nil {
			c.Skip(impossible)
		}
		var whole float64
		for _, s := range c.stages {
			whole += s.share
		}
		var due float64 // of the stages so far, beyond what they were given
		for _, s := range c.stages {
			due += float64(n) * s.share / whole
			part := int(math.Round(due))
			due -= float64(part)
			c.part(s.name, func() {
				for i, counted := 0, 0; i < 2*part && counted < part; i++ {
					c.part(strconv.Itoa(i), func() { counted += c.alone(s, i, trial) })
				}
			})
		}
	})
}

// alone runs a trial with its own random stream.
func (c *torture) alone(s *stage, i int, trial func(s *stage, i int) int) (counted int) {
	c.ready(s)
	c.rand = rng.Stream("torture", c.Seed, c.Name())
	counted = trial(s, i)
	if c.Failed() {
		c.Logf("again: %s=%d %s=%s go test -count 1 -timeout 0 -run '^%s$' ./cmd/scalewm", tortureEnv, quickKills, tortureSeedEnv, c.Seed,
			strings.ReplaceAll(c.Name(), "/", "$/^"))
	}
	return counted
}

// part runs a part of the campaign as a separate test.
func (c *torture) part(name string, f func()) {
	whole := c.T
	defer func() { c.T = whole }()
	whole.Run(name, func(t *testing.T) { c.T = t; f() })
}

// Stages.

// prepare makes the inputs of the stages.
func (c *torture) prepare(long bool) {
	preset := []string{"--preset", c.preset()}
	grid := filepath.Join(c.shared, "grid")
	data, run := filepath.Join(grid, "data", "tworoom.h5"), filepath.Join(grid, "train", "tworoom-lewm-s3072")
	collect := func(task string, episodes int) func(string) []string {
		return func(dir string) []string {
			return []string{"collect", task, "--episodes", strconv.Itoa(episodes), "--out", filepath.Join(dir, "data.h5")}
		}
	}
	train := func(method string) func(string) []string {
		return func(dir string) []string {
			return append([]string{"train", "--task", "tworoom", "--method", method, "--data", data, "--out", dir}, preset...)
		}
	}
	reproduce := func(methods string) func(string) []string {
		return func(dir string) []string {
			return append([]string{"reproduce", "--tasks", "tworoom", "--methods", methods, "--out", dir}, preset...)
		}
	}
	c.mustRun(reproduce("lewm,random")(grid)...)
	runFile := regexp.MustCompile(`run\.json$`)
	c.stages = []*stage{
		{name: "collect", share: 12, args: collect("tworoom", 6)},
		{name: "train scale", share: 20, args: train("scale"), timed: runFile},
		{name: "eval", share: 15, timed: runFile, args: func(dir string) []string {
			return []string{"eval", "--task", "tworoom", "--weights", run, "--data", data, "--solver", "all", "--temperature", "stock",
				"--tier", "T4,T5", "--sets", "s101,s102", "--episodes", "2", "--out", dir}
		}},
		{name: "report", share: 8, base: grid, args: func(dir string) []string { return []string{"report", dir} }},
	}
	if long { // every task and method, sets of several shards, and all stages in one command
		c.stages = append(c.stages,
			&stage{name: "train lewm", share: 10, args: train("lewm"), timed: runFile},
			&stage{name: "train aux", share: 10, args: train("aux"), timed: runFile},
			&stage{name: "train gcidm", share: 6, timed: runFile, args: func(dir string) []string {
				return append(train("gcidm")(dir), "--encoder", run, "--feature-cache", "off")
			}},
			&stage{name: "collect pointmaze", share: 6, args: collect("pointmaze", 4)},
			&stage{name: "collect pusht", share: 6, args: collect("pusht", 20)},
			&stage{name: "collect reacher", share: 1.5, args: collect("reacher", 1)},
			&stage{name: "collect cube", share: 0.3, args: collect("cube", 1)},
			&stage{name: "analyse", share: 6, base: grid, timed: runFile, args: func(dir string) []string { return []string{"analyse", "all", dir} }},
			&stage{name: "reproduce", share: 6, timed: regexp.MustCompile(`run\.json$|^report`), args: func(dir string) []string {
				return append(reproduce("lewm,scale,aux,untrained,random")(dir), "--analyses", "all")
			}})
	}
}

// ready records the results and the duration of an undisturbed run of a stage.
func (c *torture) ready(s *stage) {
	if s.span > 0 {
		return
	}
	dir := c.folder(s)
	before, began := size(c.T, dir), time.Now()
	if command := append([]string{"scalewm"}, s.args(dir)...); c.fault == "" {
		c.mustRun(command[1:]...)
	} else {
		p, calls := c.traced(dir, "any", 0, "EIO", command)
		if code, _ := c.end(p); code != exitDone {
			c.Fatalf("%v: exit %d: %s", command, code, p.said.String())
		}
		s.calls = calls
	}
	s.span, s.want, s.bytes = time.Since(began), c.contents(dir, s.timed), size(c.T, dir)-before
	c.Kills[s.name] = map[string]int{}
	c.Logf("%s: %d files in %s when it is let alone", s.name, len(s.want), s.span.Round(time.Millisecond))
}

// preset is the tests' smallest one with fewer frames and more steps, so that kills happen
// between steps.
func (c *torture) preset() string {
	small := strings.NewReplacer("batch = 16", "batch = 4", "episodes = 16", "episodes = 4", "steps = 8", "steps = 100",
		"save_every = 2", "save_every = 10", "log_every = 2", "log_every = 10", "eval_every = 4", "eval_every = 20")
	b, err := os.ReadFile("testdata/tiny.toml")
	path := filepath.Join(c.shared, "preset.toml")
	if err == nil {
		err = os.WriteFile(path, []byte(small.Replace(string(b))), 0o666)
	}
	if err != nil {
		c.Fatal(err)
	}
	return path
}

// command returns the command line of a stage, on one or two cores.
func (c *torture) command(s *stage, dir string) []string {
	words := append([]string{"scalewm"}, s.args(dir)...)
	if s.name != "report" {
		words = append(words, "--workers", strconv.Itoa(1+c.rand.IntN(2)))
	}
	return words
}

func (c *torture) mustRun(args ...string) {
	c.Helper()
	if out, err := exec.Command("scalewm", args...).CombinedOutput(); err != nil {
		c.Fatalf("scalewm %v: %v\n%s", args, err, out)
	}
}

// folder returns a new folder with the inputs of a stage.
func (c *torture) folder(s *stage) string {
	dir := c.TempDir()
	if s.base != "" {
		if err := os.CopyFS(dir, os.DirFS(s.base)); err != nil {
			c.Fatal(err)
		}
	}
	return dir
}

// contents returns a digest of every file below dir, including hidden ones. Of files with
// measured times it only records that they exist.
func (c *torture) contents(dir string, timed *regexp.Regexp) map[string]string {
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		found[name] = "measured"
		if timed == nil || !timed.MatchString(name) {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			// A report suggests commands that name its folder.
			b = bytes.ReplaceAll(b, []byte(dir), []byte("DIR"))
			found[name] = fmt.Sprintf("%x", sha256.Sum256(b))
		}
		return nil
	})
	if err != nil {
		c.Fatal(err)
	}
	return found
}

// size returns the sum of the sizes of all files below dir, each rounded up to 4 KiB.
func size(t *testing.T, dir string) (bytes int64) {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += (info.Size() + 4095) &^ 4095
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// compare reports whether a folder equals that of an undisturbed run, and counts differences.
func (c *torture) compare(s *stage, dir string) (same bool) {
	got := c.contents(dir, s.timed)
	same = maps.Equal(got, s.want)
	for name, sum := range s.want {
		if got[name] != sum {
			c.Lost++
			c.Errorf("%s differs or is missing", name)
		}
	}
	for name := range got {
		if _, ok := s.want[name]; !ok {
			c.Leftovers++
			c.Errorf("%s is left over", name)
		}
	}
	return same
}

// finish runs the command to its end and compares the result.
func (c *torture) finish(s *stage, dir string, history []string) {
	if c.rand.IntN(3) == 0 {
		c.setClock(s, dir)
		history = append(history, "dates changed")
	}
	p := c.start(dir, c.command(s, dir)...)
	code, _ := c.end(p)
	c.Reruns[s.name]++
	if same := c.compare(s, dir); !same || code != exitDone {
		c.Errorf("%s, seed %s, after %s: the last run ends with %d\n%s", s.name, c.Seed, strings.Join(history, "; "), code, p.said.String())
	}
	os.RemoveAll(dir)
}

var startedField = regexp.MustCompile(`"started":"[0-9]{4}`)

// setClock sets the date of every file to a distant year, and the year in every run file. A
// test cannot set the machine's clock, but these are the only places from which a run could
// read the time of earlier ones.
func (c *torture) setClock(s *stage, dir string) {
	c.ClocksSet++
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		date := time.Now().AddDate(c.rand.IntN(21)-10, 0, 0)
		if s.timed != nil && strings.HasSuffix(path, "run.json") {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b = startedField.ReplaceAll(b, fmt.Appendf(nil, `"started":"%d`, date.Year()))
			if err := os.WriteFile(path, b, 0o666); err != nil {
				return err
			}
		}
		return os.Chtimes(path, date, date)
	})
	if err != nil {
		c.Fatal(err)
	}
}

// Processes.

// process is a running command.
type process struct {
	*exec.Cmd
	said  bytes.Buffer
	ended chan struct{}
}

// start runs a command of the program, or of one that runs it.
func (c *torture) start(dir string, words ...string) *process {
	p := &process{Cmd: exec.Command(words[0], words[1:]...), ended: make(chan struct{})}
	p.Stderr = &p.said
	p.Env = append(os.Environ(), folderEnv+"="+dir)
	if err := p.Start(); err != nil {
		c.Fatal(err)
	}
	go func() { p.Wait(); close(p.ended) }()
	return p
}

// end waits for a process, which must not panic, and returns its exit code, or -1 and the
// signal that ended it.
func (c *torture) end(p *process) (code int, by syscall.Signal) {
	<-p.ended
	if said := p.said.String(); strings.Contains(said, "panic: ") || strings.Contains(said, "\ngoroutine ") {
		c.Errorf("%v panics: %s", p.Args, said)
	}
	if status := p.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		by = status.Signal()
	}
	return p.ProcessState.ExitCode(), by
}

// orphans waits until no process of a trial is left, and counts those that stay.
func (c *torture) orphans(dir string) {
	began := time.Now()
	left := ofTrial(dir)
	for ; len(left) > 0 && time.Since(began) < lingers; left = ofTrial(dir) {
		time.Sleep(10 * time.Millisecond)
	}
	if c.Orphans += len(left); len(left) > 0 {
		c.Errorf("processes %v outlive the command by %s", left, lingers)
	}
}

// ofTrial returns the ids of the processes with the mark of a trial in their environment.
func ofTrial(dir string) (ids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(folderEnv+"="+dir+"\x00")) {
			ids = append(ids, filepath.Base(filepath.Dir(path)))
		}
	}
	return ids
}

// Kills.

var signalNames = map[syscall.Signal]string{syscall.SIGKILL: "KILL", syscall.SIGTERM: "TERM", syscall.SIGINT: "INT"}

func (c *torture) killed() (n int) {
	for _, s := range c.stages {
		n += sum(c.Kills[s.name])
	}
	return n
}

func sum(counts map[string]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// killTrial kills a command up to four times on one folder, in half of the trials
// two processes at once.
func (c *torture) killTrial(s *stage, _ int) int {
	dir, atOnce, before := c.folder(s), 1+c.rand.IntN(2), sum(c.Kills[s.name])
	var history []string
	for rounds, whole := 1+c.rand.IntN(4), false; rounds > 0 && !whole; rounds-- {
		c.Pairs += atOnce - 1
		var blows []*blow
		for range atOnce {
			b := c.strike(s, dir)
			blows, history = append(blows, b), append(history, fmt.Sprintf("%s after %s", signalNames[b.signal], b.moment))
		}
		for _, b := range blows {
			whole = c.outcome(s, b, atOnce) || whole
		}
		c.orphans(dir)
	}
	c.finish(s, dir, history)
	return sum(c.Kills[s.name]) - before
}

// blow is a signal sent to a process at a random moment of its run, unless it ends before.
type blow struct {
	*process
	signal syscall.Signal
	moment time.Duration
	over   chan struct{} // the process has ended
	hit    bool          // it was still running at that moment
	stop   time.Duration // from the signal to its end
}

func (c *torture) strike(s *stage, dir string) *blow {
	b := &blow{signal: []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT}[c.rand.IntN(3)],
		moment: time.Duration(c.rand.Float64() * float64(s.span)), over: make(chan struct{})}
	b.process = c.start(dir, c.command(s, dir)...)
	go func() {
		defer close(b.over)
		select {
		case <-b.ended:
			return
		case <-time.After(b.moment):
		}
		began := time.Now()
		b.hit = b.Process.Signal(b.signal) == nil
		select {
		case <-b.ended:
		case <-time.After(hangs):
			b.Process.Kill()
		}
		b.stop = time.Since(began)
	}()
	return b
}

// outcome counts how one of atOnce processes on a folder ended, and reports whether it had
// finished its work.
func (c *torture) outcome(s *stage, b *blow, atOnce int) (whole bool) {
	code, by := c.end(b.process)
	<-b.over
	said := b.said.String()
	switch {
	case b.stop >= hangs:
		c.Errorf("%v goes on after %s", b.Args, signalNames[b.signal])
	case b.hit && (by == b.signal || code == exitInterrupted):
		c.Kills[s.name][signalNames[b.signal]]++
		c.SlowestStop = max(c.SlowestStop, b.stop.Seconds())
		if by != 0 && by != syscall.SIGKILL {
			c.Early++
		}
	case code == exitDone:
		c.Spared++
		return true
	case atOnce > 1 && (strings.Contains(said, "another run is at work") || strings.Contains(said, "by another process")):
		c.Refused++
	default:
		c.Errorf("%v, %s after %s: exit %d, signal %v\n%s", b.Args, signalNames[b.signal], b.moment, code, by, said)
	}
	return false
}

// Faults.

// disturbances lists what may happen to each kind of system call; testdata/torture/fault.c
// explains the words.
var disturbances = map[string][]string{
	"open":   {"ENOSPC", "EIO", "EIO+", "kill"},
	"write":  {"ENOSPC", "ENOSPC+", "EIO", "short", "kill"},
	"sync":   {"ENOSPC", "EIO", "EIO+", "kill"},
	"rename": {"ENOSPC", "EIO", "EIO+", "kill"},
}

// compileFault compiles the program that disturbs system calls, if it can run here.
func (c *torture) compileFault() error {
	fault := filepath.Join(c.shared, "fault")
	if out, err := exec.Command("cc", "-O2", "-o", fault, "testdata/torture/fault.c").CombinedOutput(); err != nil {
		return fmt.Errorf("system calls are disturbed by a program in C, for x86-64 only: %w: %.200s", err, out)
	}
	if out, err := exec.Command(fault, c.shared, fault+".counts", "any", "0", "EIO", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("system calls cannot be traced here: %w: %s", err, out)
	}
	c.fault = fault
	return nil
}

// faultTrial disturbs one system call of a run, or all following ones too.
func (c *torture) faultTrial(s *stage, i int) int {
	kinds := []string{"write", "rename", "open", "sync"}
	kind := kinds[i%len(kinds)]
	if s.calls[kind] == 0 {
		return 0
	}
	n, action := 1+c.rand.IntN(s.calls[kind]), disturbances[kind][c.rand.IntN(len(disturbances[kind]))]
	dir := c.folder(s)
	p, calls := c.traced(dir, kind, n, action, c.command(s, dir))
	code, _ := c.end(p)
	if c.Faults[kind] == nil {
		c.Faults[kind] = map[string]int{}
	}
	hit := min(calls["disturbed"], 1)
	if c.Faults[kind][action] += hit; hit > 0 {
		c.mayFail(s, dir, action, code, p)
	}
	c.orphans(dir)
	c.finish(s, dir, []string{fmt.Sprintf("%s at %s %d", action, kind, n)})
	return hit
}

// traced runs a command, disturbs the n-th call of a kind (0: none), and returns how
// many of each kind there were.
func (c *torture) traced(dir, kind string, n int, action string, command []string) (p *process, calls map[string]int) {
	counts := filepath.Join(c.TempDir(), "counts")
	p = c.start(dir, append([]string{c.fault, dir, counts, kind, strconv.Itoa(n), action}, command...)...)
	<-p.ended
	b, err := os.ReadFile(counts)
	if err == nil {
		err = json.Unmarshal(b, &calls)
	}
	if err != nil {
		c.Fatalf("tracing %v: %v: %s", command, err, p.said.String())
	}
	return p, calls
}

// mayFail checks a disturbed run: it must report what failed, or leave a correct folder.
func (c *torture) mayFail(s *stage, dir, how string, code int, p *process) {
	switch {
	case code == exitDone:
		c.Survived++
		if c.compare(s, dir) {
			return
		}
	case how == "kill", (code == exitFailed || code == exitIncomplete) && strings.Contains(p.said.String(), "scalewm: "):
		return
	}
	c.Errorf("%s: %s: exit %d\n%s", s.name, how, code, p.said.String())
}

// tryMount returns why a disk of a given size cannot be mounted here.
func (c *torture) tryMount() error {
	dir := c.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("a disk of a given size needs root: %w", err)
	}
	return syscall.Unmount(dir, 0)
}

// fullTrial runs a stage on a disk that is too small for it, or nearly so.
func (c *torture) fullTrial(s *stage, _ int) int {
	disk := c.TempDir()
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=1g"); err != nil {
		c.Fatal(err)
	}
	defer syscall.Unmount(disk, 0)
	resize := func(bytes int64) {
		if err := syscall.Mount("none", disk, "", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", bytes)); err != nil {
			c.Fatal(err)
		}
	}
	dir := filepath.Join(disk, "out")
	if err := os.CopyFS(dir, os.DirFS(cmp.Or(s.base, c.TempDir()))); err != nil {
		c.Fatal(err)
	}
	free := int64(c.rand.Float64() * 2 * float64(s.bytes))
	resize(size(c.T, disk) + free)
	p := c.start(dir, c.command(s, dir)...)
	code, _ := c.end(p)
	c.FullDisks++
	c.mayFail(s, dir, fmt.Sprintf("%d bytes of disk", free), code, p)
	resize(1 << 30)
	c.finish(s, dir, []string{fmt.Sprintf("a disk with %d bytes free", free)})
	return 1
}

// print prints the counts as Markdown, and writes them as JSON if a file was given.
func (c *torture) print() {
	c.Logf("seed %s: %d kills and interrupts, %d of them before the program listened; slowest end after one %.1f s", c.Seed, c.killed(), c.Early, c.SlowestStop)
	c.Logf("%d pairs of processes on one folder, %d processes refused since another was at work, %d signals came too late", c.Pairs, c.Refused, c.Spared)
	c.Logf("| stage | KILL | TERM | INT | folders completed and compared |")
	c.Logf("|---|---|---|---|---|")
	for _, s := range c.stages {
		k := c.Kills[s.name]
		c.Logf("| %s | %d | %d | %d | %d |", s.name, k["KILL"], k["TERM"], k["INT"], c.Reruns[s.name])
	}
	c.Logf("| call | what became of it |")
	c.Logf("|---|---|")
	for _, kind := range slices.Sorted(maps.Keys(c.Faults)) {
		var each []string
		for _, action := range disturbances[kind] {
			each = append(each, fmt.Sprintf("%s %d", action, c.Faults[kind][action]))
		}
		c.Logf("| %s | %s |", kind, strings.Join(each, ", "))
	}
	c.Logf("%d disturbed calls did not keep the command from success; %d full disks; dates of %d folders changed", c.Survived, c.FullDisks, c.ClocksSet)
	c.Logf("%d files lost, %d left over, %d orphans", c.Lost, c.Leftovers, c.Orphans)
	if path := os.Getenv(tortureJSONEnv); path != "" {
		b, err := json.MarshalIndent(c, "", "  ")
		if err == nil {
			err = os.WriteFile(path, append(b, '\n'), 0o666)
		}
		if err != nil {
			c.Fatal(err)
		}
	}
}
