package libscalewm

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

// evaluation is an evaluation of a model that the caller runs. It runs on a goroutine and sends
// questions; the caller fetches each with evaluate.next, copies its arrays with
// evaluate.take, and answers with evaluate.give. So the caller's code runs only on the caller's
// thread, and Go never calls back into it.
type evaluation struct {
	model    *external.Model
	question *external.Question // the result of the last evaluate.next, until it is answered
	cancel   context.CancelFunc
	news     chan progress // the latest progress, capacity 1
	ended    chan struct{} // closed when outcome and err are final
	outcome  outcome
	err      error
}

// outcome is the result of an evaluation, in the format of `scalewm eval --json`, with notes.
type outcome struct {
	pipeline.Evaluated
	Notes []string `json:"notes"`
}

// progress is a report of progress.
type progress struct {
	Want  string `json:"want"` // always "progress", which needs no answer
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Note  string `json:"note"`
}

// newEvaluation starts an evaluation: {"model", "task", "data", "out", "rules", ...} gives
// {"handle"}. "model" is an external.Description, "rules" are settings by the keywords of
// results.Settings, "world" is a world that the caller simulates, and the other fields
// correspond to the flags of `scalewm eval`.
func newEvaluation(c call) (any, error) {
	var q struct {
		pipeline.Request
		Model external.Description       `json:"model"`
		World *external.WorldDescription `json:"world"`
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	if q.World != nil {
		task, err := q.World.Task()
		if err != nil {
			return nil, err
		}
		q.Task, q.Unregistered = task.Spec.Name, &task
	}
	for name, value := range map[string]string{"task": q.Task, "data": q.Data, "out": q.Out} {
		if value == "" && (name != "data" || q.World == nil) {
			return nil, fmt.Errorf("evaluating: %s is missing", name)
		}
	}
	// The flag's default is resolved by the command line, which is not involved here.
	if q.Workers < 1 {
		q.Workers = runtime.GOMAXPROCS(0)
	}
	e := &evaluation{news: make(chan progress, 1), ended: make(chan struct{})}
	e.outcome.Notes = []string{} // an empty list in JSON, not null
	run, err := q.Evaluation("", e)
	if err != nil {
		return nil, err
	}
	// The device of the planner; the model itself runs in the caller.
	dev, err := cpu.New(cpu.Options{Precision: device.FP32})
	if err != nil {
		return nil, err
	}
	// The evaluation outlives this call; close cancels it.
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	who := pipeline.Subject{Name: q.Model.Name}
	if e.model, who.Arm, who.Agent, err = external.New(ctx, dev, q.Model, run.Task.Spec.ActionDim, run.Steps()); err != nil {
		cancel()
		return nil, errors.Join(err, dev.Close())
	}
	if q.World != nil {
		run.World = e.model.World(*q.World)
	}
	// recoverTo runs before ended is closed, so err is set when next sees the end.
	go func() {
		defer close(e.ended)
		defer recoverTo(&e.err)
		defer dev.Close()
		e.outcome.Evaluated, e.err = run.Run(ctx, who)
	}()
	return map[string]uint64{"handle": objects.add(e)}, nil
}

// Begin, Progress, Note, End and Failed implement pipeline.Listener. Only the latest progress
// is kept.
func (e *evaluation) Begin(string, int, int) {}

func (e *evaluation) Progress(done, total int64, note string) { publish(e.news, done, total, note) }

// publish replaces the progress in news. It never blocks: the evaluation must not wait for a
// caller that does not request progress.
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

// next waits for the next request of the evaluation: an external.Question, {"want":
// "progress"}, or {"want": "done", "outcome"}.
func (e *evaluation) next(c call) (answer any, again bool, err error) {
	if e.question != nil {
		return nil, false, fmt.Errorf("the question %q has not been answered yet", e.question.Call)
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
	// Nothing to report: let the caller handle signals, and repeat the call.
	case <-time.After(slice):
		return nil, true, nil
	}
}

// take copies the arrays of the last question to the buffers, one per array.
func (e *evaluation) take(c call) (again bool, err error) {
	if e.question == nil || len(c.buffers) != len(e.question.In) {
		return false, fmt.Errorf("%d buffers for the arrays of a question (hint: see the answer of evaluate.next)", len(c.buffers))
	}
	for i, a := range e.question.In {
		if err := fits(c.buffers[i], len(a.Bytes), e.question.Call); err != nil {
			return false, err
		}
		// The arrays stay valid until the question is answered.
		copy(c.buffers[i], a.Bytes)
	}
	return false, nil
}

// give answers the last question with buffers: none if the question needs no answer, one for
// a model's, and one for each array of a world's.
func (e *evaluation) give(c call) (again bool, err error) {
	if e.question == nil {
		return false, errors.New("there is no question to answer (hint: see the answer of evaluate.next)")
	}
	if err := e.model.Answer(e.question, c.buffers...); err != nil {
		return false, err
	}
	e.question = nil
	return false, nil
}

// close cancels the evaluation. Cells that are complete stay in the results folder.
func (e *evaluation) close() error {
	e.cancel()
	return nil
}
