package bench

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"scalewm/model"
)

// peerScripts are the Python programs. A part's program is several of them, see peerText.
//
//go:embed peers/*.py
var peerScripts embed.FS

// peer is a running Python program that does the work of a part on request. It stays
// alive between requests, so that imports, compilation and caches are not timed, and so
// that it can alternate with our program. Both sides write one line at a time:
//
//	scalewm   {"model": ..., "threads": 8}          the spec of the work
//	peer      {"version": ..., "variants": {...}}   peerHello
//	scalewm   compile                               the name of a variant
//	peer      {"ms": 12.3}                          or {"error": ...}; peerAnswer
//	...
//	scalewm                                         an empty line ends it
//	peer      {"rss_mb": 812}
type peer struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *bytes.Buffer
	hello   peerHello
	dropped map[string]string // error of each variant that failed
}

// peerHello is the first line that a peer writes.
type peerHello struct {
	Version string `json:"version"`
	// Variants are the names of ways to do the work, by the contender of ours with which
	// they are compared.
	Variants map[string][]string `json:"variants"`
	Params   int                 `json:"params"` // number of parameters of the model; 0 if there is none
}

// peerAnswer is every other line that a peer writes. The last one has its peak memory only.
type peerAnswer struct {
	MS    float64 `json:"ms"`
	Error string  `json:"error"`
	RSSMB float64 `json:"rss_mb"`
}

// PeerReport is the part of a report about a peer.
type PeerReport struct {
	Version string             `json:"version"`
	MS      map[string]float64 `json:"ms"`                // median of each variant
	RSSMB   float64            `json:"rss_mb"`            // peak memory
	Dropped map[string]string  `json:"dropped,omitempty"` // error of each variant that failed
}

// startPeer starts the peer of a part, and sends it the spec of the work as JSON.
// Without a Python interpreter it returns nil. The methods of a nil peer do nothing.
func (b *Bench) startPeer(ctx context.Context, part string, spec any) (*peer, error) {
	if b.Peer == "" {
		return nil, nil
	}
	text, err := peerText(part)
	if err != nil {
		return nil, err
	}
	p := &peer{stderr: &bytes.Buffer{}, dropped: map[string]string{}}
	p.cmd = exec.CommandContext(ctx, b.Peer, "-c", text)
	p.cmd.Stderr = p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting the peer: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the peer: %w", err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the peer: %w (hint: --peer is a Python interpreter; make setup-peers installs one)", err)
	}
	b.Note("starting the peer %s", b.Peer)
	line, err := json.Marshal(spec)
	if err == nil {
		err = p.request(string(line), &p.hello)
	}
	if err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// benchScripts lists the files that follow common.py in the program of each part.
var benchScripts = map[string][]string{"train": {model.Baseline, "train"}, "plan": {model.Baseline, "plan"}, "load": {"load"}, "env": {"env"}, "latents": {"latents"}}

// peerText returns the Python program of a part.
func peerText(part string) (string, error) {
	var text strings.Builder
	for _, name := range append([]string{"common"}, benchScripts[part]...) {
		b, err := peerScripts.ReadFile("peers/" + name + ".py")
		if err != nil {
			return "", fmt.Errorf("starting the peer: %w", err)
		}
		text.Write(b)
	}
	return text.String(), nil
}

// request sends a line, and reads the answer, a line of JSON, into v.
func (p *peer) request(line string, v any) error {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return p.died(err)
	}
	answer, err := p.out.ReadBytes('\n')
	if err != nil {
		return p.died(err)
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("the peer answered %.80q: %w (hint: it must print nothing else)", answer, err)
	}
	return nil
}

// died returns an error that explains a broken pipe by the last line of the peer's
// stderr.
func (p *peer) died(err error) error {
	p.kill()
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	return fmt.Errorf("the peer ended: %w: %s (hint: it needs torch and stable-worldmodel; make setup-peers)", err, lines[len(lines)-1])
}

// kill ends a peer in any state.
func (p *peer) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// ofPeer returns the name of a peer's variant as a contender, which differs from those
// of ours.
func ofPeer(variant string) string { return "peer " + variant }

// contenders returns the variants of the peer that are compared with a contender of
// ours. A variant that fails, such as one to compile without a compiler, is reported
// and not run again: the comparison is with the fastest variant that the machine can
// run. A failure of the program itself is an error.
func (p *peer) contenders(what string) []contender {
	if p == nil {
		return nil
	}
	var all []contender
	for _, name := range p.hello.Variants[what] {
		all = append(all, contender{ofPeer(name), func(context.Context) (float64, error) {
			if p.dropped[name] != "" {
				return 0, nil
			}
			var a peerAnswer
			if err := p.request(name, &a); err != nil {
				return 0, err
			}
			if a.Error != "" {
				p.dropped[name] = a.Error
			}
			return a.MS, nil
		}})
	}
	return all
}

// finish ends the peer, and returns its report with those of the medians that belong to
// it.
func (p *peer) finish(medians map[string]float64) (*PeerReport, error) {
	if p == nil {
		return nil, nil
	}
	var last peerAnswer
	if err := p.request("", &last); err != nil { // an empty line ends the peer
		return nil, err
	}
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		return nil, p.died(err)
	}
	r := &PeerReport{Version: p.hello.Version, MS: map[string]float64{}, RSSMB: last.RSSMB, Dropped: p.dropped}
	for _, names := range p.hello.Variants {
		for _, name := range names {
			if ms, ok := medians[ofPeer(name)]; ok && p.dropped[name] == "" {
				r.MS[name] = ms
			}
		}
	}
	return r, nil
}

// best returns the time of the peer's fastest variant, or 0 if there is none.
func (r *PeerReport) best() float64 {
	if r == nil {
		return 0
	}
	var ms []float64
	for _, v := range r.MS {
		ms = append(ms, v)
	}
	return fastest(ms...)
}

// of returns the time of the fastest variant that is compared with a contender of ours.
func (p *peer) of(r *PeerReport, what string) float64 {
	if p == nil {
		return 0
	}
	var ms []float64
	for _, name := range p.hello.Variants[what] {
		ms = append(ms, r.MS[name])
	}
	return fastest(ms...)
}
