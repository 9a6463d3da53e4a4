package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"scalewm/eval/external"
	"scalewm/eval/pipeline"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// evaluation runs beside its caller, who owns the model and is asked for what the model says.
type evaluation struct {
	model    *external.Model
	question *external.Question // by the caller's last evaluate.next, and not yet answered
	cancel   context.CancelFunc
	news     chan progress
	ended    chan struct{}
	outcome  outcome
	err      error
}

// outcome is what an evaluation leaves, as `scalewm eval --json` prints it, and its notes.
type outcome struct {
	pipeline.Evaluated
	Notes []string `json:"notes"`
}

// progress is a note of how far it has come.
type progress struct {
	Want  string `json:"want"` // "progress": nothing
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Note  string `json:"note"`
}

// newEvaluation begins an evaluation: {"model", "task", "data", "out", "rules", ...} gives {"handle"}.
// "model" is external.Says, the rest the flags of `scalewm eval`, "rules" those of results.Settings by their keywords.
func newEvaluation(c call) (any, error) {
	var q struct {
		pipeline.Request
		Model external.Says `json:"model"`
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"task": q.Task, "data": q.Data, "out": q.Out} {
		if value == "" {
			return nil, fmt.Errorf("evaluating: no %s is given", name)
		}
	}
	if q.Workers < 1 {
		q.Workers = runtime.GOMAXPROCS(0)
	}
	e := &evaluation{news: make(chan progress, 1), ended: make(chan struct{})}
	e.outcome.Notes = []string{} // in JSON an empty list, never null
	run, err := q.Evaluation("", e)
	if err != nil {
		return nil, err
	}
	dev, err := cpu.New(cpu.Options{Precision: device.FP32})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	who := pipeline.Subject{Name: q.Model.Name}
	if e.model, who.Arm, who.Agent, err = external.New(ctx, dev, q.Model, run.Task.Spec.ActionDim); err != nil {
		cancel()
		return nil, errors.Join(err, dev.Close())
	}
	go func() {
		defer close(e.ended)
		defer recoverTo(&e.err)
		defer dev.Close()
		e.outcome.Evaluated, e.err = run.Run(ctx, who)
	}()
	return map[string]uint64{"handle": objects.add(e)}, nil
}

// Begin, Progress, Note, End and Failed implement pipeline.Listener. Of progress the newest counts.
func (e *evaluation) Begin(string, int, int) {}

func (e *evaluation) Progress(done, total int64, note string) { publish(e.news, done, total, note) }

// tell leaves progress for whoever asks next, in place of what nobody has asked for.
func publish(news chan progress, done, total int64, note string) {
	select {
	case <-news:
	default:
	}
	select {
	case news <- progress{"progress", done, total, note}:
	default:
	}
}

func (e *evaluation) Note(text string)     { e.outcome.Notes = append(e.outcome.Notes, text) }
func (e *evaluation) End(string, string)   {}
func (e *evaluation) Failed(string, error) {}

// next waits for what the evaluation wants: an external.Question, {"want": "progress"}, or
// {"want": "done", "outcome"}.
func (e *evaluation) next(c call) (answer any, again bool, err error) {
	if e.question != nil {
		return nil, false, fmt.Errorf("the question %q is not answered yet", e.question.Want)
	}
	select {
	case e.question = <-e.model.Questions():
		return e.question, false, nil
	case p := <-e.news:
		return p, false, nil
	case <-e.ended:
		if e.err != nil {
			return nil, false, e.err
		}
		return map[string]any{"want": "done", "outcome": e.outcome}, false, nil
	case <-time.After(slice):
		return nil, true, nil
	}
}

// take copies the arrays of the last question to buffers, one for each.
func (e *evaluation) take(c call) (again bool, err error) {
	if e.question == nil || len(c.buffers) != len(e.question.In) {
		return false, fmt.Errorf("%d buffers for the arrays of a question (hint: evaluate.next says which)", len(c.buffers))
	}
	for i, a := range e.question.In {
		if err := fits(c.buffers[i], len(a.Bytes), e.question.Want); err != nil {
			return false, err
		}
		copy(c.buffers[i], a.Bytes)
	}
	return false, nil
}

// give answers the last question with a buffer; one that asks for nothing, with none.
func (e *evaluation) give(c call) (again bool, err error) {
	if e.question == nil || len(c.buffers) > 1 {
		return false, fmt.Errorf("%d buffers as the answer to a question (hint: evaluate.next says what is asked)", len(c.buffers))
	}
	var answer []byte
	if len(c.buffers) == 1 {
		answer = c.buffers[0]
	}
	if err := e.model.Answer(e.question, answer); err != nil {
		return false, err
	}
	e.question = nil
	return false, nil
}

// close ends the evaluation, which keeps the cells that are done.
func (e *evaluation) close() error {
	e.cancel()
	return nil
}
