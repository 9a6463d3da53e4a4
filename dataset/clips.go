package dataset

// Clip is one training example: Frames frames, Skip rows apart, that never
// leave their episode. Row is the file's row of the first frame.
type Clip struct{ Episode, Row int }

// Clips lists every clip of frames frames that are skip rows apart, in
// episode-major order: every start s with s <= len - frames*skip, so that the
// last frame is followed by its whole block of skip actions (docs/sources.md#clips).
// Episodes shorter than frames*skip give none.
func Clips(src Source, frames, skip int) []Clip {
	if frames < 1 || skip < 1 {
		panic("dataset: Clips needs frames >= 1 and skip >= 1")
	}
	span, n := frames*skip, 0
	eps := src.Episodes()
	for _, e := range eps {
		n += max(0, e.Len-span+1)
	}
	clips := make([]Clip, 0, n)
	for i, e := range eps {
		for s := 0; s+span <= e.Len; s++ {
			clips = append(clips, Clip{Episode: i, Row: e.Offset + s})
		}
	}
	return clips
}
