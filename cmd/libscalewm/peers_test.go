package libscalewm

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"scalewm/envs"
	"scalewm/eval/pipeline"
	"scalewm/eval/protocol"
	"scalewm/eval/results"
	"scalewm/model"
	"scalewm/model/device"
	"scalewm/model/device/cpu"
	"scalewm/model/weights"
)

// installed builds the library and returns a folder for PYTHONPATH with the Python package.
func installed(t *testing.T) string {
	t.Helper()
	site := t.TempDir()
	if err := os.CopyFS(filepath.Join(site, "scalewm"), os.DirFS("scalewm")); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-tags", "library", "-buildmode=c-shared", "-o", filepath.Join(site, "scalewm", "libscalewm.so"), "../scalewm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the library: %v\n%s", err, out)
	}
	return site
}

// peer runs a script with the Python installation that has PyTorch, and our package.
func peer(t *testing.T, site string, args ...string) {
	t.Helper()
	cmd := exec.Command(os.Getenv("SCALEWM_PEERS"), args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+site, "STABLEWM_HOME="+t.TempDir(), "MUJOCO_GL=egl", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	t.Logf("%s", out)
}

func needPeers(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(os.Getenv("SCALEWM_PEERS")); err != nil {
		t.Skip("peers: SCALEWM_PEERS names no Python with stable-worldmodel")
	}
}

// stable-worldmodel's World drives our worlds under its own ids. From the same states and with
// the same actions they show what its own environments show.
func TestPeersWorld(t *testing.T) {
	needPeers(t)
	peer(t, installed(t), "testdata/peers_world.py")
}

// trained returns a folder with a data set of Two-Room, a small SCALE model trained on it
// briefly, and its cells of 60 episodes at T3. converted is the checkpoint for PyTorch.
func trained(t *testing.T) (dir, converted string) {
	t.Helper()
	dir = trainedOn(t, "tworoom")
	c, s, err := model.Open(dir+"/train/tworoom-scale-s3072", "")
	check(t, err)
	tensors, config, err := c.Published(5)
	check(t, err)
	converted = t.TempDir()
	check(t, os.WriteFile(filepath.Join(converted, weights.HydraName), config, 0o644))
	check(t, weights.Save(filepath.Join(converted, "weights.pt"), tensors, s))
	return dir, converted
}

// trainedOn is trained for a task, without the conversion.
func trainedOn(t *testing.T, name string) (dir string) {
	t.Helper()
	p, err := pipeline.LoadPreset("../scalewm/testdata/tiny.toml")
	check(t, err)
	p.Train.Steps = 100
	task, err := envs.Lookup(name)
	check(t, err)
	scale, err := model.LookUp("scale")
	check(t, err)
	dev, err := cpu.New(cpu.Options{})
	check(t, err)
	defer dev.Close()
	g := pipeline.Grid{Preset: *p, Tasks: []envs.Task{task}, Methods: []model.Method{scale}, Seeds: []int64{3072}, Definition: protocol.Definition{Rules: results.Published()}, Episodes: 60}
	g.Precision = string(device.FP32)
	g.Axes, err = pipeline.ParseAxes("cem", "T3", "s101")
	check(t, err)
	dir = t.TempDir()
	w := pipeline.NewWorkspace(g, dir, pipeline.Options{Workers: 2, Listener: &evaluation{}, Trainer: dev, Planner: dev})
	defer w.Close()
	failed, err := w.Graph().Run(t.Context(), w.Listener)
	check(t, err)
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A checkpoint computed by stable-worldmodel's own modules, as a cost model and as a world
// model, acts as it does natively. At most 3 of 60 episodes may end differently, since float32
// sums in another order can change the elites. It appears next to ours in comparison and report.
func TestPeersEvaluate(t *testing.T) {
	needPeers(t)
	dir, converted := trained(t)
	site := installed(t)
	peer(t, site, "testdata/peers_evaluate.py", converted, dir+"/data/tworoom.h5", dir)
	folder, err := results.Load(t.Context(), dir)
	check(t, err)
	rows := map[string][]results.Row{}
	for _, c := range folder.Cells {
		rows[c.Spec.Arm().String()] = c.Result.Rows
	}
	for _, arm := range []string{"torch@cost", "torch@world"} {
		discordant, sameSteps := 0, 0
		for i, r := range rows[arm] {
			ours := rows["scale"][i]
			if r.Success != ours.Success {
				discordant++
			}
			if r.Steps == ours.Steps {
				sameSteps++
			}
			if r.PlannerSeed != ours.PlannerSeed || r.PreSolved != ours.PreSolved || math.Abs(r.PlanCost-ours.PlanCost) > 1e-2*math.Abs(ours.PlanCost) {
				t.Errorf("%s, episode %d: %+v, natively %+v", arm, i, r, ours)
			}
		}
		t.Logf("%s: %d of %d episodes end otherwise, %d after as many steps", arm, discordant, len(rows[arm]), sameSteps)
		if len(rows[arm]) != 60 || discordant > 3 {
			t.Errorf("%s: %d of %d episodes end otherwise", arm, discordant, len(rows[arm]))
		}
	}
}

// One checkpoint plans equally in stable-worldmodel's worlds and in our ports of them: at most 2 of
// 100 episodes may end differently.
func TestPeersOutside(t *testing.T) {
	needPeers(t)
	site := installed(t)
	for _, task := range []string{"tworoom", "pusht"} {
		dir := trainedOn(t, task)
		peer(t, site, "testdata/peers_outside.py", task, dir+"/train/"+task+"-scale-s3072", dir+"/data/"+task+".h5", t.TempDir())
	}
}

// The code blocks of the page "Evaluate on your own environment" run unchanged: from recording
// Pendulum to the report, in gymnasium-robotics' maze without a data set, and in
// stable-worldmodel's Push-T.
func TestPeersOwnWorld(t *testing.T) {
	needPeers(t)
	work, site := t.TempDir(), installed(t)
	record := exec.Command("go", "run", "../scalewm", "collect", "pusht", "--episodes", "8", "--out", filepath.Join(work, "pusht.h5"))
	if out, err := record.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := exec.Command("go", "build", "-o", filepath.Join(site, "scalewm", "scalewm"), "../scalewm") // python -m scalewm
	if out, err := program.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, script := range blocks(t, "../../docs/own-world.md") {
		peer(t, site, runnable(t, work, script))
	}
	folder, err := results.Load(t.Context(), filepath.Join(work, "results"))
	check(t, err)
	var arms []string
	for _, c := range folder.Cells {
		arms = append(arms, c.Spec.Task+" "+c.Spec.Arm().String()+" "+c.Spec.World)
	}
	slices.Sort(arms)
	if want := []string{"pendulum mine@world gymnasium:Pendulum-v1", "pendulum random gymnasium:Pendulum-v1", "swm-PushT-v1 random gymnasium:swm/PushT-v1", "umaze random gymnasium:PointMaze_UMaze-v3"}; !slices.Equal(slices.Compact(arms), want) {
		t.Errorf("the page evaluated %v, want %v", arms, want)
	}
	if len(folder.Analyses) != 2 || folder.Analyses[0].Spec.Task != "pendulum" {
		t.Errorf("the page analysed %+v", folder.Analyses)
	}
}

// blocks returns the Python code of a page.
func blocks(t *testing.T, page string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	check(t, err)
	for _, block := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		out = append(out, block[1])
	}
	return out
}

// runnable returns the path of a script in work that runs there.
func runnable(t *testing.T, work, script string) string {
	t.Helper()
	path := filepath.Join(work, "page.py")
	check(t, os.WriteFile(path, fmt.Appendf(nil, "import os\nos.chdir(%q)\n%s", work, script), 0o644))
	return path
}

// The code blocks of the page "From PyTorch" run unchanged, one after the other, and train its
// models.
func TestPeersPage(t *testing.T) {
	needPeers(t)
	dir, converted := trained(t)
	work := t.TempDir()
	check(t, os.Symlink(filepath.Join(dir, "data", "tworoom.h5"), filepath.Join(work, "tworoom.h5")))
	check(t, os.Symlink(converted, filepath.Join(work, "scale-pt")))
	peer(t, installed(t), runnable(t, work, strings.Join(blocks(t, "../../docs/from-pytorch.md"), "")+"assert all(p.grad is not None for m in (small, inverse) for p in m.parameters())\n"))
	folder, err := results.Load(t.Context(), filepath.Join(work, "results"))
	check(t, err)
	var arms []string
	for _, c := range folder.Cells {
		arms = append(arms, c.Spec.Arm().String())
	}
	slices.Sort(arms)
	if want := []string{"inverse@policy", "small@world", "small@world-proposal", "torch@cost"}; !slices.Equal(arms, want) {
		t.Errorf("the page evaluated %v, want %v", arms, want)
	}
}
