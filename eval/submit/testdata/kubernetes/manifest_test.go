// Package kubernetes compares what we write for Kubernetes with Kubernetes' own types. It
// is a module of its own, so that the program's has none of theirs: make test-kubernetes.
package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Every manifest that SCALEWM_MANIFESTS matches, and the one of the program's own tests, decodes without
// a key that nobody knows, and asks for what it is meant to.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob(os.Getenv("SCALEWM_MANIFESTS"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../job.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var job batch.Job
		if err := yaml.UnmarshalStrict(text, &job); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		spec, pod := job.Spec, job.Spec.Template.Spec
		if *spec.CompletionMode != batch.IndexedCompletion || *spec.MaxFailedIndexes != *spec.Completions || *spec.Parallelism < 1 || *spec.Parallelism > *spec.Completions ||
			*spec.PodReplacementPolicy != batch.Failed || pod.RestartPolicy != core.RestartPolicyNever || len(pod.Containers) != 1 || pod.Volumes[0].PersistentVolumeClaim.ClaimName == "" {
			t.Errorf("%s: %+v", file, spec)
		}
		var rules []string
		for _, r := range spec.PodFailurePolicy.Rules {
			if r.OnExitCodes == nil {
				rules = append(rules, fmt.Sprint(r.Action, r.OnPodConditions[0].Type))
			} else {
				rules = append(rules, fmt.Sprint(r.Action, r.OnExitCodes.Values))
			}
		}
		if want := []string{"IgnoreDisruptionTarget", "FailJob[2]", "FailIndex[3]", "Ignore[75 130 143]"}; !slices.Equal(rules, want) {
			t.Errorf("%s: rules %q, want %q", file, rules, want)
		}
		memory := pod.Containers[0].Resources.Limits[core.ResourceMemory]
		if memory.IsZero() {
			t.Errorf("%s: no bound of memory", file)
		}
	}
	t.Logf("%d manifests", len(files)+1)
}
