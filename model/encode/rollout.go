package encode

import (
	"context"
	"math"
	"slices"

	"scalewm/dataset"
	"scalewm/model"
)

// predict rolls out the actions that follow each row. z holds the latents of the rows
// from row from on, rows x P*D. The result is rows x Blocks*P*D: the k-th group of
// P*D numbers of a row predicts the frame k blocks later. Groups beyond the end of
// the episode are NaN.
func (e *encoder) predict(ctx context.Context, z []float32, from int) ([]float32, error) {
	info := e.World.Info()
	width := info.Patches * info.Dim
	rows := len(z) / width
	actions, err := e.actions(from, min(from+rows+e.Blocks*info.FrameSkip, e.Data.Rows()))
	if err != nil {
		return nil, err
	}
	out := slices.Repeat([]float32{float32(math.NaN())}, len(z)*e.Blocks)
	// model.Predict returns only the latent after the last block, so each number of
	// blocks takes a separate call. In a call all rows have one candidate each, so
	// that E is their number and C is 1.
	for at := 0; at < rows; at += model.EncodeBatch {
		for blocks := 1; blocks <= e.Blocks; blocks++ {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			var which []int // rows whose episode has a frame that many blocks later
			var start, candidates []float32
			for i := at; i < min(at+model.EncodeBatch, rows); i++ {
				if from+i+blocks*info.FrameSkip >= e.end(from+i) {
					continue
				}
				which, start = append(which, i), append(start, z[i*width:(i+1)*width]...)
				candidates = append(candidates, actions[i*info.ActionDim():][:blocks*info.ActionWidth]...)
			}
			if len(which) == 0 {
				break // nor is there one after more blocks
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

// actions returns the scaled actions of rows [from, to), one row of action components
// per env step. The blocks of a row are therefore consecutive in memory.
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

// end returns the row after the last one of the episode that contains row.
func (e *encoder) end(row int) int {
	eps := e.Data.Episodes()
	i, _ := slices.BinarySearchFunc(eps, row, func(ep dataset.Episode, row int) int { return ep.Offset + ep.Len - 1 - row })
	return eps[i].Offset + eps[i].Len
}
