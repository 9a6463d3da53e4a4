package submit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"scalewm/dataset/safefile"
)

// Queue returns the number of jobs of the last submission of a results folder by state,
// one line each. It is empty if nothing was submitted, or if the batch system does not
// answer.
func Queue(ctx context.Context, dir string) []string {
	out := []string{}
	if p, err := readPlan(filepath.Join(dir, Dir, planName)); err == nil && p.Kubernetes != nil {
		ctx, stop := context.WithTimeout(ctx, patience)
		defer stop()
		return append(out, p.Kubernetes.queue(ctx)...)
	}
	ids, err := Submitted(dir)
	if err != nil || len(ids) == 0 {
		return out
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	text, err := exec.CommandContext(ctx, "squeue", "--me", "--noheader", "--array", "--format", "%F %j %T").Output()
	if err != nil {
		return out // the controller may be down; progress is read from files
	}
	counts := map[string]int{}
	// Each line is "ID NAME STATE". --array lists the tasks of an array one by one, and %F is
	// the id of the array, which submit.sh recorded.
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && slices.Contains(ids, f[0]) {
			counts[strings.TrimPrefix(f[1], "scalewm-")+" "+strings.ToLower(f[2])]++
		}
	}
	for state, n := range counts {
		out = append(out, fmt.Sprintf("%d %s", n, state))
	}
	slices.Sort(out)
	return out
}

const (
	patience    = 5 * time.Second // time limit for a busy controller to answer
	shownErrors = 5               // number of errors that LastErrors returns at most
	logTail     = 4096            // bytes at the end of a log that are searched for an error
)

// LastErrors returns the last error in each log of the jobs of a results folder, those
// of the latest logs first.
func LastErrors(out string) []string {
	dir := filepath.Join(out, Dir, "log")
	entries, _ := os.ReadDir(dir) // the folder does not exist before a submission
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return modTime(b).Compare(modTime(a)) })
	words := []string{}
	for _, e := range entries {
		if line := lastError(filepath.Join(dir, e.Name())); line != "" {
			if words = append(words, e.Name()+": "+line); len(words) == shownErrors {
				break
			}
		}
	}
	return words
}

// modTime returns the time of the last write, or the zero time if the file is gone.
func modTime(e os.DirEntry) time.Time {
	info, err := e.Info()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// lastError returns the last line of a log that reports a failure, or "".
func lastError(path string) (found string) {
	f, err := safefile.Open(path, safefile.MaxMetrics)
	if err != nil {
		return ""
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		f.Seek(max(0, end-logTail), io.SeekStart)
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, "scalewm: ") || strings.Contains(line, " failed: ") {
			found = line
		}
	}
	return found
}
