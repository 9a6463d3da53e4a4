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

//go:embed peers/*.py
var peerScripts embed.FS

// peer is a reference Python program that does the work of a part on request. A line on its stdin names
// a variant; it answers with a line of JSON that has the milliseconds.
type peer struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *bytes.Buffer
	hello   peerHello
	dropped map[string]string // variants that failed, and why
}

// peerHello is the first line of a peer.
type peerHello struct {
	Version  string              `json:"version"`
	Variants map[string][]string `json:"variants"` // by the name of our work that they are compared with
	Params   int                 `json:"params"`
}

// peerAnswer is every further line.
type peerAnswer struct {
	MS    float64 `json:"ms"`
	Error string  `json:"error"`
	RSSMB float64 `json:"rss_mb"`
}

// PeerReport is the part of the report about a peer.
type PeerReport struct {
	Version string             `json:"version"`
	MS      map[string]float64 `json:"ms"`
	RSSMB   float64            `json:"rss_mb"`
	Dropped map[string]string  `json:"dropped,omitempty"`
}

// startPeer starts the script of a part. Without --peer it returns nil, whose methods do nothing.
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
		err = p.ask(string(line), &p.hello)
	}
	if err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// benchScripts are the files that, after common.py, form the program of a part.
var benchScripts = map[string][]string{"train": {model.Baseline, "train"}, "plan": {model.Baseline, "plan"}, "load": {"load"}, "env": {"env"}, "latents": {"latents"}}

// peerText returns the program of a part.
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

// ask writes a line and decodes the answer into v.
func (p *peer) ask(line string, v any) error {
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

// died returns an error for a peer that ended, with the last line of its stderr.
func (p *peer) died(err error) error {
	p.kill()
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	return fmt.Errorf("the peer ended: %w: %s (hint: it needs torch and stable-worldmodel; make setup-peers)", err, lines[len(lines)-1])
}

// kill ends a peer immediately.
func (p *peer) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// ofPeer returns the name of a peer's variant among all contenders.
func ofPeer(variant string) string { return "peer " + variant }

// contenders returns the peer's variants that are compared with the named work of ours. A variant that
// fails in a first try, such as torch.compile without a compiler, is left out and reported.
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
			if err := p.ask(name, &a); err != nil {
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

// finish ends the peer and returns its report, with its own times among the medians.
func (p *peer) finish(medians map[string]float64) (*PeerReport, error) {
	if p == nil {
		return nil, nil
	}
	var last peerAnswer
	if err := p.ask("", &last); err != nil {
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

// best returns the time of the peer's fastest variant, 0 if there is none.
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

// of returns the time of the fastest variant that is compared with the named work, 0 if there is none.
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
