package eval

import (
	"context"
	"os"
	"strings"
	"testing"

	"scalewm/dataset/cell"
	"scalewm/eval/record"
)

// TestVerify: whole cells come out the same; a row that was changed does not,
// and of a cell from another kind of device only the outcomes count.
func TestVerify(t *testing.T) {
	ctx := context.Background()
	j := testJob(t, "T5", 3, "s101", "s102", "s103")
	store := cell.Store{Dir: t.TempDir()}
	if _, err := Verify(ctx, store, []Job{j}, 1); err == nil || !strings.Contains(err.Error(), "(hint:") {
		t.Errorf("an empty store: %v", err)
	}
	cells, _, err := Cells(ctx, store, j)
	must(t, err)
	verdicts, err := Verify(ctx, store, []Job{j}, 9)
	must(t, err)
	if len(verdicts) != 3 {
		t.Fatalf("%d verdicts on 3 cells", len(verdicts))
	}
	for _, v := range verdicts {
		if !v.Same || v.Compare != "bytes" || v.Differs != "" || v.Made != v.Now {
			t.Errorf("%+v", v)
		}
	}
	if some, err := Verify(ctx, store, []Job{j}, 2); err != nil || len(some) != 2 {
		t.Errorf("a sample of 2: %v, %v", some, err)
	}

	put := func(change func(*record.Result)) Verdict {
		c := cells[0]
		c.Result.Rows = append([]record.Row{}, c.Result.Rows...)
		change(&c.Result)
		must(t, store.Save(c.ID, record.Kind, c.Spec, c.Result))
		one := j
		one.Sets = j.Sets[:1]
		vs, err := Verify(ctx, store, []Job{one}, 1)
		must(t, err)
		return vs[0]
	}
	if v := put(func(r *record.Result) { r.Rows[1].PlanCost++ }); v.Same || !strings.HasPrefix(v.Differs, "episode 1: ") {
		t.Errorf("another cost: %+v", v)
	}
	if v := put(func(r *record.Result) { r.Device, r.Rows[1].PlanCost = "cuda/sm_90a/fp32", 0 }); !v.Same || v.Compare != "outcomes" {
		t.Errorf("another cost on another device: %+v", v)
	}
	if v := put(func(r *record.Result) { r.Device, r.Rows[2].Steps = "cuda/sm_90a/fp32", 77 }); v.Same || !strings.Contains(v.Differs, "after 77 steps") {
		t.Errorf("another outcome on another device: %+v", v)
	}
	if v := put(func(r *record.Result) { r.Rows = r.Rows[1:] }); v.Same || v.Differs != "2 episodes, now 3" {
		t.Errorf("a missing episode: %+v", v)
	}
	must(t, os.Truncate(store.Path(cells[0].ID), 30))
	vs, err := Verify(ctx, store, []Job{j}, 1)
	if err != nil || len(vs) != 2 || vs[0].ID != cells[0].ID || vs[0].Same || vs[0].Compare != "checksum" || !vs[1].Same {
		t.Errorf("a torn cell and one more: %+v, %v", vs, err)
	}
}
