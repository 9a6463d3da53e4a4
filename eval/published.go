package eval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"scalewm/dataset/parallel"
	"scalewm/envs"
)

// authorsEpisode is an episode of a set in the files of the paper's authors. The order of
// its fields is that of their JSON.
type authorsEpisode struct {
	EnvSeed    int `json:"env_seed"`
	Episode    int `json:"episode_id"`
	Goal       int `json:"goal_idx"`
	Start      int `json:"start_idx"`
	Trajectory int `json:"traj_id"`
}

// AuthorsHash returns the hash that the authors' result files have for the set of a seed:
// the first 12 hex digits of the SHA-256 of the set's file, which their gen_episodes.py
// writes (docs/sources.md#published-set-hashes).
func AuthorsHash(seed, goalOffset int, starts []Start) string {
	file := struct {
		Episodes   []authorsEpisode `json:"episodes"`
		GoalOffset int              `json:"goal_offset"`
		Seed       int              `json:"seed"`
	}{GoalOffset: goalOffset, Seed: seed}
	for i, s := range starts {
		file.Episodes = append(file.Episodes, authorsEpisode{40000 + 10000*(seed-101) + i, i, s.Row + goalOffset, s.Row, s.Trajectory})
	}
	b, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		panic("eval: a set does not marshal: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// SolvedStarts returns the number of valid starts of a data set, and of those that meet
// their goal already by the task's own rule. progress may be nil.
func (d *Data) SolvedStarts(ctx context.Context, progress func(done, total int64, note string)) (solved, starts int64, err error) {
	eps := d.Episodes()
	worlds := make([]envs.Env, parallel.Workers(0, len(eps)))
	for w := range worlds {
		if worlds[w], err = d.world(); err != nil {
			return 0, 0, fmt.Errorf("testing the starts of %s: %w", d.task.Spec.Name, err)
		}
		defer worlds[w].Close()
	}
	var good, all atomic.Int64
	total := int64(len(newTable(d.lengths()).Valid(d.rules.GoalOffset)))
	err = parallel.For(ctx, len(worlds), len(eps), func(w, i int) error {
		for row := range max(eps[i].Len-d.rules.GoalOffset, 0) {
			if err := d.setTo(worlds[w], Start{i, row}, d.task.Spec.Name, "solved"); err != nil {
				return err
			}
			if worlds[w].Solved() {
				good.Add(1)
			}
			if n := all.Add(1); progress != nil && n%256 == 0 {
				progress(n, total, "starts")
			}
		}
		return nil
	})
	return good.Load(), all.Load(), err
}
