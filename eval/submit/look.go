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

// Queue counts the jobs of the last submission of a results folder by state; none without a batch system.
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
		return out // the controller may be away; the files tell all the same
	}
	counts := map[string]int{}
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
	patience    = 5 * time.Second // with a busy controller
	shownErrors = 5
	logTail     = 4096 // bytes at the end of a log that its last words are looked for in
)

// LastErrors are the last words of the jobs of a results folder that failed, those of the
// latest logs first.
func LastErrors(out string) []string {
	dir := filepath.Join(out, Dir, "log")
	entries, _ := os.ReadDir(dir) // none where nothing was submitted
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

func modTime(e os.DirEntry) time.Time {
	info, err := e.Info()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// lastError is the last line of a log that tells of a failure.
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
