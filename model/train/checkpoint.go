package train

import (
	"fmt"
	"math"
	"path/filepath"

	"scalewm/dataset/cell"
	"scalewm/model/weights"
)

// A training's folder holds, beside the last weights that it is known by, those
// of the lowest validation loss and of the last keptSteps resume points: a
// training that diverges late is not lost. Each has a sidecar that says which
// it is, and can be given to any verb by the path of its file.
const (
	bestName  = "best.safetensors"
	keptSteps = 3
)

func stepName(step int) string { return fmt.Sprintf("step-%06d.safetensors", step) }

// checkpoint writes the present weights under name; which is last, best or step.
func (l *loop) checkpoint(name, which string) error {
	side := l.plan.side
	side.Checkpoint, side.Step = which, l.at.step
	if which == "best" {
		side.ValLoss = l.at.best
	}
	return weights.Save(filepath.Join(l.o.Out, name), l.t.model.Tensors(), &side)
}

// keepBest writes the weights if none before had so low a validation loss.
func (l *loop) keepBest(loss float64) error {
	if loss >= l.at.best {
		return nil
	}
	l.at.best = loss
	return l.checkpoint(bestName, "best")
}

// keepStep writes the weights of a resume point and removes the oldest ones.
func (l *loop) keepStep() error {
	if err := l.checkpoint(stepName(l.at.step), "step"); err != nil {
		return err
	}
	old := l.at.step - keptSteps*l.o.Config.SaveEvery
	if old <= 0 {
		return nil
	}
	path := filepath.Join(l.o.Out, stepName(old))
	if err := cell.Remove(weights.SidecarOf(path)); err != nil {
		return err
	}
	return cell.Remove(path)
}

// start is where a training begins.
func start() point { return point{best: math.Inf(1)} }
