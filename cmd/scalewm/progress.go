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
	if screen := terminal(stderr); screen != nil {
		const tmpl = `{{string . "what"}} {{counters . }} {{bar . "[" "=" ">" " " "]"}} {{percent . }} {{rtime . "ETA %s"}} {{string . "note"}}`
		p.bar = pb.ProgressBarTemplate(tmpl).New(0).SetWriter(screen)
		p.bar.Set("what", what)
		p.bar.Start()
	}
	return p
}

// terminal is the terminal that a stream goes to, on which bars are drawn; nil for another file.
func terminal(w io.Writer) *os.File {
	if p, ok := w.(*printed); ok {
		return terminal(p.Writer)
	}
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return f
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

// teller shows how the steps of a pipeline come along: the progress of each on
// stderr and, unless it is quiet, what became of it on stdout.
type teller struct {
	*command
	quiet bool
	mu    sync.Mutex
	step  string // what the progress is of
	show  *progress
}

func (t *teller) Begin(id string, i, n int) { t.step = fmt.Sprintf("[%d/%d] %s", i, n, id) }

func (t *teller) Progress(done, total int64, note string) {
	t.mu.Lock()
	if t.show == nil {
		t.show = newProgress(t.stderr, t.step)
	}
	show := t.show
	t.mu.Unlock()
	show.report(done, total, note)
}

// line ends the progress, into whose bar a line would be written.
func (t *teller) line() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.show != nil {
		t.show.close()
		t.show = nil
	}
}

func (t *teller) Note(text string) {
	t.line()
	fmt.Fprintln(t.stderr, text)
}

func (t *teller) End(id, outcome string) {
	if t.line(); !t.quiet {
		t.say(id, outcome)
	}
}

func (t *teller) Failed(id string, err error) {
	if t.line(); !t.quiet {
		fmt.Fprintf(t.stderr, "%s failed: %v\n", id, err)
	}
}
