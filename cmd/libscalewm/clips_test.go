package libscalewm

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset"
	"scalewm/dataset/collect"
	"scalewm/dataset/hdf5"
)

// recorded returns the path of a small data set of Two-Room.
func recorded(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tworoom.h5")
	job, err := collect.Prepare(t.Context(), path, collect.Spec{Task: "tworoom", Policy: "uniform", Episodes: 3, Seed: 1})
	check(t, err)
	defer job.Close()
	_, err = job.Run(t.Context(), 0, func(int64, int64, string) {})
	check(t, err)
	return path
}

// clipsOf opens the clips of a data set and returns their handle.
func clipsOf(t *testing.T, request map[string]any) (handle uint64, about map[string]any) {
	t.Helper()
	handle = uint64(must(t, "clips.new", 0, request)["handle"].(float64))
	t.Cleanup(func() { try("close", handle, nil) })
	about = must(t, "clips.open", handle, nil)
	for about["want"] != "done" {
		about = must(t, "clips.open", handle, nil)
	}
	return handle, about
}

// Steps are the batches that a training run with the same seed and protocol loads, over two
// epochs and in any order of requests. Clips can be fetched by their numbers.
func TestClipsAreTraining(t *testing.T) {
	const batch, frames, skip, size, seed, actions = 4, 2, 5, 32, 7, 2
	path := recorded(t)
	src, err := hdf5.Open(path)
	check(t, err)
	defer src.Close()
	small, err := dataset.Resized(t.Context(), src, dataset.ResizeOptions{Size: size, Path: path}, func(int64, int64, string) {})
	check(t, err)
	defer small.Close()
	for _, protocol := range []dataset.Protocol{dataset.Paper, dataset.Strict} {
		cuts, err := dataset.Cut(src, protocol, frames, skip, seed)
		check(t, err)
		loader, err := dataset.NewLoader(src, small, cuts.Train, dataset.LoaderOptions{Batch: batch, Frames: frames, Skip: skip, Seed: seed, Action: cuts.Action})
		check(t, err)
		defer loader.Close()
		h, about := clipsOf(t, map[string]any{"path": path, "frames": frames, "skip": skip, "size": size, "split": "train", "seed": seed, "protocol": protocol, "columns": []string{"proprio"}})
		if about["clips"] != float64(len(cuts.Train)) {
			t.Fatalf("%s: %v clips, %d in training", protocol, about["clips"], len(cuts.Train))
		}
		memory := func() [][]byte {
			n := batch * frames
			return [][]byte{make([]byte, n*size*size*3), memoryOfNumbers(n*skip*actions, 4), memoryOfNumbers(n, 4), memoryOfNumbers(batch, 4), memoryOfNumbers(n*2, 4)}
		}
		epoch := len(cuts.Train) / batch
		for _, step := range []int{0, 1, epoch + 1, 3, epoch - 1} {
			want, err := loader.Batch(t.Context(), step)
			check(t, err)
			got := memory()
			must(t, "clips.step", h, map[string]any{"batch": batch, "step": step}, got...)
			expect := [][]byte{want.Pixels, bytesOf(want.Actions), bytesOf(want.Rows), bytesOf(want.Episode)}
			for i := range expect {
				if !bytes.Equal(got[i], expect[i]) {
					t.Fatalf("%s: step %d: buffer %d is not the training's", protocol, step, i)
				}
			}
			var numbers []int64
			for _, c := range want.Clips {
				for i, clip := range cuts.Train {
					if clip == c {
						numbers = append(numbers, int64(i))
					}
				}
			}
			again := memory()
			must(t, "clips.clip", h, nil, append([][]byte{bytesOf(numbers)}, again...)...)
			for i := range got {
				if !bytes.Equal(got[i], again[i]) {
					t.Fatalf("%s: step %d: buffer %d differs when its clips are asked for by number", protocol, step, i)
				}
			}
		}
	}
}

func TestClipsMisuse(t *testing.T) {
	path := recorded(t)
	fine := map[string]any{"path": path, "frames": 1, "skip": 5, "split": "all", "seed": 1, "protocol": "paper"}
	with := func(key string, value any) map[string]any {
		m := map[string]any{}
		for k, v := range fine {
			m[k] = v
		}
		m[key] = value
		return m
	}
	for want, request := range map[string]map[string]any{
		"frames and skip from 1":  with("frames", 0),
		"split train, val or all": with("split", "test"),
		"unknown protocol":        with("protocol", "loose"),
		"nosuch.h5":               with("path", filepath.Join(t.TempDir(), "nosuch.h5")),
		"no episode has the 505":  with("frames", 101),
		"nosuch":                  with("columns", []string{"nosuch"}),
		"the column action is part of the clips already (hint": with("columns", []string{"action"}),
		"the column state is part":                             with("columns", []string{"state", "state"}),
		"clips of 1 frames, -1 rows":                           with("skip", -1),
	} {
		answer, err := try("clips.new", 0, request)
		if err == nil {
			h := uint64(answer["handle"].(float64))
			for answer["want"] != "done" && err == nil {
				answer, err = try("clips.open", h, nil)
			}
			try("close", h, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want words on %q", request, err, want)
		}
	}
	h, _ := clipsOf(t, fine)
	numbers, pixels, rest := seedsOf(1, 1e9), make([]byte, 224*224*3), [][]byte{memoryOfNumbers(10, 4), memoryOfNumbers(1, 4), memoryOfNumbers(1, 4)}
	for want, args := range map[string]struct {
		op      string
		request any
		buffers [][]byte
	}{
		"loading clip 1000000000":          {"clips.clip", nil, append([][]byte{numbers, pixels}, rest...)},
		"buffer 0 of clips":                {"clips.clip", nil, append([][]byte{seedsOf(1, 0), pixels[1:]}, rest...)},
		"2 buffers, not 4":                 {"clips.clip", nil, [][]byte{seedsOf(1, 0), pixels, rest[0]}},
		"the buffer of numbers is missing": {"clips.clip", nil, nil},
		"step -1 of batches":               {"clips.step", map[string]any{"batch": 1, "step": -1}, append([][]byte{pixels}, rest...)},
		"step 0 of batches of 0":           {"clips.step", map[string]any{"batch": 0, "step": 0}, append([][]byte{pixels}, rest...)},
		"gives only":                       {"clips.step", map[string]any{"batch": 1 << 40, "step": 0}, append([][]byte{pixels}, rest...)},
		"numbers of clips: the mem":        {"clips.clip", nil, append([][]byte{memoryOfNumbers(17, 1)[1:], pixels}, rest...)},
	} {
		if _, err := try(args.op, h, args.request, args.buffers...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %v: %v, want words on %q", args.op, args.request, err, want)
		}
	}
}

// Clips equal those of stable-worldmodel's loader on the same file, and pass through torch's
// DataLoader.
func TestPeersData(t *testing.T) {
	needPeers(t)
	peer(t, installed(t), "testdata/peers_data.py", recorded(t))
}
