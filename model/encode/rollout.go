package encode

import (
	"context"
	"math"
	"slices"

	"scalewm/dataset"
	"scalewm/model"
)

// predict rolls out the actions that follow rows, from row from on, whose latents are z:
// Blocks predictions a row of P*D numbers each, the k-th of which is of the frame k blocks later.
func (e *encoder) predict(ctx context.Context, z []float32, from int) ([]float32, error) {
	info := e.World.Info()
	width := info.Patches * info.Dim
	rows := len(z) / width
	actions, err := e.actions(from, min(from+rows+e.Blocks*info.FrameSkip, e.Data.Rows()))
	if err != nil {
		return nil, err
	}
	out := slices.Repeat([]float32{float32(math.NaN())}, len(z)*e.Blocks)
	for at := 0; at < rows; at += model.FramesAtOnce {
		for blocks := 1; blocks <= e.Blocks; blocks++ {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			var which []int // rows that have a frame so many blocks later
			var start, candidates []float32
			for i := at; i < min(at+model.FramesAtOnce, rows); i++ {
				if from+i+blocks*info.FrameSkip >= e.end(from+i) {
					continue
				}
				which, start = append(which, i), append(start, z[i*width:(i+1)*width]...)
				candidates = append(candidates, actions[i*info.ActionDim():][:blocks*info.ActionWidth]...)
			}
			if len(which) == 0 {
				break
			}
			end, err := model.Predict(e.World, start, candidates, blocks)
			if err != nil {
				return nil, err
			}
			for k, i := range which {
				copy(out[(i*e.Blocks+blocks-1)*width:], end[k*width:(k+1)*width])
			}
		}
	}
	return out, nil
}

// actions are the scaled actions of rows [from, to).
func (e *encoder) actions(from, to int) ([]float32, error) {
	raw, err := e.Data.Read("action", from, to)
	if err != nil {
		return nil, err
	}
	a := make([]float32, len(raw))
	for i, v := range raw {
		a[i] = float32(e.Actions.Scale(i%e.World.Info().ActionDim(), v))
	}
	return a, nil
}

// end is the row behind the last one of a row's episode.
func (e *encoder) end(row int) int {
	eps := e.Data.Episodes()
	i, _ := slices.BinarySearchFunc(eps, row, func(ep dataset.Episode, row int) int { return ep.Offset + ep.Len - 1 - row })
	return eps[i].Offset + eps[i].Len
}
