// Command testsum runs `go test` with its own arguments, prints the lines that
// go test prints (one for each package, and the output of failed tests) and ends
// with the list of skipped tests and why: a skip that nobody sees is a hole in
// the suite. It knows nothing of the program it tests.
//
// After -noskip, its first argument, a skipped test is a failure, and so is a
// package of which no test was run.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sort"
	"strings"
)

func main() {
	args := os.Args[1:]
	noSkip := len(args) > 0 && args[0] == "-noskip"
	if noSkip {
		args = args[1:]
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum: starting go test:", err)
		os.Exit(1)
	}
	s := newSummary(os.Stdout)
	readErr := s.read(out)
	err = cmd.Wait()
	s.printSkips()
	if noSkip {
		s.refuseSkips()
	}
	if err != nil || readErr != nil || s.failed {
		os.Exit(1)
	}
}

// helper begins the reason of a test that another test runs in a process of its
// own; such a skip is no hole.
const helper = "helper process"

// event is a line of `go test -json` (see `go doc test2json`).
type event struct {
	Action, Package, Test, Output string
}

// name identifies a test, or a package where test is "".
type name struct{ pkg, test string }

type skip struct {
	name
	reason string
}

// summary turns events back into go test's usual lines and collects skips.
type summary struct {
	w      io.Writer
	output map[name]*strings.Builder // of tests that have not ended
	skips  []skip
	ran    map[string]bool // by package: whether a test of it passed or failed
	failed bool
}

func newSummary(w io.Writer) *summary {
	return &summary{w: w, output: map[name]*strings.Builder{}, ran: map[string]bool{}}
}

// read handles events until r ends. A line that is no event is passed on as it is.
func (s *summary) read(r io.Reader) error {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		var e event
		if len(line) > 0 && json.Unmarshal(line, &e) == nil {
			s.handle(e)
		} else if len(line) > 0 {
			fmt.Fprintf(s.w, "%s", line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the events of go test: %w", err)
		}
	}
}

func (s *summary) handle(e event) {
	n := name{e.Package, e.Test}
	if e.Package != "" {
		s.ran[e.Package] = s.ran[e.Package] || e.Test != "" && (e.Action == "pass" || e.Action == "fail")
	}
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.w, e.Output)
	case "output":
		s.keep(n, e.Output)
	case "pass":
		delete(s.output, n)
	case "skip":
		if why := reason(s.text(n)); e.Test != "" && !strings.HasPrefix(why, helper) {
			s.skips = append(s.skips, skip{n, why})
		}
		delete(s.output, n)
	case "fail":
		s.failed = true
		fmt.Fprint(s.w, s.text(n))
		delete(s.output, n)
		if e.Test == "" {
			s.flush(e.Package)
		}
	}
}

// flush prints what the unfinished tests of a package said: when a test binary
// dies, go test reports the package only.
func (s *summary) flush(pkg string) {
	var left []name
	for n := range s.output {
		if n.pkg == pkg {
			left = append(left, n)
		}
	}
	sort.Slice(left, func(i, j int) bool { return left[i].test < left[j].test })
	for _, n := range left {
		fmt.Fprint(s.w, s.text(n))
		delete(s.output, n)
	}
}

// keep prints a package's own line at once and keeps a test's output until its
// verdict is known.
func (s *summary) keep(n name, out string) {
	if n.test == "" {
		if out != "PASS\n" {
			fmt.Fprint(s.w, out)
		}
		return
	}
	if s.output[n] == nil {
		s.output[n] = &strings.Builder{}
	}
	s.output[n].WriteString(out)
}

func (s *summary) text(n name) string {
	if b := s.output[n]; b != nil {
		return b.String()
	}
	return ""
}

// reason is what a skipped test said, without the place in the source.
func reason(output string) string {
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		if _, said, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok := strings.Cut(said, ": "); ok {
				return text
			}
		}
		return line
	}
	return "no reason given"
}

// printSkips lists skipped tests under their reasons.
func (s *summary) printSkips() {
	if len(s.skips) == 0 {
		fmt.Fprintln(s.w, "\nno test was skipped")
		return
	}
	byReason := map[string][]string{}
	for _, k := range s.skips {
		byReason[k.reason] = append(byReason[k.reason], k.pkg+" "+k.test)
	}
	var reasons []string
	for r := range byReason {
		reasons = append(reasons, r)
	}
	sort.Strings(reasons)
	fmt.Fprintf(s.w, "\nskipped tests: %d\n", len(s.skips))
	for _, r := range reasons {
		fmt.Fprintf(s.w, "  %s\n    %s\n", r, strings.Join(byReason[r], "\n    "))
	}
}

// refuseSkips fails the run for skipped tests and for packages of which none ran.
func (s *summary) refuseSkips() {
	s.failed = s.failed || len(s.skips) > 0
	for _, pkg := range slices.Sorted(maps.Keys(s.ran)) {
		if !s.ran[pkg] {
			s.failed = true
			fmt.Fprintf(s.w, "no test of %s was run\n", pkg)
		}
	}
}
