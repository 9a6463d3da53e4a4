package collect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// ServeVariable is set in the environment of processes that Job.Run starts: a
// program that finds it there calls Serve and ends.
const ServeVariable = "SCALEWM_COLLECT_SERVE"

// What a process is told, line by line: which data set, then parts, one after the
// answer to the one before.
type (
	order struct {
		Out  string
		Spec Spec
	}
	request struct{ From, To int }
	answer  struct {
		Rows  int
		Error string `json:",omitempty"`
	}
)

// process makes parts for this one.
type process struct {
	ctx  context.Context // that kills it
	cmd  *exec.Cmd
	in   io.WriteCloser
	tell *json.Encoder
	hear *json.Decoder
	said bytes.Buffer // what it wrote to standard error
}

// start runs a process that draws on one core.
func (j *Job) start(ctx context.Context) (*process, error) {
	p := &process{ctx: ctx, cmd: j.Spawn(ctx)}
	p.cmd.Env = append(append(p.cmd.Environ(), ServeVariable+"=1", "GOMAXPROCS=1"), j.oneCore...)
	p.cmd.Stderr = &p.said
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting a worker process: %w (hint: was the program moved? run the same command again)", err)
	}
	p.tell, p.hear = json.NewEncoder(p.in), json.NewDecoder(bufio.NewReader(out))
	_ = p.tell.Encode(order{j.Out, j.Spec}) // of one that ended at once make says so
	return p, nil
}

// make asks the process for a part and counts the part's rows.
func (p *process) make(s *part) (rows int, err error) {
	var a answer
	if err = p.tell.Encode(request{s.From, s.To}); err == nil {
		err = p.hear.Decode(&a)
	}
	if err != nil {
		return 0, fmt.Errorf("a worker process, %s, does not answer: %w (hint: was the program replaced? run the same command again)", p.cmd.Path, err)
	}
	if a.Error != "" {
		return 0, errors.New(a.Error)
	}
	return a.Rows, nil
}

// end lets the process end; the error says why, if it did not end by itself.
func (p *process) end() error {
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		if p.ctx.Err() != nil {
			return p.ctx.Err() // which killed it
		}
		last := p.said.Bytes()
		last = last[max(0, len(last)-200):]
		return fmt.Errorf("a worker process ended: %w: %q (hint: finished parts are kept, run the same command again)", err, last)
	}
	return nil
}

// Serve runs in the started process: it makes the parts that in asks for until in
// ends, which it also does when the asking process dies.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask, tell := json.NewDecoder(in), json.NewEncoder(out)
	var o order
	if err := ask.Decode(&o); err != nil {
		return fmt.Errorf("collecting for another process: %w", err)
	}
	requests := make(chan request)
	go func() {
		defer cancel()
		for {
			var r request
			if ask.Decode(&r) != nil {
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	w, err := o.worker()
	if err != nil {
		return tell.Encode(answer{Error: err.Error()})
	}
	defer w.close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-requests:
			rows, err := w.part(ctx, r)
			a := answer{Rows: rows}
			if err != nil {
				a.Error = err.Error()
			}
			if err := tell.Encode(a); err != nil {
				return err
			}
		}
	}
}

func (o order) worker() (*worker, error) {
	j, err := newJob(o.Out, o.Spec)
	if err != nil {
		return nil, err
	}
	return newWorker(j)
}

// part makes and writes one.
func (w *worker) part(ctx context.Context, r request) (rows int, err error) {
	s, err := w.job.part(r.From, r.To)
	if err != nil {
		return 0, err
	}
	var eps []episode
	for i := s.From; i < s.To; i++ {
		e, err := w.record(ctx, i)
		if err != nil {
			return 0, err
		}
		rows += e.rows
		eps = append(eps, e)
	}
	return rows, writePart(s.path, w.job.columns, eps)
}
