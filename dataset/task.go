package dataset

import "fmt"

// CheckTask says why src is no recording with frames of a task: name and id are
// what its attribute env may say (a file without the attribute passes), and
// its actions have dim numbers.
func CheckTask(src Source, name, id string, dim int) error {
	if env, ok := src.Attr("env"); ok && env != name && env != id {
		return fmt.Errorf("it records the task %q, not %q (hint: give a data set of that task, or the --task of this one)", env, name)
	}
	if !src.HasFrames() {
		return fmt.Errorf("it has no pixels (hint: collect it again with frames, or use a file with a pixels column)")
	}
	a, err := FindColumn(src, "action")
	if err != nil {
		return err
	}
	if a.Width != dim {
		return fmt.Errorf("its actions have %d numbers, those of %s %d (hint: is this the right file?)", a.Width, name, dim)
	}
	return nil
}
