package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"scalewm/dataset/hdf5"
	"scalewm/envs"
)

// frames writes a data set of one episode of 4 rows with grey frames.
func frames(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "set.h5")
	w, err := hdf5.Create(path, hdf5.WriterOptions{FrameSize: envs.FrameSize, Columns: []envs.Column{{Name: "action", DType: "float32", Width: 5}},
		Attrs: map[string]string{"env": "tworoom"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	ep := hdf5.EpisodeData{Columns: map[string][]float64{"action": make([]float64, 20)}}
	for range 4 {
		ep.Frames = append(ep.Frames, make([]byte, envs.FrameBytes))
	}
	if err := w.Append(ep); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// A published checkpoint encodes any data set; the second time there is nothing to do.
func TestEncode(t *testing.T) {
	data, out := frames(t), filepath.Join(t.TempDir(), "z.h5")
	for _, again := range []bool{false, true} {
		text, errs, code := session("encode", "--json", "--weights", published, "--data", data, "--out", out)
		var r struct {
			Rows, Width int
			New         int  `json:"new_rows"`
			Done        bool `json:"already_done"`
		}
		if err := json.Unmarshal([]byte(text), &r); code != exitDone || err != nil {
			t.Fatalf("exit %d, %v: %s%s", code, err, text, errs)
		}
		if r.Rows != 4 || r.Width != 7 || r.Done != again || (r.New == 0) != again {
			t.Errorf("%+v", r)
		}
	}
	info, _, code := session("data", "info", out)
	if code != exitDone || !strings.Contains(info, "emb                  float32 x 7") {
		t.Errorf("data info: %s", info)
	}
}

func TestEncodeRefusals(t *testing.T) {
	data, ours := frames(t), filepath.Join(t.TempDir(), "cube")
	weightsSession(t, "convert", published, ours)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no weights":    {[]string{"--data", data, "--out", "z.h5"}, exitUsage, "--weights"},
		"no data":       {[]string{"--weights", published, "--out", "z.h5"}, exitUsage, "--data"},
		"no out":        {[]string{"--weights", published, "--data", data}, exitUsage, "--out"},
		"data as out":   {[]string{"--weights", published, "--data", data, "--out", data}, exitFailed, "holds something else"},
		"missing data":  {[]string{"--weights", ours, "--data", data + "x", "--out", "z.h5"}, exitFailed, "(hint: "},
		"wrong weights": {[]string{"--weights", data, "--data", data, "--out", "z.h5"}, exitFailed, "(hint: "},
	} {
		_, errs, code := session(append([]string{"encode"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Count(withoutNotes(errs), "\n") != 1 {
			t.Errorf("%s: exit %d, %q, want %d and %q in one line", name, code, errs, c.code, c.want)
		}
	}
	for blocks, want := range map[string]string{"0": "0 blocks of 5 rows follow the first (hint: ", "1000000000000": "0 blocks of 5 rows follow the first (hint: ", "-1": "--blocks: it must not be negative"} {
		_, errs, code := session("rollout", "--weights", published, "--data", data, "--out", "z.h5", "--blocks", blocks)
		if code != exitUsage || !strings.Contains(errs, want) || strings.Count(withoutNotes(errs), "\n") != 1 {
			t.Errorf("--blocks %s: exit %d, %q", blocks, code, errs)
		}
	}
	f, err := hdf5.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for task, want := range map[string]string{"": "", "pusht": `records the task "tworoom"`, "tworoom": "actions have 5 numbers", "chess": "chess"} {
		if err := checkEncoded(f, task); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("data of tworoom for a checkpoint of %q: %v", task, err)
		}
	}
}
