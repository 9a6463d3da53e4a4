package replay

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"scalewm/dataset"
	"scalewm/envs"
)

// Columns with a special role.
const (
	actionColumn = "action"
	flagColumn   = "terminated"
	// substepsColumn is the column of tasks that may stop inside a step.
	substepsColumn = "substeps"
)

// widest is the largest number of values in a row of a column that is read. Wider
// ones are images.
const widest = 4096

// player replays a recording, one episode after another, in one world.
type player struct {
	opt      Options
	src      dataset.Source
	env      envs.Env
	spec     *envs.Spec
	episodes []dataset.Episode
	// drive is the column whose values are applied.
	drive string
	// goal is where the recording has its goal.
	goal goal
	// columns are those that the task produces.
	columns []*column
	// out collects what is simulated, or is nil.
	out *outcome
	// now is the episode being played.
	now recorded
	// ours and theirs are the simulated and the recorded frame.
	ours   []byte
	theirs []byte

	// rows and leftOut count the rows that were compared and those that could not be
	// simulated.
	rows, leftOut int
	flags         FlagDiff
	frames        frameDiffs
	episodeFlags  FlagDiff
	episodeFrames frameDiffs
	perEpisode    []EpisodeDiff
}

// recorded is one episode of the file, column by column.
type recorded struct {
	index int
	dataset.Episode
	width map[string]int
	data  map[string][]float64
	// goal is nil if the episode does not say its goal.
	goal envs.Row
}

// row returns a view of all columns of row t.
func (r *recorded) row(t int) envs.Row {
	row := envs.Row{}
	for name, v := range r.data {
		w := r.width[name]
		row[name] = v[t*w : (t+1)*w]
	}
	return row
}

// at returns a view of one column of row t.
func (r *recorded) at(column string, t int) []float64 {
	w := r.width[column]
	return r.data[column][t*w : (t+1)*w]
}

func newPlayer(src dataset.Source, opt Options) (*player, error) {
	env, err := openTask(src, opt.Task)
	if err != nil {
		return nil, err
	}
	p := &player{opt: opt, src: src, env: env, spec: env.Spec(), episodes: src.Episodes(),
		ours: make([]byte, envs.FrameBytes), theirs: make([]byte, envs.FrameBytes)}
	if err := p.prepare(); err != nil {
		env.Close()
		return nil, err
	}
	return p, nil
}

// prepare finds out which column to apply and which columns to compare.
func (p *player) prepare() error {
	if len(p.episodes) == 0 {
		return errors.New("the file has no episode")
	}
	if n := p.opt.Episodes; n > 0 && n < len(p.episodes) {
		p.episodes = p.episodes[:n]
	}
	width := map[string]int{}
	for _, c := range p.src.Columns() {
		if c.Width <= widest {
			width[c.Name] = c.Width
		}
	}
	p.now.width = width
	p.goal = findGoal(p.spec, width)
	if err := p.chooseDrive(width); err != nil {
		return err
	}
	for _, c := range p.spec.Columns {
		p.columns = append(p.columns, &column{Column: c, recorded: width[c.Name] == c.Width, ours: make([]float64, c.Width)})
	}
	if p.opt.Out != nil {
		p.out = newOutcome(p)
	}
	return nil
}

// chooseDrive chooses the column to apply and checks that it fits the task.
func (p *player) chooseDrive(width map[string]int) error {
	p.drive = actionColumn
	if p.opt.FromControl {
		c, ok := p.env.(envs.Controlled)
		if !ok {
			return fmt.Errorf("task %s has no controller that could be left out (hint: drop --from-ctrl)", p.spec.Name)
		}
		p.drive = c.ControlColumn()
	}
	w, ok := width[p.drive]
	if !ok {
		return fmt.Errorf("the file has no column %q to drive the task with", p.drive)
	}
	if p.drive == actionColumn && w != p.spec.ActionDim {
		return fmt.Errorf("the file's actions have %d numbers, task %s takes %d (hint: is it a recording of another task? --task NAME)", w, p.spec.Name, p.spec.ActionDim)
	}
	return nil
}

// load reads all columns of an episode.
func (p *player) load(index int, e dataset.Episode) error {
	p.now.index, p.now.Episode = index, e
	p.now.data = map[string][]float64{}
	for name := range p.now.width {
		v, err := p.src.Read(name, e.Offset, e.Offset+e.Len)
		// Integers of that size are not in a column of a task, so rounding does not
		// matter.
		if err != nil && !errors.Is(err, dataset.ErrInexact) {
			return err
		}
		p.now.data[name] = v
	}
	if e.Len > 0 {
		p.now.goal = p.goal.of(&p.now)
	}
	return nil
}

// row simulates row t and compares it.
func (p *player) row(t int) error {
	ok, err := p.simulate(t)
	if err != nil {
		return err
	}
	if !ok {
		p.leftOut++
		p.out.leaveOut()
		return nil
	}
	p.rows++
	if err := p.compareColumns(t); err != nil {
		return err
	}
	return p.compareFrame(t)
}

// simulate brings the world to row t, by a step from the row before. It returns false
// if the recording does not have enough to restart from that row.
func (p *player) simulate(t int) (bool, error) {
	if t == 0 || p.opt.OneStep {
		if exact, err := p.restart(max(t-1, 0)); err != nil || !exact {
			return false, err
		}
	}
	if t == 0 {
		return true, nil
	}
	var err error
	from := t - 1
	if c, ok := p.env.(envs.Controlled); ok && p.opt.FromControl {
		// A control is recorded with the row that it led to.
		from = t
		_, err = c.StepControl(p.now.at(p.drive, from))
	} else {
		_, err = p.env.Step(p.now.at(p.drive, from))
	}
	if err != nil {
		err = fmt.Errorf("applying %s of row %d: %w", p.drive, from, err)
	}
	return true, err
}

// restart sets the world to the recorded row t. One-step mode accepts only exact
// restarts; otherwise an episode starts as exactly as its first row allows.
func (p *player) restart(t int) (exact bool, err error) {
	row := p.now.row(t)
	err = envs.ErrNotExact
	if r, ok := p.env.(envs.Restarter); ok {
		err = r.Restart(row, t == 0)
		if errors.Is(err, envs.ErrNotExact) && p.opt.OneStep {
			return false, nil
		}
	}
	if errors.Is(err, envs.ErrNotExact) {
		err = p.env.SetState(row)
	}
	if err == nil && p.now.goal != nil {
		err = p.env.SetGoal(p.now.goal)
	}
	return true, err
}

// compareColumns compares the task's columns with row t. Columns about the step into
// the row have no meaning in row 0, and goal columns none without a goal.
func (p *player) compareColumns(t int) error {
	at, stopped := Place{p.now.index, t}, p.stoppedEarly(t)
	for _, c := range p.columns {
		compared := c.recorded && !(c.Into && t == 0) && !(c.Goal && p.now.goal == nil) && !stopped
		if !compared && p.out == nil {
			continue
		}
		if err := p.env.Observe(c.Name, c.ours); err != nil {
			return err
		}
		p.out.observe(c)
		switch {
		case !compared:
		case c.Name == flagColumn:
			p.compareFlag(c.ours[0], p.now.at(flagColumn, t)[0])
		default:
			c.compare(p.now.at(c.Name, t), at)
		}
	}
	return nil
}

// stoppedEarly reports whether the recorder's simulator may have stopped inside the step
// into row t, because it met a goal that the file does not say. Our simulation
// continued to the end of the step, so the row is not comparable.
func (p *player) stoppedEarly(t int) bool {
	stops := slices.ContainsFunc(p.columns, func(c *column) bool { return c.Name == substepsColumn })
	return stops && t > 0 && p.now.goal == nil && p.now.width[flagColumn] == 1 && p.now.at(flagColumn, t)[0] == 1
}

// compareFlag compares the success flag. A recorded NaN is not compared.
func (p *player) compareFlag(ours, theirs float64) {
	if theirs != theirs {
		return
	}
	wrong := 0
	if (ours != 0) != (theirs != 0) {
		wrong = 1
	}
	for _, f := range []*FlagDiff{&p.flags, &p.episodeFlags} {
		f.Compared++
		f.Wrong += wrong
	}
}

// compareFrame draws a frame and compares it with that of row t, if the file has
// frames.
func (p *player) compareFrame(t int) error {
	if !p.opt.Pixels {
		return nil
	}
	if err := p.env.Frame(p.ours); err != nil {
		return err
	}
	p.out.frame(p.ours)
	if p.src.FrameSize() == 0 {
		return nil
	}
	if err := p.src.Frame(p.now.Offset+t, p.theirs); err != nil {
		return err
	}
	p.frames.compare(p.ours, p.theirs)
	if p.opt.PerEpisode {
		p.episodeFrames.compare(p.ours, p.theirs)
	}
	return nil
}

// finish ends an episode: it appends its report, if requested, and passes the episode
// to the recorder.
func (p *player) finish() error {
	if p.opt.PerEpisode {
		e := EpisodeDiff{Index: p.now.index, Columns: map[string]MaxAbs{},
			Frames: p.episodeFrames.diff(), Terminated: p.episodeFlags}
		for _, c := range p.columns {
			if c.episode.Rows > 0 {
				e.Columns[c.Name] = MaxAbs{c.episode.MaxAbs}
			}
			c.episode = ColumnDiff{}
		}
		p.perEpisode = append(p.perEpisode, e)
		p.episodeFrames, p.episodeFlags = frameDiffs{}, FlagDiff{}
	}
	return p.out.finish(&p.now)
}

// goal says where a recording has its goal: a column of the file, and the name by
// which the task takes it. The zero value means that the recording has no goal.
type goal struct{ column, as string }

// findGoal looks for goal_NAME with the names of the task's goal columns, then for
// their aliases.
func findGoal(s *envs.Spec, width map[string]int) goal {
	for _, name := range s.GoalColumns {
		if _, ok := width["goal_"+name]; ok {
			return goal{"goal_" + name, name}
		}
	}
	for _, name := range s.GoalAliases {
		if _, ok := width[name]; ok {
			return goal{name, s.GoalColumns[0]}
		}
	}
	return goal{}
}

// of returns the goal of an episode, from its first row, as SetGoal takes it. NaN
// means that the episode has none.
func (g goal) of(r *recorded) envs.Row {
	if g.column == "" {
		return nil
	}
	v := r.at(g.column, 0)
	if slices.ContainsFunc(v, math.IsNaN) {
		return nil
	}
	return envs.Row{g.as: v}
}
