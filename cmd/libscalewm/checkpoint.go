package libscalewm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"scalewm/eval"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
)

// checkpoint is a trained model on the CPU, for latents, predictions and costs.
type checkpoint struct {
	world   model.World
	encoder *model.Encoder
	dev     device.Device
	info    model.Info
	at      int // number of frames or candidates done by the call in progress
}

// Numbers of frames and of candidates computed between two checks of the time.
const (
	framesAtOnce     = 16
	candidatesAtOnce = 128
)

// loadCheckpoint loads a checkpoint: {"path", "key", "threads"} gives {"handle"} and its description.
func loadCheckpoint(c call) (any, error) {
	var q struct {
		Path    string `json:"path"`
		Key     string `json:"key"`     // of the model in a file with several
		Threads int    `json:"threads"` // 0 means one per core
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	if q.Threads < 0 {
		return nil, fmt.Errorf("loading %s: %d threads (hint: 0 means one per core)", q.Path, q.Threads)
	}
	dev, err := cpu.New(cpu.Options{Precision: device.FP32, Threads: q.Threads})
	if err != nil {
		return nil, err
	}
	world, side, err := model.Load(dev, q.Path, q.Key)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	// The handle owns world, encoder and device from here on; close frees them.
	m := &checkpoint{world: world, encoder: model.NewEncoder(world), dev: dev, info: world.Info()}
	_, policy := world.(model.Actor)
	return map[string]any{"handle": objects.add(m), "info": m.info, "policy": policy, "method": side.Method, "task": side.Task, "train_seed": side.Seed,
		"weights": side.SHA256, "action_mean": side.ActionMean, "action_std": side.ActionStd, "notes": append([]string{}, side.Notes...)}, nil
}

// latent returns the number of values in a latent.
func (m *checkpoint) latent() int { return m.info.Patches * m.info.Dim }

// inSlices processes n items of a long call in pieces until the time slice is over. piece(from)
// processes items from index from and returns how many. m.at keeps the position across
// slices.
func (m *checkpoint) inSlices(c call, n int, piece func(from int) (done int, err error)) (again bool, err error) {
	if !c.more {
		m.at = 0
	}
	for began := time.Now(); m.at < n && time.Since(began) < slice; {
		done, err := piece(m.at)
		if err != nil {
			return false, err
		}
		m.at += done
	}
	return m.at < n, nil
}

// encode computes latents (n, P, D) float32 from frames (n, S, S, 3) uint8.
func (m *checkpoint) encode(c call) (again bool, err error) {
	if len(c.buffers) != 2 || len(c.buffers[0])%m.info.FrameBytes() != 0 {
		return false, fmt.Errorf("encoding: frames must be uint8 of shape (n, %d, %d, 3)", m.info.FrameSize, m.info.FrameSize)
	}
	frames, size := c.buffers[0], m.info.FrameBytes()
	n := len(frames) / size
	out, err := typed[float32](c.buffers[1], n*m.latent(), "latents")
	if err != nil {
		return false, err
	}
	return m.inSlices(c, n, func(from int) (int, error) {
		k := min(framesAtOnce, n-from)
		// No context is needed: a slice is short.
		return k, m.encoder.Latents(context.Background(), out[from*m.latent():(from+k)*m.latent()], frames[from*size:(from+k)*size])
	})
}

// act computes z-scored actions (n, A) float32 from frames and goals (n, S, S, 3) uint8 and
// the env steps left, (n) int64.
func (m *checkpoint) act(c call) (again bool, err error) {
	actor, ok := m.world.(model.Actor)
	switch size := m.info.FrameBytes(); {
	case !ok:
		return false, errors.New("acting: the checkpoint is a world model, not a policy (hint: evaluate plans with it, or train a policy on its latents)")
	case len(c.buffers) != 4 || len(c.buffers[0])%size != 0 || len(c.buffers[0]) != len(c.buffers[1]):
		return false, fmt.Errorf("acting: frames and goals must be uint8 of shape (n, %d, %d, 3)", m.info.FrameSize, m.info.FrameSize)
	}
	size := m.info.FrameBytes()
	n, a := len(c.buffers[0])/size, m.info.ActionDim()
	left, err := typed[int64](c.buffers[2], n, "env steps left")
	if err != nil {
		return false, err
	}
	out, err := typed[float32](c.buffers[3], n*a, "actions")
	if err != nil {
		return false, err
	}
	policy := eval.NewAmortised(actor, false)
	defer policy.Close()
	return m.inSlices(c, n, func(from int) (int, error) {
		k := min(framesAtOnce, n-from)
		o := eval.Observation{Frames: c.buffers[0][from*size : (from+k)*size], Goals: c.buffers[1][from*size : (from+k)*size]}
		for i := range k {
			o.IDs, o.Left = append(o.IDs, from+i), append(o.Left, int(left[from+i]))
		}
		z, err := policy.Act(context.Background(), o)
		copy(out[from*a:], z)
		return k, err
	})
}

// rollout predicts: {"episodes", "candidates", "blocks"}, with float32 buffers start (E, P, D),
// candidates (E, C, H, A) and the result, the latents after the last block (E, C, P, D). With
// four buffers, the third is goals (E, P, D) and the result is costs (E, C).
func (m *checkpoint) rollout(c call) (again bool, err error) {
	var q struct{ Episodes, Candidates, Blocks int }
	if err := c.read(&q); err != nil {
		return false, err
	}
	const most = 1 << 20 // keeps the products below from overflowing
	if q.Episodes < 1 || q.Candidates < 1 || q.Blocks < 1 || max(q.Episodes, q.Candidates, q.Blocks) > most {
		return false, fmt.Errorf("predicting %d episodes, %d candidates, %d blocks (hint: at least one of each)", q.Episodes, q.Candidates, q.Blocks)
	}
	if len(c.buffers) != 3 && len(c.buffers) != 4 {
		return false, fmt.Errorf("predicting: %d buffers", len(c.buffers))
	}
	// plan is the number of values in one candidate.
	all, plan, costs := q.Episodes*q.Candidates, q.Blocks*m.info.ActionWidth, len(c.buffers) == 4
	start, err1 := c.finite(0, q.Episodes*m.latent(), "start")
	actions, err2 := c.finite(1, all*plan, "candidates")
	var goals []float32
	var err3 error
	// each is the number of values in the result of one candidate.
	each := m.latent()
	if costs {
		each = 1
		goals, err3 = c.finite(2, q.Episodes*m.latent(), "goals")
	}
	out, err4 := typed[float32](c.buffers[len(c.buffers)-1], all*each, "what is predicted")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return false, err
	}
	// A piece contains candidates of one episode only, since Costs and Predict take one start.
	return m.inSlices(c, all, func(from int) (k int, err error) {
		e := from / q.Candidates
		k = min(candidatesAtOnce, (e+1)*q.Candidates-from)
		of := func(x []float32) []float32 { return x[e*m.latent() : (e+1)*m.latent()] } // the episode's part
		// The candidates of this piece.
		some, values := actions[from*plan:(from+k)*plan], []float32(nil)
		if costs {
			values, err = model.Costs(m.world, of(start), some, of(goals), q.Blocks)
		} else {
			values, err = model.Predict(m.world, of(start), some, q.Blocks)
		}
		copy(out[from*each:], values)
		return k, err
	})
}

// finite returns a buffer as float32 numbers. In the first slice of a call it checks that they
// are finite.
func (c call) finite(buffer, n int, what string) ([]float32, error) {
	v, err := typed[float32](c.buffers[buffer], n, what)
	if c.more {
		return v, err
	}
	for i, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return nil, fmt.Errorf("%s: number %d is %v (hint: latents and z-scored actions are finite)", what, i, x)
		}
	}
	return v, err
}

// close frees the model.
func (m *checkpoint) close() error {
	m.encoder.Free()
	m.world.Free()
	return m.dev.Close()
}
