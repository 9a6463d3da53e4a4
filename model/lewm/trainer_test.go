package lewm

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"scalewm/dataset/safefile/fuzztest"
	"scalewm/dataset/tensorfile"
	"scalewm/model"
	"scalewm/model/weights"
)

// variant returns a change of published tensors: it gives every name a prefix, and adds
// others, each of one number.
func variant(prefix string, others ...string) func([]tensorfile.Tensor) []tensorfile.Tensor {
	return func(ts []tensorfile.Tensor) (out []tensorfile.Tensor) {
		for _, t := range ts {
			t.Name = prefix + t.Name
			out = append(out, t)
		}
		for _, name := range others {
			out = append(out, tensorfile.Tensor{Name: name, F32: []float32{1}})
		}
		return out
	}
}

// both is a file with a second model whose numbers are half as large.
func both(first, second string) func([]tensorfile.Tensor) []tensorfile.Tensor {
	return func(ts []tensorfile.Tensor) []tensorfile.Tensor {
		out := variant(first)(ts)
		for _, t := range variant(second)(ts) {
			t.F32 = slices.Clone(t.F32)
			for i := range t.F32 {
				t.F32[i] /= 2
			}
			out = append(out, t)
		}
		return out
	}
}

// renamed is a change of the names of published tensors.
func renamed(from, to string) func([]tensorfile.Tensor) []tensorfile.Tensor {
	return func(ts []tensorfile.Tensor) []tensorfile.Tensor {
		for i := range ts {
			ts[i].Name = strings.Replace(ts[i].Name, from, to, 1)
		}
		return ts
	}
}

// Files as trainers save them give the model in them, half of it for its second model,
// and notes of the rest.
func TestLoadOfTrainers(t *testing.T) {
	_, m := stirred(t)
	want := model.Tensors(m.Dev, m)
	const left = "left out tensors that are not the model's: "
	for name, c := range map[string]struct {
		change func([]tensorfile.Tensor) []tensorfile.Tensor
		key    string
		half   bool
		notes  []string
	}{
		"bare":               {change: variant("")},
		"any prefix":         {change: variant("a.b.")},
		"compiled":           {change: variant("model._orig_mod.", "sigreg.t"), notes: []string{left + "sigreg (1)"}},
		"compiled encoder":   {change: renamed("encoder.", "encoder._orig_mod.module.")},
		"heads":              {change: variant("", "actor.a", "actor.b", "log_std"), notes: []string{left + "actor (2), log_std (1)"}},
		"heads and trainer":  {change: variant("net.", "net.actor.a", "knots"), notes: []string{left + "actor (1), knots (1)"}},
		"a copy of one part": {change: variant("", "target.encoder.embeddings.cls_token"), notes: []string{left + "target (1)"}},
		"another embedder":   {change: variant("", "actor.action_encoder.patch_embed.weight"), notes: []string{left + "actor (1)"}},
		"longer names": {change: variant("", "my_action_encoder.patch_embed.weight", "my_encoder.embeddings.cls_token"),
			notes: []string{left + "my_action_encoder (1), my_encoder (1)"}},
		"first of two":       {both("model.", "ema_model.module."), "model", false, []string{"read model; not read: ema_model"}},
		"second of two":      {both("model.", "ema_model.module."), "ema_model", true, []string{"read ema_model; not read: model"}},
		"outer":              {both("", "ema."), "", false, []string{"read the model without a prefix; not read: ema"}},
		"inner":              {both("", "ema."), "ema", true, []string{"read ema; not read: the model without a prefix"}},
		"last part of a key": {both("a.model.", "a.ema."), "ema", true, []string{"read a.ema; not read: a.model"}},
	} {
		got, side, err := model.Open(publish(t, m, c.change), c.key)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Equal(side.Notes, c.notes) {
			t.Errorf("%s: notes %q, want %q", name, side.Notes, c.notes)
		}
		for i, w := range want {
			scaled := slices.Clone(w.F32)
			for k := range scaled {
				if c.half {
					scaled[k] /= 2
				}
			}
			if g := got.Tensors[i]; g.Name != w.Name || !slices.Equal(g.F32, scaled) {
				t.Fatalf("%s: %s differs", name, w.Name)
			}
		}
	}
}

func TestLoadOfTrainersRefuses(t *testing.T) {
	_, m := stirred(t)
	for name, c := range map[string]struct {
		change    func([]tensorfile.Tensor) []tensorfile.Tensor
		key, want string
	}{
		"two models":       {both("model.", "ema_model."), "", "2 models, whose results differ (hint: choose one with --key NAME: ema_model, model)"},
		"no such key":      {both("model.", "ema_model."), "best", `no model under the key "best" (hint: --key NAME is one of ema_model, model)`},
		"a key of both":    {both("a.model.", "b.model."), "model", "2 models"},
		"a part of a key":  {both("model.", "ema_model."), "ema", "no model under the key"},
		"one model":        {variant("model."), "ema", `one of model)`},
		"two spellings":    {variant("", "encoder._orig_mod.embeddings.cls_token"), "", "are both"},
		"spellings beside": {variant("net.", "net.encoder._orig_mod.embeddings.cls_token"), "", "are both"},
		"geometry":         {variant("net.", "net.encoder.pooler.bias"), "", "does not have: encoder.pooler.bias"},
		"a missing tensor": {renamed("pred_proj.net.0.bias", "head.bias"), "", `no tensor "pred_proj.net.0.bias"`},
		"no root":          {renamed("encoder.embeddings.cls_token", "head.bias"), "", `no tensor "encoder.embeddings.cls_token"`},
		"no mark":          {renamed("action_encoder.patch_embed", "head"), "", "match no family"},
		"another model":    {renamed("encoder", "backbone"), "", "match no family"},
	} {
		_, _, err := model.Open(publish(t, m, c.change), c.key)
		refused(t, name, err, c.want)
	}
	_, _, err := model.Open(saved(t, m, func(*weights.Sidecar) {}), "model")
	refused(t, "a key for our own file", err, "leave --key out")
}

// A file that Lightning's trainer and a moving average made (testdata/trainer.py), with one
// tensor of both models according to PyTorch. Each model has its own hash.
func TestLoadOfLightning(t *testing.T) {
	var want map[string][]float64
	b, err := os.ReadFile("testdata/trainer/expected.json")
	if err == nil {
		err = json.Unmarshal(b, &want)
	}
	if err != nil || len(want) != 2 {
		t.Fatal(want, err)
	}
	_, _, err = model.Open("testdata/trainer", "")
	refused(t, "no key", err, "--key NAME: state_dict, ema.weights")
	hashes := map[string]bool{}
	for key, values := range want {
		for _, path := range []string{"testdata/trainer", "testdata/trainer/last.ckpt"} {
			c, side, err := model.Open(path, key)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Tensors[0]; got.Name != "encoder.embeddings.cls_token" || !slices.Equal(got.Float64(), values) {
				t.Errorf("%s: %s is %v, want %v", key, got.Name, got.Float64(), values)
			}
			hashes[side.SHA256] = true
			described, err := model.Describe(path, key)
			if err != nil || described.SHA256 != side.SHA256 || !slices.Equal(described.Notes, side.Notes) || len(side.Notes) != 2 {
				t.Errorf("%s: %+v, %v, want %+v", key, described, err, side)
			}
		}
	}
	if len(hashes) != 2 {
		t.Errorf("hashes %v", hashes)
	}
}

// No names of tensors make Read panic, loop or return an error without a hint.
func FuzzNames(f *testing.F) {
	const mark, root = "action_encoder.patch_embed.weight", "encoder.embeddings.cls_token"
	f.Add(mark+" "+root, "")
	f.Add("model."+mark+" model."+root+" ema._orig_mod."+mark+" ema."+root+" actor.w", "ema")
	f.Add(mark+" "+root+" a."+mark+" a."+root+" a.a."+mark+" a.a."+root, "a.a")
	config, err := os.ReadFile("testdata/trainer/config.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, names, key string) {
		var ts []tensorfile.Tensor
		for _, name := range strings.Fields(names) {
			if utf8.ValidString(name) && name != "__metadata__" {
				ts = append(ts, tensorfile.Tensor{Name: name, F32: []float32{1}})
			}
		}
		var b bytes.Buffer
		if err := tensorfile.Write(&b, nil, ts); err != nil {
			t.Fatal(err)
		}
		file, err := tensorfile.Parse(b.Bytes())
		if err != nil { // two tensors of one name
			return
		}
		fuzztest.Read(t, b.Len(), func() {
			if _, err := model.Read(file, &weights.Sidecar{Kind: weights.Published, Config: config}, key); err == nil || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("%q, key %q: %v", names, key, err)
			}
		})
	})
}
