package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/cheggaaa/pb/v3"
)

// progress shows long work on stderr: a bar on a terminal, else a line every
// half minute. Libraries know only the func it hands out.
type progress struct {
	mu      sync.Mutex
	w       io.Writer
	what    string
	bar     *pb.ProgressBar
	started time.Time
	last    time.Time
}

// newProgress starts showing `what`; call report with (done, total, note) and close at the end.
func newProgress(stderr io.Writer, what string) *progress {
	p := &progress{w: stderr, what: what, started: time.Now(), last: time.Now()}
	if f, ok := stderr.(*os.File); ok && isTerminal(f) {
		const tmpl = `{{string . "what"}} {{counters . }} {{bar . "[" "=" ">" " " "]"}} {{percent . }} {{rtime . "ETA %s"}} {{string . "note"}}`
		p.bar = pb.ProgressBarTemplate(tmpl).New(0).SetWriter(stderr)
		p.bar.Set("what", what)
		p.bar.Start()
	}
	return p
}

func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// report may be called from any goroutine.
func (p *progress) report(done, total int64, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.SetTotal(total).SetCurrent(done).Set("note", note)
		return
	}
	if now := time.Now(); now.Sub(p.last) >= 30*time.Second {
		p.last = now
		fmt.Fprintf(p.w, "%s %d/%d after %s %s\n", p.what, done, total, now.Sub(p.started).Round(time.Second), note)
	}
}

func (p *progress) close() {
	if p.bar != nil {
		p.bar.Finish()
	}
}
