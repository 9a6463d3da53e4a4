//go:build gpu

package gpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRehearsal runs the script of the day with a GPU at toy sizes on the emulated
// driver (make gpu-day-rehearsal).
func TestRehearsal(t *testing.T) {
	script := os.Getenv("SCALEWM_GPU_DAY")
	if script == "" {
		t.Skip("make gpu-day-rehearsal runs it")
	}
	open(t).Close()
	for _, c := range []struct {
		call   string
		stages []string // that must succeed; PyTorch, ncu and compute-sanitizer may be missing
	}{
		{"one", []string{"doctor", "start", "bench", "kernels", "checks", "plain", "ampere", "frames"}},
		{"two", []string{"collect", "lewm", "eval_lewm", "scale", "eval_scale", "eval_random", "report"}},
		{"three", []string{"bits_a", "bits_b"}},
	} {
		t.Run(c.call, func(t *testing.T) {
			out := t.TempDir()
			cmd := exec.Command(script, c.call)
			cmd.Env = append(os.Environ(), "OUT="+out, "REHEARSE=1", "LIMIT=3600")
			text, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			summary, err := os.ReadFile(filepath.Join(out, "summary.txt"))
			if err != nil {
				t.Fatal(err)
			}
			for _, stage := range c.stages {
				if !strings.Contains(string(summary), "\n"+stage+": exit 0,") {
					t.Errorf("stage %s failed: %s", stage, text)
				}
			}
			t.Logf("%s", summary)
		})
	}
}
