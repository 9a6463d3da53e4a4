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

// ServeVariable is set in the environment of processes that Job.Run starts. A program
// that finds it there must call Serve and exit.
const ServeVariable = "SCALEWM_COLLECT_SERVE"

// The messages of the protocol, one JSON value per line. A process receives a setup
// with the data set, then a request for each part, and sends an answer to each
// request.
type (
	setup struct {
		Out  string
		Spec Spec
	}
	request struct{ From, To int }
	answer  struct {
		Rows  int
		Error string `json:",omitempty"`
	}
)

// process is a started process that records parts.
type process struct {
	// ctx kills the process when it ends.
	ctx context.Context
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
	// stderr is what it wrote to standard error.
	stderr bytes.Buffer
}

// start starts a process that simulates and draws on one core.
func (j *Job) start(ctx context.Context) (*process, error) {
	p := &process{ctx: ctx, cmd: j.Spawn(ctx)}
	p.cmd.Env = append(append(p.cmd.Environ(), ServeVariable+"=1", "GOMAXPROCS=1"), j.oneCore...)
	p.cmd.Stderr = &p.stderr
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
	p.enc, p.dec = json.NewEncoder(p.in), json.NewDecoder(bufio.NewReader(out))
	// If the process has ended already, make reports it.
	_ = p.enc.Encode(setup{j.Out, j.Spec})
	return p, nil
}

// make has the process record a part and returns the number of its rows.
func (p *process) make(s *part) (rows int, err error) {
	var a answer
	if err = p.enc.Encode(request{s.From, s.To}); err == nil {
		err = p.dec.Decode(&a)
	}
	if err != nil {
		return 0, fmt.Errorf("a worker process, %s, does not answer: %w (hint: was the program replaced? run the same command again)", p.cmd.Path, err)
	}
	if a.Error != "" {
		return 0, errors.New(a.Error)
	}
	return a.Rows, nil
}

// end closes the process's input, which ends it, and waits. It returns an error if
// the process failed.
func (p *process) end() error {
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		if p.ctx.Err() != nil {
			// The context killed it.
			return p.ctx.Err()
		}
		last := p.stderr.Bytes()
		last = last[max(0, len(last)-200):]
		return fmt.Errorf("a worker process ended: %w: %q (hint: finished parts are kept, run the same command again)", err, last)
	}
	return nil
}

// Serve is the main function of a started process. It records the parts requested on
// in, one at a time, until in ends; that is also the case when the parent process
// dies. A request in progress is then abandoned.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	var o setup
	if err := dec.Decode(&o); err != nil {
		return fmt.Errorf("collecting for another process: %w", err)
	}
	// Read in a goroutine, so that the end of the input cancels a part in progress.
	requests := make(chan request)
	go func() {
		defer cancel()
		for {
			var r request
			if dec.Decode(&r) != nil {
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
		return enc.Encode(answer{Error: err.Error()})
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
			if err := enc.Encode(a); err != nil {
				return err
			}
		}
	}
}

// worker returns the worker for a setup.
func (o setup) worker() (*worker, error) {
	j, err := newJob(o.Out, o.Spec)
	if err != nil {
		return nil, err
	}
	return newWorker(j)
}

// part records and writes a part, and returns the number of its rows.
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
